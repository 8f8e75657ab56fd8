package namespaceoffloading

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// listPods evaluates the field selectors of the API server, which the fake client does not know.
func listPods(ctx context.Context, c client.Client, pods *corev1.PodList, opts []client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	selector := options.FieldSelector
	options.FieldSelector = nil
	all := &corev1.PodList{}
	if err := c.List(ctx, all, options); err != nil {
		return err
	}
	for i := range all.Items {
		pod := &all.Items[i]
		if selector == nil || selector.Matches(fields.Set{"spec.nodeName": pod.Spec.NodeName, "status.phase": string(pod.Status.Phase)}) {
			pods.Items = append(pods.Items, *pod)
		}
	}
	return nil
}

func remote(n *offloadingv1beta1.NamespaceOffloading) {
	n.Generation, n.CreationTimestamp = 1, metav1.NewTime(noon.Add(-10*time.Second))
	n.Spec.PodOffloadingStrategy = offloadingv1beta1.RemotePodOffloadingStrategyType
}

// podOn returns a pod of a controller, on a node.
func podOn(name, nodeName, ownerKind, owner string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-10 * time.Second)), Labels: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: nodeName}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: ownerKind, Name: owner, UID: "1", Controller: ptr.To(true)}}
	}
	return pod
}

func virtualOne(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual}}}
}

func conditionOf(out outcome) *metav1.Condition {
	return meta.FindStatusCondition(out.nso.Status.Conditions, offloadingv1beta1.PodsFollowStrategyCondition)
}

// Namespace, NamespaceOffloading and Deployment in one apply.
func TestPodsThatWereCreatedBeforeTheirNamespaceWasOffloadedAreCounted(t *testing.T) {
	web := podOn("web-7b7d9-x", "worker", "ReplicaSet", "web-7b7d9")
	web.Labels["pod-template-hash"] = "7b7d9"
	ended := podOn("ended", "worker", "Job", "import")
	ended.Status.Phase = corev1.PodSucceeded
	out := pass(t, offloading(remote), shop(), node("a", "milan"), namespaceMap("milan", nil, nil), virtualOne("a"),
		web, podOn("db-0", "worker", "StatefulSet", "db"), podOn("alone", "worker", "", ""), podOn("logs", "worker", "DaemonSet", "logs"),
		podOn("there", "a", "", ""), ended)
	require.NoError(t, out.err)
	c := conditionOf(out)
	require.NotNil(t, c)
	assert.Equal(t, metav1.ConditionFalse, c.Status)
	assert.Equal(t, "CreatedBeforeOffloading", c.Reason)
	assert.Equal(t, "Pods that run in this cluster although the strategy is Remote: 3; they were created before the namespace was offloaded. "+
		"Create them again: kubectl rollout restart -n shop deployment/web statefulset/db; kubectl delete pod -n shop alone. Then create pods without a controller again.", c.Message)
	require.Len(t, out.events, 4, "one on the NamespaceOffloading, and one on each pod")
	for _, event := range out.events {
		assert.Contains(t, event, "Warning CreatedBeforeOffloading")
	}
	assert.Equal(t, recount, out.again, "until they are gone")

	again := pass(t, out.nso, shop(offloadingv1beta1.SchedulingEnabledLabel), node("a", "milan"), namespaceMap("milan", map[string]string{"shop": "shop-rome"}, nil), virtualOne("a"))
	require.NoError(t, again.err)
	assert.Equal(t, metav1.ConditionTrue, conditionOf(again).Status, "they were created again")
}

func TestPodsAreListedOnlyWhileSomeMayNotFollowTheStrategy(t *testing.T) {
	condition := func(status metav1.ConditionStatus, generation int64, age time.Duration) func(*offloadingv1beta1.NamespaceOffloading) {
		return func(n *offloadingv1beta1.NamespaceOffloading) {
			remote(n)
			n.Status.Conditions = []metav1.Condition{{
				Type: offloadingv1beta1.PodsFollowStrategyCondition, Status: status, Reason: "Reason", ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(noon.Add(-age)),
			}}
		}
	}
	for name, tc := range map[string]struct {
		change func(*offloadingv1beta1.NamespaceOffloading)
		lists  int
	}{
		"a new one":                       {remote, 1},
		"it was counted":                  {condition(metav1.ConditionTrue, 1, time.Hour), 0},
		"it was counted some seconds ago": {condition(metav1.ConditionTrue, 1, settling), 1},
		"the spec has changed":            {condition(metav1.ConditionTrue, 0, time.Hour), 1},
		"pods do not follow it":           {condition(metav1.ConditionFalse, 1, time.Hour), 1},
		"pods may be in both clusters":    {nil, 0},
		"pods stay here":                  {func(n *offloadingv1beta1.NamespaceOffloading) { remote(n); n.Spec.PodOffloadingStrategy = "Local" }, 1},
		"pods may be in both clusters now": {func(n *offloadingv1beta1.NamespaceOffloading) {
			condition(metav1.ConditionFalse, 1, 0)(n)
			n.Spec.PodOffloadingStrategy = "LocalAndRemote"
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out := pass(t, offloading(tc.change), shop(offloadingv1beta1.SchedulingEnabledLabel))
			require.NoError(t, out.err)
			assert.Equal(t, tc.lists, out.lists)
			assert.Equal(t, out.nso.Spec.PodOffloadingStrategy == "LocalAndRemote", conditionOf(out) == nil)
		})
	}
}

func TestThePodsThatContradictAStrategy(t *testing.T) {
	tolerates := []corev1.Toleration{{Key: offloadingv1beta1.VirtualNodeTaintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	for name, tc := range map[string]struct {
		strategy  offloadingv1beta1.PodOffloadingStrategyType
		change    func(*corev1.Pod)
		isVirtual bool
		want      string
	}{
		"Remote, created in the same second": {"Remote", func(*corev1.Pod) {}, false, "CreatedBeforeOffloading"},
		"Remote, without a node":             {"Remote", func(p *corev1.Pod) { p.Spec.NodeName = "" }, false, "CreatedBeforeOffloading"},
		"Remote, waits for a virtual node":   {"Remote", func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.Tolerations = "", tolerates }, false, ""},
		"Remote, on a virtual node":          {"Remote", func(*corev1.Pod) {}, true, ""},
		"Remote, tolerates everything":       {"Remote", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}} }, false, "CreatedBeforeOffloading"},
		"Remote, a policy keeps it": {"Remote", func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.NewTime(noon.Add(time.Minute))
		}, false, ""},
		"Remote, was LocalAndRemote": {"Remote", func(p *corev1.Pod) {
			p.CreationTimestamp, p.Spec.Tolerations = metav1.NewTime(noon.Add(time.Minute)), tolerates
		}, false, "StrategyChanged"},
		"Remote, is being deleted":  {"Remote", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }, false, ""},
		"Local, on a virtual node":  {"Local", func(*corev1.Pod) {}, true, "StrategyChanged"},
		"Local, chooses the node":   {"Local", func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr.To("liqo") }, true, ""},
		"Local, at home":            {"Local", func(*corev1.Pod) {}, false, ""},
		"LocalAndRemote, at home":   {"LocalAndRemote", func(*corev1.Pod) {}, false, ""},
		"LocalAndRemote, elsewhere": {"LocalAndRemote", func(*corev1.Pod) {}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOn("web", "worker", "ReplicaSet", "web")
			pod.CreationTimestamp = metav1.NewTime(noon)
			tc.change(pod)
			assert.Equal(t, tc.want, Contradiction(tc.strategy, pod, tc.isVirtual, noon))
		})
	}
}

func TestANamespaceIsOffloadedWhenItsLabelIsSet(t *testing.T) {
	entry := func(fieldsV1 string, age time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Time: &metav1.Time{Time: noon.Add(-age)}, FieldsV1: metav1.NewFieldsV1(fieldsV1)}
	}
	const label = `{"f:metadata":{"f:labels":{"f:liqo.io/scheduling-enabled":{}}}}`
	nso := offloading(func(n *offloadingv1beta1.NamespaceOffloading) {
		n.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute))
	})
	for name, tc := range map[string]struct {
		namespace *corev1.Namespace
		want      time.Time
	}{
		"unknown":                     {nil, noon.Add(-time.Minute)},
		"the manager was late":        {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{entry(label, time.Second)}}}, noon.Add(-time.Second)},
		"the label held pods back":    {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{entry(label, time.Hour)}}}, noon.Add(-time.Minute)},
		"another field is set later":  {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{entry(`{"f:spec":{}}`, 0)}}}, noon.Add(-time.Minute)},
		"an entry without its fields": {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}}}, noon.Add(-time.Minute)},
	} {
		t.Run(name, func(t *testing.T) { assert.True(t, tc.want.Equal(OffloadedAt(tc.namespace, nso))) })
	}
}
