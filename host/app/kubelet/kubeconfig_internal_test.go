package kubelet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/consumer/reflection/facts"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func kubeconfigSecret(t *testing.T, token string) *corev1.Secret {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["milan"] = &clientcmdapi.Cluster{Server: "https://milan"}
	config.AuthInfos["rome"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["milan"] = &clientcmdapi.Context{Cluster: "milan", AuthInfo: "rome"}
	config.CurrentContext = "milan"
	raw, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "kubeconfig"}, Data: map[string][]byte{"kubeconfig": raw}}
}

// nodeWith returns a virtual kubelet, with the client of its consumer.
func nodeWith(c client.Client) *App {
	v := &App{
		client: c, kubeconfigChanged: make(chan struct{}, 1), facts: facts.New(remote.Origin{NodeName: "milan"}, nil),
		options: &Options{TenantNamespace: "liqo-tenant-milan", ForeignKubeconfigSecretName: "kubeconfig", NodeName: "milan"},
	}
	v.facts.SetVirtualNode(&offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}})
	return v
}

// The request for a changed Secret may fail. Without another attempt the session would keep the
// previous credentials until the Secret changes again.
func TestAKubeconfigThatCouldNotBeReadIsReadAgain(t *testing.T) {
	secret, failures := kubeconfigSecret(t, "new"), 1
	c := fakeclient.Builder(secret).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, isSecret := object.(*corev1.Secret); isSecret && failures > 0 {
				failures--
				return apierrors.NewServiceUnavailable("etcd has no leader")
			}
			return c.Get(ctx, key, object, options...)
		},
	}).Build()
	synctest.Test(t, func(t *testing.T) {
		v := nodeWith(c)
		previous := &rest.Config{Host: "https://milan", BearerToken: "old"}
		assert.Nil(t, v.nextKubeconfig(t.Context(), previous))
		events := &corev1.EventList{}
		require.NoError(t, c.List(t.Context(), events))
		assert.Empty(t, events.Items, "the kubeconfig is not broken")

		select {
		case <-v.kubeconfigChanged:
		case <-time.After(time.Minute):
			t.Fatal("the kubeconfig is not read again")
		}
		next := v.nextKubeconfig(t.Context(), previous)
		require.NotNil(t, next)
		assert.Equal(t, "new", next.BearerToken)
	})
}

func TestABrokenKubeconfigIsReportedOnce(t *testing.T) {
	secret := kubeconfigSecret(t, "new")
	secret.Data["kubeconfig"] = []byte("rubbish")
	c := fakeclient.Builder(secret).Build()
	synctest.Test(t, func(t *testing.T) {
		v := nodeWith(c)
		assert.Nil(t, v.nextKubeconfig(t.Context(), &rest.Config{}))
		events := &corev1.EventList{}
		require.NoError(t, c.List(t.Context(), events))
		require.Len(t, events.Items, 1)
		assert.Equal(t, reasonBrokenKubeconfig, events.Items[0].Reason)
		select {
		case <-v.kubeconfigChanged:
			t.Fatal("only a change of the Secret helps")
		case <-time.After(time.Minute):
		}
	})
}
