package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

const (
	patience = time.Minute
	every    = 10 * time.Millisecond

	consumerTenant, providerTenant = "liqo-tenant-milan", "liqo-tenant-rome"

	kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: milan, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: milan, user: u}}]
current-context: c
`
)

var nsMaps = offloadingv1beta1.GroupVersion.WithResource("namespacemaps")

// dynamicClient returns a client whose watches lose no events. A watch of the fake begins with the
// next change, and not with the resource version of the list before it: if objects have changed
// since that list, the watch is refused as one that is too old, and the reflector lists again.
func dynamicClient(objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	c := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{nsMaps: "NamespaceMapList"}, objects...)
	// The fake calls its reactors one at a time.
	changes, listed := 0, map[string]int{}
	c.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action.GetVerb() {
		case "list":
			// One object is listed before each watch, only for the resource version (restore.Detect).
			if list, ok := action.(clienttesting.ListActionImpl); ok && list.ListOptions.Limit != 1 {
				listed[action.GetNamespace()] = changes
			}
		case "create", "update", "patch", "delete":
			changes++
		default:
		}
		return false, nil, nil
	})
	c.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if listed[action.GetNamespace()] != changes {
			return true, nil, apierrors.NewResourceExpired("objects have changed since the list")
		}
		return false, nil, nil
	})
	return c
}

// ownObject returns the local object that is replicated to milan, and copied its remote copy.
func ownObject(changes ...change) *unstructured.Unstructured {
	return object(append([]change{func(u *unstructured.Unstructured) {
		u.SetNamespace(consumerTenant)
		u.SetLabels(map[string]string{liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: "milan"})
	}}, changes...)...)
}

func copied() *unstructured.Unstructured {
	u := forgeCopy(ownObject(), "rome", providerTenant) // From the consumer's tenant namespace.
	u.SetUID("copy")
	return u
}

func secret(changes ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "kubeconfig", Namespace: consumerTenant, Finalizers: []string{liqocorev1beta1.ReplicatorSecretFinalizer},
			Labels: map[string]string{
				liqocorev1beta1.RemoteClusterIDLabel: "milan", authv1beta1.IdentityTypeLabel: string(authv1beta1.ControlPlaneIdentityType),
			},
			Annotations: map[string]string{authv1beta1.RemoteTenantNamespaceAnnotation: providerTenant},
		},
		Data: map[string][]byte{"kubeconfig": []byte(kubeconfig)},
	}
	for _, c := range changes {
		c(s)
	}
	return s
}

type fixture struct {
	*Reconciler
	local, remote *dynamicfake.FakeDynamicClient
	events        *events.FakeRecorder
}

func newFixture(t *testing.T, local, remote *dynamicfake.FakeDynamicClient, objects ...client.Object) fixture {
	t.Helper()
	recorder := events.NewFakeRecorder(10)
	ctx, cancel := context.WithCancel(t.Context())
	c := fakeclient.Builder(append(objects, namespace(consumerTenant, "milan"))...).Build()
	w := fixture{local: local, remote: remote, events: recorder, Reconciler: &Reconciler{
		Client: c, Events: recorder,
		Options: Options{
			ClusterID: "rome", Resources: []schema.GroupVersionResource{nsMaps}, Local: local, Now: time.Now,
			Connect: func(*rest.Config) (dynamic.Interface, error) { return remote, nil },
		},
		base: ctx, running: map[client.ObjectKey]*session{}, released: map[client.ObjectKey]string{},
	}}
	t.Cleanup(func() {
		cancel()
		for _, running := range w.running {
			<-running.done
		}
	})
	return w
}

// pass reconciles the Secret as it is in the cluster.
func (w fixture) pass(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	return w.reconcileKey(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(secret())})
}

func get(t planetest.T, c dynamic.Interface, namespace string) *unstructured.Unstructured {
	t.Helper()
	u, err := c.Resource(nsMaps).Namespace(namespace).Get(t.Context(), "milan", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return u
}

func TestObjectsAndTheirStatusAreReplicated(t *testing.T) {
	w := newFixture(t, dynamicClient(ownObject()), dynamicClient(), secret())
	_, err := w.pass(t)
	require.NoError(t, err)
	planetest.Until(t, func(t planetest.T) bool { return get(t, w.remote, providerTenant) != nil }, patience, every)
	assert.Equal(t, []string{liqocorev1beta1.ReplicatorFinalizer}, get(t, w.local, consumerTenant).GetFinalizers())
	there := get(t, w.remote, providerTenant)
	withStatus(there)
	_, err = w.remote.Resource(nsMaps).Namespace(providerTenant).UpdateStatus(t.Context(), there, metav1.UpdateOptions{})
	require.NoError(t, err)
	planetest.Until(t, func(t planetest.T) bool { return get(t, w.local, consumerTenant).Object["status"] != nil }, patience, every)
}

func TestWithdrawalContinuesAfterARestart(t *testing.T) {
	now := metav1.Now()
	going := func(s *corev1.Secret) { s.DeletionTimestamp = &now }
	w := newFixture(t, dynamicClient(ownObject(finalized, deleting)), dynamicClient(copied()), secret(going))
	result, err := w.pass(t)
	require.NoError(t, err)
	assert.Positive(t, result.RequeueAfter, "the credential stays while it is needed")
	planetest.Until(t, func(t planetest.T) bool { return get(t, w.remote, providerTenant) == nil }, patience, every, "the copy is deleted")
	planetest.Until(t, func(t planetest.T) bool { return len(get(t, w.local, consumerTenant).GetFinalizers()) == 0 }, patience, every, "and lets its original go")

	require.NoError(t, w.local.Resource(nsMaps).Namespace(consumerTenant).Delete(t.Context(), "milan", metav1.DeleteOptions{}))
	_, err = w.pass(t)
	require.NoError(t, err)
	err = w.Client.Get(t.Context(), client.ObjectKeyFromObject(secret()), &corev1.Secret{})
	assert.True(t, apierrors.IsNotFound(err), "the Secret is released last")
	assert.Empty(t, w.running)
}

func TestAnObjectOfAnUnreachablePeerIsReleased(t *testing.T) {
	remote := dynamicClient()
	remote.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	dead := &liqocorev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Annotations: map[string]string{liqocorev1beta1.PermanentlyUnreachableAnnotation: "true"}},
		Spec:       liqocorev1beta1.ForeignClusterSpec{ClusterID: "milan"},
	}
	w := newFixture(t, dynamicClient(ownObject(finalized, deleting)), remote, secret(), dead)
	_, err := w.pass(t)
	require.NoError(t, err)
	planetest.Until(t, func(t planetest.T) bool { return len(get(t, w.local, consumerTenant).GetFinalizers()) == 0 }, patience, every)
}

// settled waits until the only reflector has looked at all objects of both clusters.
func (w fixture) settled(t *testing.T) {
	t.Helper()
	var looks *reflector
	planetest.Until(t, func(planetest.T) bool {
		w.locals.mu.Lock()
		defer w.locals.mu.Unlock()
		for r := range w.locals.reflectors {
			looks = r
		}
		return looks != nil
	}, patience, every)
	planetest.Until(t, func(planetest.T) bool { return looks.remotes[nsMaps].hasSynced() && looks.queue.Len() == 0 }, patience, every)
}

// TestAPeerThatIsNotLostAnyMoreGetsAllObjects looks at the objects while the peer counts as lost: at a new
// one, and at a copy whose object is gone.
func TestAPeerThatIsNotLostAnyMoreGetsAllObjects(t *testing.T) {
	lost := &liqocorev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Annotations: map[string]string{liqocorev1beta1.PermanentlyUnreachableAnnotation: "true"}},
		Spec:       liqocorev1beta1.ForeignClusterSpec{ClusterID: "milan"},
	}
	found := lost.DeepCopy()
	found.Annotations = nil
	for name, tell := range map[string]func(*testing.T, fixture){
		"the annotation is removed": func(t *testing.T, w fixture) {
			t.Helper()
			w.lossHandler().UpdateFunc(t.Context(), event.UpdateEvent{ObjectOld: lost, ObjectNew: found}, nil)
		},
		"the ForeignCluster is deleted": func(t *testing.T, w fixture) {
			t.Helper()
			w.lossHandler().DeleteFunc(t.Context(), event.DeleteEvent{Object: lost}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, dynamicClient(ownObject(func(u *unstructured.Unstructured) { u.SetName("new") })), dynamicClient(copied()), secret(), lost.DeepCopy())
			exists := func(t planetest.T, name string) bool {
				_, err := w.remote.Resource(nsMaps).Namespace(providerTenant).Get(t.Context(), name, metav1.GetOptions{})
				return err == nil
			}
			_, err := w.pass(t)
			require.NoError(t, err)
			w.settled(t)
			require.NoError(t, w.Client.Delete(t.Context(), lost.DeepCopy()))
			assert.False(t, exists(t, "new"), "nothing is sent to a cluster that is lost")
			assert.True(t, exists(t, "milan"))

			tell(t, w)
			planetest.Until(t, func(t planetest.T) bool { return exists(t, "new") && !exists(t, "milan") }, patience, every)
		})
	}
}

func TestErrorsAreRecordedOnTheObject(t *testing.T) {
	forbidden := func(verb string) clienttesting.ReactionFunc {
		return func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(nsMaps.GroupResource(), "milan", errors.New("rome may not "+verb))
		}
	}
	for name, tc := range map[string]struct {
		verb  string
		err   error
		there []runtime.Object
		want  string
	}{
		"creating is forbidden":            {verb: "create", want: "rome may not create"},
		"listing is forbidden":             {verb: "list", want: "rome may not list"},
		"an unmanaged object has the name": {there: []runtime.Object{object(func(u *unstructured.Unstructured) { u.SetNamespace(providerTenant) })}, want: "has an unmanaged object with this name"},
		"the provider has too many copies": {there: tooManyCopies(), want: "have more than 8 MiB: delete there what is not needed"},
		"the provider answers too much":    {verb: "list", err: &remotecluster.TooLargeError{Limit: 16 << 20}, want: "cannot be read, since the answer is larger than 16 MiB: delete there what is not needed"},
	} {
		t.Run(name, func(t *testing.T) {
			remote := dynamicClient(tc.there...)
			if tc.err != nil {
				remote.PrependReactor(tc.verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, fmt.Errorf("reading the answer: %w", tc.err)
				})
			} else if tc.verb != "" {
				remote.PrependReactor(tc.verb, "*", forbidden(tc.verb))
			}
			w := newFixture(t, dynamicClient(ownObject()), remote, secret())
			_, err := w.pass(t)
			require.NoError(t, err)
			event := <-w.events.Events
			assert.True(t, strings.HasPrefix(event, "Warning "+reasonNotReplicated+" "), event)
			assert.Contains(t, event, tc.want)
		})
	}
}

func TestAnInvalidKubeconfigDoesNotStopTheReflector(t *testing.T) {
	w := newFixture(t, dynamicClient(), dynamicClient(), secret())
	_, err := w.pass(t)
	require.NoError(t, err)
	key := client.ObjectKeyFromObject(secret())
	before := w.running[key]
	require.NotNil(t, before)

	broken := &corev1.Secret{}
	require.NoError(t, w.Client.Get(t.Context(), key, broken))
	broken.Data["kubeconfig"] = []byte("{")
	require.NoError(t, w.Client.Update(t.Context(), broken))
	_, err = w.pass(t)
	require.ErrorContains(t, err, "is not a kubeconfig")
	require.Len(t, w.events.Events, 1)
	assert.True(t, strings.HasPrefix(<-w.events.Events, "Warning "+reasonInvalidKubeconfig+" "))
	require.Same(t, before, w.running[key])
	select {
	case <-before.done:
		assert.Fail(t, "the replication that ran has ended")
	default:
	}
}

func TestAnotherKubeconfigReplacesTheSession(t *testing.T) {
	w := newFixture(t, dynamicClient(), dynamicClient(), secret())
	_, err := w.pass(t)
	require.NoError(t, err)
	key := client.ObjectKeyFromObject(secret())
	before := w.running[key]
	changed := &corev1.Secret{}
	require.NoError(t, w.Client.Get(t.Context(), key, changed))
	changed.Annotations[authv1beta1.RemoteTenantNamespaceAnnotation] = "other"
	require.NoError(t, w.Client.Update(t.Context(), changed))
	_, err = w.pass(t)
	require.NoError(t, err)
	assert.NotSame(t, before, w.running[key])
	<-before.done
}

func TestASecretThatIsNotAKubeconfigAnyMoreIsReleased(t *testing.T) {
	cases := map[string]func(*testing.T, fixture){
		"it is gone": func(t *testing.T, w fixture) {
			t.Helper()
			require.NoError(t, w.Client.Update(t.Context(), secret(func(s *corev1.Secret) { s.Finalizers = nil })))
			require.NoError(t, w.Client.Delete(t.Context(), secret()))
		},
		"its annotation was removed": func(t *testing.T, w fixture) {
			t.Helper()
			require.NoError(t, w.Client.Update(t.Context(), secret(func(s *corev1.Secret) { s.Annotations = nil })))
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, dynamicClient(), dynamicClient(), secret())
			_, err := w.pass(t)
			require.NoError(t, err)
			before := w.running[client.ObjectKeyFromObject(secret())]
			change(t, w)
			_, err = w.pass(t)
			require.NoError(t, err)
			assert.Empty(t, w.running)
			<-before.done
			current := &corev1.Secret{}
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(secret()), current); !apierrors.IsNotFound(err) {
				require.NoError(t, err)
				assert.Empty(t, current.Finalizers, "no controller would remove it later")
			}
		})
	}
}

func TestCheckExisting(t *testing.T) {
	cases := map[string]struct {
		there *unstructured.Unstructured
		want  string
	}{
		"a copy of this cluster": {there: copied()},
		"an unmanaged object": {there: object(func(u *unstructured.Unstructured) { u.SetNamespace(providerTenant) }),
			want: "has an unmanaged object with this name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			remote := dynamicClient(tc.there)
			r := &reflector{own: "rome", peer: peer{id: "milan", localNamespace: consumerTenant, remoteNamespace: providerTenant}, local: dynamicClient(), remote: remote}
			err := r.act(t.Context(), createRemote, key{resource: nsMaps, name: "milan"}, ownObject(), nil)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
			assert.Equal(t, tc.there, get(t, remote, providerTenant), "it is left alone")
		})
	}
}
