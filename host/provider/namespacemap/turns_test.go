package namespacemap

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// turns makes passes over one NamespaceMap, and counts the requests of each.
type turns struct {
	t *testing.T
	client.Client
	reconciler *Reconciler
	nm         *offloadingv1beta1.NamespaceMap
	requests   int
}

func newTurns(t *testing.T, nm *offloadingv1beta1.NamespaceMap, existing ...client.Object) *turns {
	t.Helper()
	r := &turns{t: t, nm: nm}
	r.Client = fakeclient.Builder(nm, authentication.TenantNamespace("rome")).WithObjects(existing...).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				r.requests++
				return c.Create(ctx, object, options...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				r.requests++
				return c.Delete(ctx, object, options...)
			},
		}).Build()
	recorder := &events.FakeRecorder{}
	r.reconciler = &Reconciler{Clock: clock.RealClock{}, Client: r.Client, APIReader: r.Client, Events: recorder}
	return r
}

// pass makes one pass, and reports whether another one is requested.
func (r *turns) pass() bool {
	r.t.Helper()
	r.requests = 0
	current := &offloadingv1beta1.NamespaceMap{}
	require.NoError(r.t, r.Get(r.t.Context(), client.ObjectKeyFromObject(r.nm), current))
	result, err := r.reconciler.Reconcile(r.t.Context(), current)
	require.NoError(r.t, err)
	return result.RequeueAfter > 0
}

func (r *turns) namespaces() int {
	r.t.Helper()
	list := &corev1.NamespaceList{}
	require.NoError(r.t, r.List(r.t.Context(), list, client.MatchingLabels{"liqo.io/remote-cluster-id": "rome"}))
	return len(list.Items) - 1
}

func mappings(prefix string, n int) map[string]string {
	desired := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("%s-%04d", prefix, i)
		desired[name] = name + "-rome"
	}
	return desired
}

func TestAPassOverManyMappingsEndsAfterAPortion(t *testing.T) {
	const all = 3*portion + 1
	r := newTurns(t, namespaceMap(mappings("shop", all), nil))
	for n := 1; n <= 3; n++ {
		require.True(t, r.pass(), "the rest is left for the next turn")
		assert.Equal(t, n*portion, r.namespaces())
		assert.Equal(t, 2*portion, r.requests, "a namespace and a binding each")
		assert.Len(t, statusOf(t, r), n*portion)
	}
	assert.False(t, r.pass())
	assert.Equal(t, all, r.namespaces())
	assert.False(t, r.pass())
	assert.Zero(t, r.requests, "nothing is left to do")

	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, r.Get(t.Context(), client.ObjectKeyFromObject(r.nm), nm))
	require.NoError(t, r.Delete(t.Context(), nm))
	for n := 1; n <= 3; n++ {
		require.True(t, r.pass())
		assert.Equal(t, portion, r.requests)
		assert.Equal(t, all-n*portion, r.namespaces())
	}
	assert.False(t, r.pass(), "the ends of namespaces cause events")
	assert.Zero(t, r.namespaces())
}

func TestNamespacesThatAreBeingDeletedCostNothing(t *testing.T) {
	nm := namespaceMap(nil, mapping{})
	now := metav1.Now()
	var terminating []client.Object
	for local, remote := range mappings("shop", 2*portion) {
		namespace := provider.Namespace(nm, "rome", local, remote)
		namespace.Finalizers, namespace.DeletionTimestamp = []string{"kubernetes"}, &now
		terminating = append(terminating, namespace)
		nm.Status.CurrentMapping[local] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offloadingv1beta1.MappingTerminating}
	}
	r := newTurns(t, nm, terminating...)
	reads := 0
	r.reconciler.APIReader = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, object, options...)
		},
	})
	assert.False(t, r.pass(), "their ends cause events")
	assert.Zero(t, r.requests+reads)
}

// The deletions of one consumer keep those of others waiting: Kubernetes deletes a few namespaces in a second.
func TestFewNamespacesOfAConsumerAreDeletedAtATime(t *testing.T) {
	nm, start := namespaceMap(nil, mapping{}), time.Now()
	var existing []client.Object
	for local, remote := range mappings("shop", 2*maxEnding+5) {
		namespace := provider.Namespace(nm, "rome", local, remote)
		namespace.Finalizers = []string{"kubernetes"} // It stays while it is being deleted.
		existing = append(existing, namespace)
		nm.Status.CurrentMapping[local] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offloadingv1beta1.MappingAccepted}
	}
	r, now := newTurns(t, nm, existing...), testclock.NewFakePassiveClock(start)
	r.reconciler.Clock = now
	assert.True(t, r.pass())
	assert.Equal(t, maxEnding, r.requests)
	assert.True(t, r.pass(), "the next one may be deleted although these do not end")
	assert.Zero(t, r.requests)

	ending := &corev1.NamespaceList{}
	require.NoError(t, r.List(t.Context(), ending, client.MatchingLabels{"liqo.io/remote-cluster-id": "rome"}))
	for i := range ending.Items {
		if namespace := &ending.Items[i]; namespace.DeletionTimestamp != nil && i%2 == 0 {
			namespace.Finalizers = nil
			require.NoError(t, r.Update(t.Context(), namespace))
		}
	}
	gone := len(existing) - r.namespaces()
	require.Positive(t, gone)
	r.pass()
	assert.Equal(t, min(gone, maxEnding), r.requests, "one for each that is gone")

	now.SetTime(start.Add(2 * takesLong))
	assert.False(t, r.pass(), "those that take long do not keep the rest")
	assert.Equal(t, len(existing)-maxEnding-gone, r.requests)
}

func TestAConsumerHasABoundedNumberOfNamespaces(t *testing.T) {
	const limit = 5
	desired := mappings("shop", limit+maxRefused+50)
	r := newTurns(t, namespaceMap(desired, nil))
	r.reconciler.Limits.Namespaces = limit
	assert.False(t, r.pass(), "only another mapping helps, and that is an event")
	assert.Equal(t, limit, r.namespaces())
	status := statusOf(t, r)
	assert.Equal(t, offloadingv1beta1.MappingAccepted, status["shop-0004"].Phase)
	assert.Equal(t, offloadingv1beta1.MappingCreationLoopBackOff, status["shop-0005"].Phase)
	assert.Contains(t, status["shop-0005"].Message, "provider.limits.namespaces")
	assert.Len(t, status, limit+maxRefused, "the status does not grow without bound")
	assert.False(t, r.pass())
	assert.Len(t, statusOf(t, r), limit+maxRefused)

	r.reconciler.Limits.Namespaces = limit - 2
	assert.False(t, r.pass())
	assert.Equal(t, limit, r.namespaces(), "namespaces that exist stay")
	assert.Equal(t, offloadingv1beta1.MappingAccepted, statusOf(t, r)["shop-0004"].Phase)

	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, r.Get(t.Context(), client.ObjectKeyFromObject(r.nm), nm))
	delete(nm.Spec.DesiredMapping, "shop-0000")
	require.NoError(t, r.Update(t.Context(), nm))
	r.reconciler.Limits.Namespaces = limit
	r.pass()
	r.pass()
	assert.Equal(t, limit, r.namespaces(), "another one has its place")
}

// TestMappingsThatFailKeepNoOtherFromItsTurn holds that the invalid mappings of a consumer do not
// use up each of its portions.
func TestMappingsThatFailKeepNoOtherFromItsTurn(t *testing.T) {
	desired := mappings("shop", 5)
	current := mapping{}
	for local, remote := range mappings("bad", 2*portion) {
		desired[local] = remote
		current[local] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offloadingv1beta1.MappingCreationLoopBackOff, Message: "x"}
	}
	r := newTurns(t, namespaceMap(desired, current))
	require.True(t, r.pass())
	assert.Equal(t, offloadingv1beta1.MappingAccepted, statusOf(t, r)["shop-0004"].Phase)
}

// TestManyFailuresAreOneEvent: a consumer that changes the names of 1,000 mappings to reserved ones had as many events
// written each time.
func TestManyFailuresAreOneEvent(t *testing.T) {
	desired := map[string]string{}
	for i := range 1000 {
		desired[fmt.Sprintf("a%04d", i)] = fmt.Sprintf("kube-%04d", i)
	}
	_, seen, err := reconcileOnce(t, namespaceMap(desired, nil))
	require.NoError(t, err)
	require.Len(t, seen, 1)
	assert.Contains(t, seen[0], `Failed to create namespace "kube-0000" for local namespace "a0000"`)
	assert.Contains(t, seen[0], "(and 999 more, see the status)")
}

// TestANamespaceMapHasABoundedNumberOfMappings: one from before the CustomResourceDefinition bounded it.
func TestANamespaceMapHasABoundedNumberOfMappings(t *testing.T) {
	const most, more = offloadingv1beta1.MaxMappings, 500
	desired := mappings("shop", most+more)
	current := mapping{}
	var existing []client.Object
	nm := namespaceMap(desired, current)
	for local, remote := range desired {
		if local >= "shop-0600" { // 900 have a namespace.
			current[local] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offloadingv1beta1.MappingAccepted}
			existing = append(existing, provider.Namespace(nm, "rome", local, remote), provider.RoleBinding(nm, "rome", remote))
		}
	}
	r := newTurns(t, nm, existing...)
	for range 6 {
		r.pass()
	}
	require.False(t, r.pass())
	assert.Equal(t, most, r.namespaces())
	status := statusOf(t, r)
	assert.Equal(t, offloadingv1beta1.MappingAccepted, status["shop-1499"].Phase, "what it has stays")
	assert.Equal(t, offloadingv1beta1.MappingAccepted, status["shop-0099"].Phase)
	assert.Equal(t, offloadingv1beta1.MappingCreationLoopBackOff, status["shop-0100"].Phase)
	assert.Contains(t, status["shop-0100"].Message, "at most 1000 mappings")
	assert.NotContains(t, status, "shop-0599", "the status does not grow without bound")
}

func TestTheStatusIsBounded(t *testing.T) {
	current := mapping{}
	now := metav1.Now()
	var existing []client.Object
	nm := namespaceMap(mappings("shop", 3), current)
	for local, remote := range mappings("ending", offloadingv1beta1.MaxStatuses-1) {
		current[local] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offloadingv1beta1.MappingTerminating}
		namespace := provider.Namespace(nm, "rome", local, remote)
		namespace.Finalizers, namespace.DeletionTimestamp = []string{"kubernetes"}, &now
		existing = append(existing, namespace)
	}
	r := newTurns(t, nm, existing...)
	r.pass()
	assert.Len(t, statusOf(t, r), offloadingv1beta1.MaxStatuses)
	assert.Equal(t, offloadingv1beta1.MaxStatuses, r.namespaces(), "there is no namespace without a status")
}

// TestAConsumerHasOneNamespaceMap: further ones are from before the API server refused them.
func TestAConsumerHasOneNamespaceMap(t *testing.T) {
	nm := namespaceMap(mappings("shop", 2*maxRefused), mapping{"shop-0000": {RemoteNamespace: "shop-0000-rome", Phase: offloadingv1beta1.MappingAccepted}})
	r := newTurns(t, nm, provider.Namespace(nm, "rome", "shop-0000", "shop-0000-rome"))
	r.reconciler.ClusterID = "turin"
	assert.False(t, r.pass(), "only its end helps")
	assert.Equal(t, 1, r.namespaces())
	status := statusOf(t, r)
	assert.Equal(t, offloadingv1beta1.MappingAccepted, status["shop-0000"].Phase, "what it has stays")
	assert.Contains(t, status["shop-0001"].Message, `a consumer has one NamespaceMap, which is named "turin"`)
	assert.Len(t, status, maxRefused)
	assert.False(t, r.pass())

	r.reconciler.ClusterID = "milan"
	assert.True(t, r.pass())
	assert.Equal(t, 1+portion, r.namespaces())
}

var testLimits = Limits{
	PerNamespace: corev1.ResourceList{"services": resource.MustParse("10"), "services.nodeports": resource.MustParse("4")},
	PerConsumer:  corev1.ResourceList{"services.nodeports": resource.MustParse("10")},
}

func TestLimitsOfANamespace(t *testing.T) {
	cases := map[string]struct {
		others string
		want   string
	}{
		"the first":                        {"0", "4"},
		"enough is left":                   {"6", "4"},
		"less is left":                     {"7", "3"},
		"nothing is left":                  {"10", "0"},
		"the limit was larger in the past": {"50", "0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			hard := testLimits.hard(corev1.ResourceList{"services.nodeports": resource.MustParse(c.others)})
			ports, services := hard["services.nodeports"], hard["services"]
			assert.Equal(t, c.want, ports.String())
			assert.Equal(t, "10", services.String())
		})
	}
}

func (r *turns) quotas() map[string]string {
	r.t.Helper()
	list := &corev1.ResourceQuotaList{}
	require.NoError(r.t, r.List(r.t.Context(), list))
	hard := map[string]string{}
	for i := range list.Items {
		ports := list.Items[i].Spec.Hard["services.nodeports"]
		hard[list.Items[i].Namespace] = ports.String()
	}
	return hard
}

// count does what Kubernetes does with new ResourceQuotas.
func (r *turns) count() {
	r.t.Helper()
	list := &corev1.ResourceQuotaList{}
	require.NoError(r.t, r.List(r.t.Context(), list))
	for i := range list.Items {
		list.Items[i].Status.Hard = list.Items[i].Spec.Hard
		require.NoError(r.t, r.Update(r.t.Context(), &list.Items[i]))
	}
}

func TestLimitsAreInEffectBeforeTheConsumerHasRights(t *testing.T) {
	r := newTurns(t, namespaceMap(mappings("shop", 4), nil))
	r.reconciler.Limits = testLimits
	hasRights := func() bool {
		list := &rbacv1.RoleBindingList{}
		require.NoError(t, r.List(t.Context(), list))
		return len(list.Items) > 0
	}
	assert.False(t, r.pass(), "the event of the status is next")
	assert.Equal(t, map[string]string{"shop-0000-rome": "4", "shop-0001-rome": "4", "shop-0002-rome": "2", "shop-0003-rome": "0"}, r.quotas(),
		"the sum holds for all namespaces of the consumer")
	assert.False(t, hasRights())
	assert.Empty(t, statusOf(t, r))
	r.count()
	r.pass()
	assert.True(t, hasRights())
	assert.Equal(t, offloadingv1beta1.MappingAccepted, statusOf(t, r)["shop-0003"].Phase)

	// What becomes free goes to others.
	quota := &corev1.ResourceQuota{}
	require.NoError(t, r.Get(t.Context(), client.ObjectKey{Namespace: "shop-0000-rome", Name: provider.QuotaName}, quota))
	require.NoError(t, r.Delete(t.Context(), quota))
	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, r.Get(t.Context(), client.ObjectKeyFromObject(r.nm), nm))
	delete(nm.Spec.DesiredMapping, "shop-0000")
	require.NoError(t, r.Update(t.Context(), nm))
	r.pass()
	assert.Equal(t, map[string]string{"shop-0001-rome": "4", "shop-0002-rome": "4", "shop-0003-rome": "2"}, r.quotas())
}

func TestANamespaceThatExistsGetsLimitsAndKeepsThoseOfAnAdministrator(t *testing.T) {
	nm := namespaceMap(map[string]string{"shop": "shop-rome", "blog": "blog-rome"}, nil)
	custom := provider.ResourceQuota(nm, "rome", "blog-rome", corev1.ResourceList{"services": resource.MustParse("99")})
	custom.Annotations[offloadingv1beta1.CustomLimitsAnnotation] = "true"
	r := newTurns(t, nm, custom, provider.Namespace(nm, "rome", "shop", "shop-rome"), provider.RoleBinding(nm, "rome", "shop-rome"), provider.Namespace(nm, "rome", "blog", "blog-rome"))
	r.reconciler.Limits = testLimits
	r.pass()
	status := statusOf(t, r)
	assert.Equal(t, offloadingv1beta1.MappingAccepted, status["shop"].Phase, "what runs there goes on")
	assert.Equal(t, offloadingv1beta1.MappingAccepted, status["blog"].Phase)
	assert.Equal(t, map[string]string{"shop-rome": "4", "blog-rome": "0"}, r.quotas())

	quota := &corev1.ResourceQuota{}
	require.NoError(t, r.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: provider.QuotaName}, quota))
	quota.Spec.Hard = corev1.ResourceList{"services": resource.MustParse("9999")}
	require.NoError(t, r.Update(t.Context(), quota))
	r.pass()
	assert.Equal(t, "4", r.quotas()["shop-rome"], "restored")
}

// TestCustomResourcesAreCountedWhenKubernetesKnowsTheirKinds: before, the API server would refuse all of them.
func TestCustomResourcesAreCountedWhenKubernetesKnowsTheirKinds(t *testing.T) {
	const custom = "count/shadowendpointslices.offloading.liqo.io"
	start := time.Unix(1e9, 0)
	now := testclock.NewFakePassiveClock(start)
	r := newTurns(t, namespaceMap(map[string]string{"shop": "shop-rome"}, nil))
	r.reconciler.Clock, r.reconciler.CustomCountsFrom = now, start.Add(CustomCountsAfter)
	r.reconciler.Limits = Limits{PerNamespace: corev1.ResourceList{
		"services": resource.MustParse("10"), "count/pods": resource.MustParse("20"), "count/ingresses.networking.k8s.io": resource.MustParse("200"), custom: resource.MustParse("1000"),
	}}
	limits := func() map[corev1.ResourceName]string {
		quota := &corev1.ResourceQuota{}
		require.NoError(t, r.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: provider.QuotaName}, quota))
		hard := map[corev1.ResourceName]string{}
		for name, amount := range quota.Spec.Hard {
			hard[name] = amount.String()
		}
		return hard
	}
	r.pass()
	r.count()
	assert.True(t, r.pass(), "the counts follow")
	others := map[corev1.ResourceName]string{"services": "10", "count/pods": "20", "count/ingresses.networking.k8s.io": "200"}
	assert.Equal(t, others, limits())
	assert.Equal(t, offloadingv1beta1.MappingAccepted, statusOf(t, r)["shop"].Phase, "the consumer does not wait")

	now.SetTime(start.Add(CustomCountsAfter))
	assert.False(t, r.pass())
	others[custom] = "1k"
	assert.Equal(t, others, limits())

	// The manager starts again.
	r.reconciler.CustomCountsFrom = now.Now().Add(CustomCountsAfter)
	r.reconciler.Limits.PerNamespace[custom] = resource.MustParse("500")
	assert.True(t, r.pass())
	others[custom] = "500"
	assert.Equal(t, others, limits(), "what was counted is")
}
