package replication

import (
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
	clienttesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

const otherNamespace = "backup"

// namespace is a namespace of the consumer; with a peer it is that peer's tenant namespace.
func namespace(name, peer string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if peer != "" {
		ns.Labels = map[string]string{liqocorev1beta1.TenantNamespaceLabel: "true", liqocorev1beta1.RemoteClusterIDLabel: peer}
	}
	return ns
}

// inOtherNamespace moves the Secret to another namespace, as `kubectl get -o yaml | kubectl apply -n` does.
func inOtherNamespace(s *corev1.Secret) {
	s.Namespace, s.Finalizers = otherNamespace, nil
	s.CreationTimestamp = metav1.NewTime(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
}

func copiedFrom(origin string) change {
	return func(u *unstructured.Unstructured) {
		u.SetNamespace(providerTenant)
		u.SetUID("copy")
		u.SetLabels(map[string]string{
			liqocorev1beta1.ReplicationLabel: "false", liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: "rome",
		})
		u.SetAnnotations(nil)
		if origin != "" {
			u.SetAnnotations(map[string]string{"longshore.dev/replicated-from": origin})
		}
	}
}

func (w fixture) reconcileNamed(t *testing.T, s *corev1.Secret) (ctrl.Result, error) {
	t.Helper()
	return w.reconcileKey(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)})
}

// deletions counts the deletions that a client sent.
func deletions(c interface{ Actions() []clienttesting.Action }) int {
	count := 0
	for _, action := range c.Actions() {
		if action.GetVerb() == "delete" {
			count++
		}
	}
	return count
}

func TestOnlyTheSecretInTheTenantNamespaceIsUsed(t *testing.T) {
	for name, tc := range map[string]struct {
		second func(*corev1.Secret)
		peer   string
		want   string
	}{
		"a copy in a namespace that is not a tenant namespace": {inOtherNamespace, "", "is not in the tenant namespace of cluster milan"},
		"a copy in another peer's namespace":                   {inOtherNamespace, "oslo", "is not in the tenant namespace of cluster milan"},
		"a copy in a second tenant namespace":                  {inOtherNamespace, "milan", "Secret liqo-tenant-milan/kubeconfig"},
		"a second Secret in the same namespace": {func(s *corev1.Secret) {
			inOtherNamespace(s)
			s.Namespace, s.Name = consumerTenant, "another"
		}, "milan", "Secret liqo-tenant-milan/kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			second := secret(tc.second)
			w := newFixture(t, dynamicClient(ownObject(finalized)), dynamicClient(object(copiedFrom(consumerTenant))), secret(), second, namespace(otherNamespace, tc.peer))
			_, err := w.pass(t)
			require.NoError(t, err)
			_, err = w.reconcileNamed(t, second)
			require.NoError(t, err)
			assert.Len(t, w.running, 1)
			assert.Contains(t, w.running, client.ObjectKeyFromObject(secret()))
			require.NotEmpty(t, w.events.Events)
			event := <-w.events.Events
			assert.True(t, strings.HasPrefix(event, "Warning "+reasonNotReplicated+" "), event)
			assert.Contains(t, event, tc.want)
			current := &corev1.Secret{}
			require.NoError(t, w.Client.Get(t.Context(), client.ObjectKeyFromObject(second), current))
			assert.Empty(t, current.Finalizers, "a Secret that is not used has no finalizer")
		})
	}
}

func TestASecondSecretIsUsedWhenTheFirstIsDeleted(t *testing.T) {
	second := secret(inOtherNamespace)
	w := newFixture(t, dynamicClient(), dynamicClient(), secret(), second, namespace(otherNamespace, "milan"))
	_, err := w.pass(t)
	require.NoError(t, err)
	require.NoError(t, w.Client.Update(t.Context(), secret(func(s *corev1.Secret) { s.Finalizers = nil })))
	require.NoError(t, w.Client.Delete(t.Context(), secret()))
	_, err = w.pass(t)
	require.NoError(t, err)
	assert.Contains(t, w.related(t.Context(), secret()), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(second)},
		"the deletion of one enqueues the others of its cluster")
	_, err = w.reconcileNamed(t, second)
	require.NoError(t, err)
	assert.Contains(t, w.running, client.ObjectKeyFromObject(second))
}

func TestACopyIsDeletedOnlyForItsOwnObject(t *testing.T) {
	for name, tc := range map[string]struct {
		local, remote *unstructured.Unstructured
		deleted       bool
	}{
		"its object is gone":                             {remote: object(copiedFrom(consumerTenant)), deleted: true},
		"its object was in another namespace":            {remote: object(copiedFrom(otherNamespace))},
		"a copy of an earlier version without an origin": {remote: object(copiedFrom(""))},
		"its object has no labels any more": {
			local: ownObject(finalized, func(u *unstructured.Unstructured) { u.SetLabels(nil) }), remote: object(copiedFrom(consumerTenant))},
		"its object has no labels any more and is being deleted": {
			local: ownObject(finalized, deleting, func(u *unstructured.Unstructured) { u.SetLabels(nil) }), remote: object(copiedFrom(consumerTenant)), deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			local := dynamicClient()
			if tc.local != nil {
				local = dynamicClient(tc.local)
			}
			w := newFixture(t, local, dynamicClient(tc.remote), secret())
			_, err := w.pass(t)
			require.NoError(t, err)
			if tc.deleted {
				planetest.Until(t, func(t planetest.T) bool { return get(t, w.remote, providerTenant) == nil }, patience, every)
				return
			}
			// The queue has processed the first object when the second is replicated.
			later := ownObject(func(u *unstructured.Unstructured) { u.SetName("zurich") })
			_, err = w.local.Resource(nsMaps).Namespace(consumerTenant).Create(t.Context(), later, metav1.CreateOptions{})
			require.NoError(t, err)
			planetest.Until(t, func(t planetest.T) bool {
				_, err := w.remote.Resource(nsMaps).Namespace(providerTenant).Get(t.Context(), "zurich", metav1.GetOptions{})
				return err == nil
			}, patience, every)
			assert.NotNil(t, get(t, w.remote, providerTenant))
			assert.Zero(t, deletions(w.remote))
		})
	}
}

func TestAStaleListDoesNotDeleteACopy(t *testing.T) {
	local := dynamicClient(ownObject(finalized))
	stale := true
	local.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		empty := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "offloading.liqo.io/v1beta1", "kind": "NamespaceMapList"}}
		return stale, empty, nil
	})
	r := &reflector{own: "rome", peer: peer{id: "milan", localNamespace: consumerTenant, remoteNamespace: providerTenant},
		local: local, remote: dynamicClient(object(copiedFrom(consumerTenant)))}
	err := r.act(t.Context(), deleteRemote, key{resource: nsMaps, name: "milan"}, nil, object(copiedFrom(consumerTenant)))
	assert.True(t, apierrors.IsConflict(err), "the cache is stale, got %v", err)
	assert.NotNil(t, get(t, r.remote, providerTenant))
}

func TestACopyOfAnEarlierVersionIsAdopted(t *testing.T) {
	w := newFixture(t, dynamicClient(ownObject(finalized)), dynamicClient(object(copiedFrom(""))), secret())
	_, err := w.pass(t)
	require.NoError(t, err)
	planetest.Until(t, func(t planetest.T) bool {
		return get(t, w.remote, providerTenant).GetAnnotations()["longshore.dev/replicated-from"] == consumerTenant
	}, patience, every)
}

func TestACopyOfAnotherNamespacesObject(t *testing.T) {
	inOther := func(u *unstructured.Unstructured) { u.SetNamespace(otherNamespace); u.SetUID("other") }
	otherCopy := object(otherSpec, copiedFrom(otherNamespace))
	t.Run("is not changed while that object exists", func(t *testing.T) {
		w := newFixture(t, dynamicClient(ownObject(finalized), ownObject(inOther)), dynamicClient(otherCopy), secret())
		_, err := w.pass(t)
		require.NoError(t, err)
		event := <-w.events.Events
		assert.Contains(t, event, "NotReplicated")
		assert.Contains(t, event, "backup/milan")
		assert.Equal(t, otherCopy.Object["spec"], get(t, w.remote, providerTenant).Object["spec"])
	})
	t.Run("is adopted when that object is gone", func(t *testing.T) {
		w := newFixture(t, dynamicClient(ownObject(finalized)), dynamicClient(otherCopy), secret())
		_, err := w.pass(t)
		require.NoError(t, err)
		planetest.Until(t, func(t planetest.T) bool {
			copied := get(t, w.remote, providerTenant)
			return copied.GetAnnotations()["longshore.dev/replicated-from"] == consumerTenant && len(copied.Object["spec"].(map[string]any)) > 0
		}, patience, every)
	})
}
