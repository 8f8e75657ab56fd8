package virtualnode

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: milan, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: milan, user: u}}]
current-context: c
`

func virtualNode(change func(*offloadingv1beta1.VirtualNode)) *offloadingv1beta1.VirtualNode {
	vn := &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "mynode", Namespace: "liqo-tenant-milan", UID: "vn-1", Finalizers: []string{offloadingv1beta1.VirtualNodeFinalizer}},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID: "milan", CreateNode: ptr.To(true),
			KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig"},
			Template:            &offloadingv1beta1.DeploymentTemplate{},
		},
	}
	labels := map[string]string{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet, offloadingv1beta1.VirtualNodeLabel: "mynode"}
	vn.Spec.Template.ObjectMeta = metav1.ObjectMeta{Name: "vk-mynode", Namespace: "liqo-tenant-milan", Labels: labels}
	vn.Spec.Template.Spec = appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}
	if change != nil {
		change(vn)
	}
	return vn
}

func peered(data string) []client.Object {
	return []client.Object{
		&liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "milan"}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kubeconfig", Namespace: "liqo-tenant-milan"}, Data: map[string][]byte{"kubeconfig": []byte(data)}},
		authentication.TenantNamespace("milan"),
	}
}

type world struct {
	client.Client
	events []string
	vn     *offloadingv1beta1.VirtualNode
}

// pass makes one reconcile.
func pass(t *testing.T, vn *offloadingv1beta1.VirtualNode, existing ...client.Object) world {
	t.Helper()
	c := fakeclient.Builder(vn).WithObjects(existing...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: func(ctx context.Context, c client.Client, _ string, obj, _ client.Object, _ ...client.SubResourceCreateOption) error {
			return c.Delete(ctx, obj)
		}}).Build()
	recorder := events.NewFakeRecorder(20)
	r := &Reconciler{Client: c, APIReader: c, Events: recorder, Clock: testclock.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	current := &offloadingv1beta1.VirtualNode{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(vn), current))
	_, err := r.Reconcile(t.Context(), current)
	require.NoError(t, err)
	w := world{Client: c, vn: &offloadingv1beta1.VirtualNode{}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(vn), w.vn); apierrors.IsNotFound(err) {
		w.vn = nil
	}
	close(recorder.Events)
	for e := range recorder.Events {
		w.events = append(w.events, e)
	}
	return w
}

func conditions(vn *offloadingv1beta1.VirtualNode) map[string]string {
	out := map[string]string{}
	for _, c := range vn.Status.Conditions {
		out[string(c.Type)] = string(c.Status) + ": " + c.Message
	}
	return out
}

// statusOf returns the status of a condition.
func statusOf(vn *offloadingv1beta1.VirtualNode, kind offloadingv1beta1.VirtualNodeConditionType) offloadingv1beta1.VirtualNodeConditionStatusType {
	for _, c := range vn.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func TestAVirtualNodeGetsItsKubeletAndNamespaceMap(t *testing.T) {
	w := pass(t, virtualNode(nil), peered(kubeconfig)...)
	deployment := &appsv1.Deployment{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "vk-mynode"}, deployment))
	assert.Empty(t, deployment.Annotations["liqo.io/offloading-patch-hash"], "the hash of no patch")
	assert.Contains(t, deployment.Annotations, "liqo.io/offloading-patch-hash")
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "mynode"}, &corev1.ServiceAccount{}))
	binding := &rbacv1.ClusterRoleBinding{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "liqo-node-mynode"}, binding))
	assert.Equal(t, "liqo-virtual-kubelet-local", binding.RoleRef.Name)
	for _, object := range virtualkubelet.Rights(virtualNode(nil)) {
		require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(object), object), title(object))
	}
	node := &corev1.Node{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "mynode"}, node))
	assert.True(t, IsNodeOf(node, w.vn))
	assert.Equal(t, []corev1.Taint{{Key: "virtual-node.liqo.io/not-allowed", Value: "true", Effect: corev1.TaintEffectNoExecute}}, node.Spec.Taints)
	assert.Empty(t, node.Status.Allocatable, "no pod fits before the virtual kubelet has published the status")
	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan"}, nm))
	assert.Equal(t, map[string]string{"liqo.io/remote-cluster-id": "milan", "liqo.io/replication": "true", "liqo.io/remoteID": "milan"}, nm.Labels)
	assert.Equal(t, offloadingv1beta1.CreatingConditionStatusType, statusOf(w.vn, offloadingv1beta1.VirtualKubeletConditionType), "not Running before a replica is available (T59)")
	assert.Len(t, w.events, 1)
}

func TestMissingPrerequisitesAreReportedInTheCondition(t *testing.T) {
	cases := map[string]struct {
		change   func(*offloadingv1beta1.VirtualNode)
		existing []client.Object
		want     string
	}{
		"another namespace":     {nil, peered(kubeconfig)[:2], `namespace "liqo-tenant-milan" is not the tenant namespace of cluster "milan"`},
		"no ForeignCluster":     {existing: peered(kubeconfig)[2:], want: `cluster "milan" has no ForeignCluster`},
		"no Secret reference":   {func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.KubeconfigSecretRef = nil }, peered(kubeconfig), "spec.kubeconfigSecretRef is not set"},
		"the Secret is missing": {nil, []client.Object{peered(kubeconfig)[0], authentication.TenantNamespace("milan")}, "kubeconfig Secret liqo-tenant-milan/kubeconfig does not exist"},
		"the Secret is empty":   {nil, peered(""), `has no key "kubeconfig"`},
		"an invalid kubeconfig": {nil, peered("{"), "not a kubeconfig"},
		"the template is for another namespace": {func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.Template.ObjectMeta.Namespace = "kube-system" },
			peered(kubeconfig), `invalid spec.template.metadata.namespace "kube-system"`},
		"the webhook was not called": {func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.Template = nil }, peered(kubeconfig), "has no spec.template"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := pass(t, virtualNode(tc.change), tc.existing...)
			assert.Contains(t, conditions(w.vn)["VirtualKubelet"], tc.want)
			require.Len(t, w.events, 1)
			assert.Contains(t, w.events[0], tc.want)
			list := &appsv1.DeploymentList{}
			require.NoError(t, w.List(t.Context(), list))
			assert.Empty(t, list.Items, "nothing is half applied")
		})
	}
}

// The virtual kubelet goes on with the kubeconfig that it has read before.
func TestABrokenKubeconfigOfARunningVirtualKubeletIsReportedInTheCondition(t *testing.T) {
	running := virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		vn.Status.Conditions = []offloadingv1beta1.VirtualNodeCondition{{
			Type: offloadingv1beta1.VirtualKubeletConditionType, Status: offloadingv1beta1.RunningConditionStatusType,
		}}
	})
	w := pass(t, running, peered("{")...)
	assert.Regexp(t, `^Running: kubeconfig Secret liqo-tenant-milan/kubeconfig: key "kubeconfig" is not a kubeconfig`, conditions(w.vn)["VirtualKubelet"])
	assert.Empty(t, w.events, "the virtual kubelet records one")

	r := &Reconciler{Client: w.Client}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "kubeconfig"}}
	require.Len(t, r.requestsForKubeconfig(t.Context(), secret), 1)
	assert.Equal(t, "mynode", r.requestsForKubeconfig(t.Context(), secret)[0].Name)
	for _, other := range []client.ObjectKey{{Namespace: "liqo-tenant-milan", Name: "other"}, {Namespace: "other", Name: "kubeconfig"}} {
		assert.Empty(t, r.requestsForKubeconfig(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other.Namespace, Name: other.Name}}))
	}
}

func TestDeletionRemovesPartsInOrder(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mynode", UID: "n", Labels: ownNode("", "").Labels}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "p", Labels: map[string]string{offloadingv1beta1.LocalPodLabel: "true"}},
		Spec:       corev1.PodSpec{NodeName: "mynode"},
	}
	daemon := pod.DeepCopy()
	daemon.Name, daemon.OwnerReferences = "agent", []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: ptr.To(true)}}
	now := metav1.Now()
	vn := virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.DeletionTimestamp = &now })

	w := pass(t, vn, append(peered(kubeconfig), node, pod, daemon)...)
	assert.Equal(t, offloadingv1beta1.DrainingConditionStatusType, statusOf(w.vn, offloadingv1beta1.NodeConditionType))
	assert.True(t, apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{})), "evicted")
	assert.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(daemon), &corev1.Pod{}), "a daemon's pod stays")
	cordoned := &corev1.Node{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(node), cordoned))
	assert.True(t, cordoned.Spec.Unschedulable)

	nm := remote.NamespaceMap("milan", "liqo-tenant-milan")
	w = pass(t, vn, append(peered(kubeconfig), node, nm)...)
	assert.True(t, apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(node), &corev1.Node{})))
	assert.True(t, apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(nm), nm)), "the last VirtualNode takes the NamespaceMap along")
	assert.Nil(t, w.vn, "released")
}

func TestDrainEvictsPodsWithoutALabelOfOffloading(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mynode", UID: "n", Labels: ownNode("", "").Labels}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "young", Namespace: "shop", UID: "p"}, Spec: corev1.PodSpec{NodeName: "mynode"}}
	onOtherNode := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "shop", UID: "q"}, Spec: corev1.PodSpec{NodeName: "other"}}
	now := metav1.Now()
	vn := virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.DeletionTimestamp = &now })

	w := pass(t, vn, append(peered(kubeconfig), node, pod, onOtherNode)...)
	assert.Contains(t, conditions(w.vn)["Node"], "1 pods left: pod shop/", "the virtual kubelet stays until nothing runs for it on the provider")
	assert.True(t, apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{})), "evicted")
	assert.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(onOtherNode), &corev1.Pod{}))
	assert.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(node), &corev1.Node{}))
}

func TestTheNamespaceMapStaysWhileAnotherVirtualNodeOfTheProviderDrains(t *testing.T) {
	now := metav1.Now()
	vn := virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.DeletionTimestamp = &now })
	draining := virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		vn.Name, vn.UID, vn.DeletionTimestamp = "second", "vn-2", &now
	})
	nm := remote.NamespaceMap("milan", "liqo-tenant-milan")
	w := pass(t, vn, append(peered(kubeconfig), draining, nm)...)
	assert.Nil(t, w.vn, "released")
	assert.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(nm), nm), "without it the provider deletes the namespaces that the second one's pods run in")
}

func TestApplyUpdatesTheDeployment(t *testing.T) {
	forged := func(t *testing.T) *appsv1.Deployment {
		t.Helper()
		deployment, err := virtualkubelet.Deployment(virtualNode(withContainer))
		require.NoError(t, err)
		return deployment
	}
	cases := map[string]struct {
		existing func(*appsv1.Deployment)
		updated  bool
	}{
		"no difference": {existing: func(*appsv1.Deployment) {}},
		"defaults of the API server": {existing: func(d *appsv1.Deployment) {
			d.Spec.RevisionHistoryLimit = ptr.To[int32](10)
			d.Spec.Template.Spec.DNSPolicy = corev1.DNSClusterFirst
			d.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{}
			d.Spec.Template.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
		}},
		"an argument that was removed from the template": {updated: true, existing: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args, "--client-qps=5")
		}},
		"a limit that was removed from the template": {updated: true, existing: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}},
		"a restart by kubectl (T61)": {updated: true, existing: func(d *appsv1.Deployment) {
			d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
		}},
		"a scalar that was removed from the template": {updated: true, existing: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.PriorityClassName = "high"
			d.Annotations = map[string]string{virtualkubelet.TemplateHashAnnotation: "that of another template"}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			existing := forged(t)
			existing.ResourceVersion = "7"
			tc.existing(existing)
			w := pass(t, virtualNode(withContainer), append(peered(kubeconfig), existing)...)
			got := &appsv1.Deployment{}
			require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(existing), got))
			assert.Equal(t, tc.updated, got.ResourceVersion != "7")
			if tc.updated {
				assert.True(t, equality.Semantic.DeepEqual(forged(t).Spec, got.Spec))
			}
		})
	}
}

func TestAChangedOffloadingPatchRestartsNoVirtualKubelet(t *testing.T) {
	patched := func(label string) func(*offloadingv1beta1.VirtualNode) {
		return func(vn *offloadingv1beta1.VirtualNode) {
			withContainer(vn)
			vn.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{LabelsNotReflected: []string{label}}
		}
	}
	before, err := virtualkubelet.Deployment(virtualNode(patched("team")))
	require.NoError(t, err)
	// What the API server fills in is not written again either.
	before.Spec.Template.Spec.DNSPolicy = corev1.DNSClusterFirst
	w := pass(t, virtualNode(patched("secret")), append(peered(kubeconfig), before)...)
	after := &appsv1.Deployment{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(before), after))
	assert.Equal(t, before.Spec, after.Spec, "the virtual kubelet takes the new patch as it runs: a rollout would stop the reflection for nothing")
	assert.Len(t, after.Annotations["liqo.io/offloading-patch-hash"], 64)
	assert.NotEqual(t, before.Annotations["liqo.io/offloading-patch-hash"], after.Annotations["liqo.io/offloading-patch-hash"], "it is the hash of the new patch")
}

func withContainer(vn *offloadingv1beta1.VirtualNode) {
	vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "virtual-kubelet", Image: "i", Args: []string{"--a=1", "--b=2"}}}
}

func TestUncordonAfterACancelledDrain(t *testing.T) {
	node := func(annotations map[string]string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "mynode", UID: "n", Annotations: annotations,
				Labels: ownNode("", "").Labels},
			Spec: corev1.NodeSpec{Unschedulable: annotations != nil},
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "p"}, Spec: corev1.PodSpec{NodeName: "mynode"}}
	got := &corev1.Node{}
	w := pass(t, virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.CreateNode = ptr.To(false) }), append(peered(kubeconfig), node(nil), pod)...)
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "mynode"}, got))
	require.True(t, got.Spec.Unschedulable)
	require.NotEmpty(t, got.Annotations)

	w = pass(t, virtualNode(nil), append(peered(kubeconfig), node(got.Annotations), pod)...)
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "mynode"}, got))
	assert.False(t, got.Spec.Unschedulable)
	assert.Empty(t, got.Annotations)

	w = pass(t, virtualNode(nil), append(peered(kubeconfig), node(map[string]string{"note": "for repairs"}), pod)...)
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "mynode"}, got))
	assert.True(t, got.Spec.Unschedulable, "the cordon of an administrator is kept")
}

func TestANamespaceMapWithoutLabelsIsReportedInTheCondition(t *testing.T) {
	nm := remote.NamespaceMap("milan", "liqo-tenant-milan")
	nm.Labels = nil
	w := pass(t, virtualNode(nil), append(peered(kubeconfig), nm)...)
	assert.Contains(t, conditions(w.vn)["VirtualKubelet"], "NamespaceMap liqo-tenant-milan/milan has no label")
}

func TestAForeignClusterWithoutALabelIsFoundByItsSpec(t *testing.T) {
	fc := &liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: "milan"}}
	w := pass(t, virtualNode(nil), fc, authentication.TenantNamespace("milan"), peered(kubeconfig)[1])
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "vk-mynode"}, &appsv1.Deployment{}),
		"a ForeignCluster that a user created has no label")
	assert.Len(t, (&Reconciler{Client: w.Client}).requestsForCluster(t.Context(), fc), 1)
}

func TestDeletionKeepsAnUnmanagedNode(t *testing.T) {
	now := metav1.Now()
	unmanaged := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mynode"}}
	w := pass(t, virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.DeletionTimestamp = &now }), append(peered(kubeconfig), unmanaged)...)
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(unmanaged), &corev1.Node{}))
	assert.Nil(t, w.vn)
}

func TestSetConditionHoldsEachTypeOnce(t *testing.T) {
	vn := &offloadingv1beta1.VirtualNode{}
	now, later := metav1.Now(), metav1.NewTime(time.Now().Add(time.Hour))
	SetCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.CreatingConditionStatusType, "", now)
	SetCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.RunningConditionStatusType, "", later)
	require.Len(t, vn.Status.Conditions, 1, "T58")
	assert.Equal(t, later, vn.Status.Conditions[0].LastTransitionTime)
	SetCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.NoneConditionStatusType, "", later)
	SetCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.DrainingConditionStatusType, "", later)
	assert.Equal(t, offloadingv1beta1.NoneConditionStatusType, vn.Status.Conditions[0].Status, "None to Draining is refused")
}

func TestAVirtualNodeOutsideOfItsTenantNamespaceDoesNotBlockOthers(t *testing.T) {
	outside := virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.Namespace, vn.Name, vn.UID = "shop", "mine", "vn-9" })
	w := pass(t, outside, append(peered(kubeconfig), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})...)
	assert.Contains(t, conditions(w.vn)["VirtualKubelet"], `namespace "shop" is not the tenant namespace of cluster "milan"`)
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceAccountList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}, &offloadingv1beta1.NamespaceMapList{}, &corev1.NodeList{},
	} {
		require.NoError(t, w.List(t.Context(), list))
		assert.Zero(t, meta.LenList(list), "%T", list)
	}
	t.Run("a NamespaceMap in another namespace", func(t *testing.T) {
		unmanaged := remote.NamespaceMap("milan", "shop")
		w := pass(t, virtualNode(nil), append(peered(kubeconfig), unmanaged)...)
		require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan"}, &offloadingv1beta1.NamespaceMap{}))
		w = pass(t, deleted(virtualNode(nil)), append(peered(kubeconfig), unmanaged)...)
		assert.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(unmanaged), unmanaged), "it belongs to another namespace")
	})
}
