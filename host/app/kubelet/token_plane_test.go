package kubelet_test

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/custom"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// tokenKey is the key of the token of podWithToken in its remote Secret.
const tokenKey = "identity-3c469e"

func podWithToken(name string, annotations map[string]string) *corev1.Pod {
	pod := webPod()
	pod.Name, pod.Annotations, pod.Spec.ServiceAccountName = name, annotations, "reader"
	pod.Spec.Volumes = []corev1.Volume{{Name: "identity", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](600)}}},
	}}}}
	return pod
}

// userOf returns the user that the consumer's API server takes the bearer of a token for.
func (r *rig) userOf(t planetest.T, token []byte) (string, error) {
	t.Helper()
	config := rest.AnonymousClientConfig(r.consumer.RESTConfig())
	config.BearerToken = string(token)
	c, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

// grantTokens creates the role that the chart adds with virtualKubelet.apiServerAccess.
func (r *rig) grantTokens() {
	r.t.Helper()
	r.create(r.rome, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "tokens", Labels: map[string]string{custom.AggregateToLocal: "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}}},
	})
	planetest.Until(r.t, func(t planetest.T) bool {
		role := &rbacv1.ClusterRole{}
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Name: virtualkubelet.NamespaceRole}, role))
		return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "serviceaccounts/token") })
	}, soon, tick, "the role of offloaded namespaces has the rule")
}

// watchOrder returns a function that returns in which order the Secret and the ShadowPod of a pod were created.
func (r *rig) watchOrder() func(pod string) []string {
	r.t.Helper()
	config := rest.CopyConfig(r.provider.RESTConfig())
	milan, err := client.NewWithWatch(config, client.Options{Scheme: r.milan.Scheme()})
	require.NoError(r.t, err)
	secrets := planetest.Watch(r.t, milan, &corev1.Secret{}, &corev1.SecretList{}, client.InNamespace("shop-rome"))
	shadows := planetest.Watch(r.t, milan, &offloadingv1beta1.ShadowPod{}, &offloadingv1beta1.ShadowPodList{}, client.InNamespace("shop-rome"))
	return func(pod string) []string {
		created := func(events <-chan watch.Event, name string) int {
			for {
				select {
				case event := <-events:
					if object, ok := event.Object.(client.Object); ok && event.Type == watch.Added && object.GetName() == name {
						version, err := strconv.Atoi(object.GetResourceVersion())
						require.NoError(r.t, err)
						return version
					}
				case <-r.t.Context().Done():
					return 0
				}
			}
		}
		if created(secrets, pod+"-token") < created(shadows, pod) {
			return []string{"Secret", "ShadowPod"}
		}
		return []string{"ShadowPod", "Secret"}
	}
}

// Remote pods reach the consumer's API server with tokens of their own service account, which
// are renewed and withdrawn.
func TestTokensOfRemotePods(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runManager()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "reader"}})
	r.mapNamespace()
	endpoint, err := url.Parse(r.consumer.RESTConfig().Host)
	require.NoError(t, err)
	options := r.options()
	r.grantTokens()
	options.EnableAPIServerSupport = true
	options.HomeAPIServerHost, options.HomeAPIServerPort, err = net.SplitHostPort(endpoint.Host)
	require.NoError(t, err)
	r.runKubelet(options)

	order := r.watchOrder()
	pod := podWithToken("web", nil)
	r.create(r.rome, podWithToken("declines", map[string]string{offloadingv1beta1.APIServerSupportAnnotation: "disabled"}), pod)
	secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: "shop-rome", Name: "web-token"}
	await := func(what string, ok func() bool) {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool {
			err := r.milan.Get(t.Context(), key, secret)
			if err != nil {
				require.True(t, apierrors.IsNotFound(err), "%v", err)
			}
			return err == nil && ok()
		}, soon, tick, what)
	}
	await("the tokens are in the provider", func() bool { return true })
	user, err := r.userOf(t, secret.Data[tokenKey])
	require.NoError(t, err)
	assert.Equal(t, "system:serviceaccount:shop:reader", user)
	assert.Equal(t, string(pod.UID), secret.Annotations[remote.TokenPodUIDKey])

	remotePod := &corev1.Pod{}
	planetest.Until(t, func(t planetest.T) bool {
		err := r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "web"}, remotePod)
		require.NoError(t, client.IgnoreNotFound(err))
		return err == nil
	}, soon, tick, "the remote pod follows")
	assert.Equal(t, "web-token", remotePod.Spec.Volumes[0].Projected.Sources[0].Secret.Name)
	assert.Contains(t, remotePod.Spec.Containers[0].Env, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: options.HomeAPIServerHost})
	assert.NotEqual(t, "reader", remotePod.Spec.ServiceAccountName)

	assert.Equal(t, []string{"Secret", "ShadowPod"}, order("web"), "the remote kubelet finds the tokens")
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		return pod.Labels[offloadingv1beta1.LocalPodLabel] == "true"
	}, soon, tick, "the pod counts as offloaded: until then tokens are not renewed")

	// The end of their life is near.
	first, uid := secret.Data[tokenKey], secret.UID
	patch := `{"metadata":{"annotations":{"` + remote.TokenExpirationKey + `":"` + time.Now().UTC().Format(time.RFC3339) + `"}}}`
	require.NoError(t, r.milan.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(patch))))
	await("they are renewed", func() bool { return string(secret.Data[tokenKey]) != string(first) })
	assert.Equal(t, uid, secret.UID, "in place: the remote kubelet updates the volume")
	require.NoError(t, r.milan.Delete(t.Context(), secret))
	await("a deleted Secret comes back", func() bool { return secret.UID != uid })

	token := secret.Data[tokenKey]
	require.NoError(t, r.rome.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	planetest.Until(t, func(t planetest.T) bool {
		return apierrors.IsNotFound(r.milan.Get(t.Context(), key, secret))
	}, soon, tick, "the tokens of a deleted pod are deleted")
	planetest.Until(t, func(t planetest.T) bool {
		_, err := r.userOf(t, token)
		return apierrors.IsUnauthorized(err)
	}, soon, tick, "and void")
	shadow := &offloadingv1beta1.ShadowPod{}
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "declines"}, shadow))
	assert.Empty(t, shadow.Spec.Pod.Volumes[0].Projected.Sources)
	err = r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "declines-token"}, secret)
	assert.True(t, apierrors.IsNotFound(err), "a pod that declines access has no tokens in the provider (T31): %v", err)
}
