package rig_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/check"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

const (
	patience = 4 * time.Minute
	every    = 50 * time.Millisecond
	server   = "../../../bin/longshore"
)

func printLogs(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.log"))
	require.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		const tail = 6000
		t.Logf("%s:\n%s", filepath.Base(file), content[max(0, len(content)-tail):])
	}
}

func quiet(string) {}

// installationChecked runs what the chart's test hook runs.
func installationChecked(t *testing.T, r *rig.Rig) {
	for _, cluster := range []*rig.Cluster{r.Rome, r.Milan} {
		var out bytes.Buffer
		require.NoError(t, check.Run(t.Context(), check.Options{
			Client: cluster.Client, Namespace: rig.Namespace, Timeout: patience, PollInterval: 50 * time.Millisecond, Out: &out,
		}), cluster.Name)
		assert.Equal(t, "ok   the API server reaches the webhook\nok   every policy is ready\n", out.String())
	}
}

func labelComesBack(t *testing.T, r *rig.Rig) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: application.Namespace}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+offloadingv1beta1.SchedulingEnabledLabel+`":null}}}`))
	require.NoError(t, r.Rome.Patch(t.Context(), namespace, patch))
	eventually(t, "the label is there", func(t planetest.T) bool {
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
		return namespace.Labels[offloadingv1beta1.SchedulingEnabledLabel] == "true"
	})
}

func noKwokOnTheVirtualNode(t *testing.T, r *rig.Rig) {
	node := &corev1.Node{}
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Name: rig.Node}, node))
	assert.NotContains(t, node.Labels, testplane.SimulatedLabel)
	assert.Equal(t, offloadingv1beta1.NodeTypeVirtual, node.Labels[offloadingv1beta1.NodeTypeLabel])
	for _, entry := range node.ManagedFields {
		assert.NotContains(t, entry.Manager, "kwok")
	}
}

func eventually(t planetest.T, what string, ok func(t planetest.T) bool) {
	t.Helper()
	planetest.Until(t, ok, patience, every, what)
}

func pods(t planetest.T, c *rig.Cluster, namespace string, labels map[string]string) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, c.List(t.Context(), list, client.InNamespace(namespace), client.MatchingLabels(labels)))
	return list.Items
}

func remotePodComesBack(t *testing.T, r *rig.Rig) {
	before := pods(t, r.Milan, "shop-rome", map[string]string{"app": "catalog"})
	require.Len(t, before, 1)
	require.NoError(t, r.Milan.Delete(t.Context(), &before[0], client.GracePeriodSeconds(0)))
	eventually(t, "another remote pod runs under the same name", func(t planetest.T) bool {
		now := pods(t, r.Milan, "shop-rome", map[string]string{"app": "catalog"})
		return len(now) == 1 && now[0].Name == before[0].Name && now[0].UID != before[0].UID && now[0].Status.Phase == corev1.PodRunning
	})
	// The local pod counts each replacement of the remote pod as a restart. kwok
	// ends pods by name, so it may take the second remote pod for the first and end it too.
	planetest.Until(t, func(t planetest.T) bool {
		local := pods(t, r.Rome, application.Namespace, map[string]string{"app": "catalog"})
		remote := pods(t, r.Milan, "shop-rome", map[string]string{"app": "catalog"})
		require.Len(t, local, 1)
		require.Len(t, remote, 1)
		require.Len(t, local[0].Status.ContainerStatuses, 1)
		have, want := local[0].Status, remote[0].Status
		require.GreaterOrEqual(t, have.ContainerStatuses[0].RestartCount, int32(1))
		want.ContainerStatuses[0].RestartCount = have.ContainerStatuses[0].RestartCount
		return assert.Equal(t, want.PodIP, have.PodIP) && assert.Equal(t, want.StartTime, have.StartTime) &&
			assert.Equal(t, want.ContainerStatuses, have.ContainerStatuses)
	}, patience, every, "the local status is that of the new remote pod")
	require.NoError(t, r.Verify(t.Context(), application.Namespace), "what make demo checks on a running demo")
}

// virtualNodeComesBack deletes the VirtualNode without its finalizer, so that it is not withdrawn. It is
// created again of its slice. It is withdrawn in order at the end, by returnSlice.
func virtualNodeComesBack(t *testing.T, r *rig.Rig) {
	uids := func(t planetest.T) map[string]types.UID {
		t.Helper()
		node, namespace := &corev1.Node{}, &corev1.Namespace{}
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Name: rig.Node}, node))
		require.NoError(t, r.Milan.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, namespace))
		found := map[string]types.UID{"Node": node.UID, "remote namespace": namespace.UID}
		for _, pod := range pods(t, r.Rome, application.Namespace, nil) {
			found["pod "+pod.Name] = pod.UID
		}
		for _, pod := range pods(t, r.Milan, "shop-rome", nil) {
			found["remote pod "+pod.Name] = pod.UID
		}
		return found
	}
	before := uids(t)
	vn := &offloadingv1beta1.VirtualNode{}
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Namespace: tenantInRome, Name: rig.Node}, vn))
	uid := vn.UID
	require.NoError(t, r.Rome.Patch(t.Context(), vn, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	require.NoError(t, r.Rome.Delete(t.Context(), vn))
	eventually(t, "it is created again, although its Node exists", func(t planetest.T) bool {
		again := &offloadingv1beta1.VirtualNode{}
		if r.Rome.Get(t.Context(), client.ObjectKeyFromObject(vn), again) != nil || again.UID == uid {
			return false
		}
		return slices.ContainsFunc(again.Status.Conditions, func(c offloadingv1beta1.VirtualNodeCondition) bool {
			return c.Type == offloadingv1beta1.VirtualKubeletConditionType && c.Status == offloadingv1beta1.RunningConditionStatusType
		}) && slices.Contains(again.Finalizers, offloadingv1beta1.VirtualNodeFinalizer)
	})
	assert.Equal(t, before, uids(t), "nothing is lost")
	remotePodComesBack(t, r)
}

func configMapFollows(t *testing.T, r *rig.Rig) {
	cm := &corev1.ConfigMap{}
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Namespace: application.Namespace, Name: "storefront"}, cm))
	for _, banner := range []string{"changed", cm.Data["banner.txt"]} {
		cm.Data["banner.txt"] = banner
		require.NoError(t, r.Rome.Update(t.Context(), cm))
		eventually(t, "the remote ConfigMap is the same", func(t planetest.T) bool {
			remote := &corev1.ConfigMap{}
			return r.Milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "storefront"}, remote) == nil &&
				remote.Data["banner.txt"] == banner
		})
	}
}

func scale(t planetest.T, r *rig.Rig, name string, replicas int32) {
	t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: application.Namespace}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":`+string('0'+replicas)+`}}`))
	require.NoError(t, r.Rome.Patch(t.Context(), deployment, patch))
}

func scaleDown(t *testing.T, r *rig.Rig) {
	scale(t, r, "storefront", 1)
	eventually(t, "one pod is left on each side", func(t planetest.T) bool {
		labels := map[string]string{"app": "storefront"}
		return len(pods(t, r.Rome, application.Namespace, labels)) == 1 && len(pods(t, r.Milan, "shop-rome", labels)) == 1
	})
	scale(t, r, "storefront", 2)
}

// setMode switches a default policy and waits for the components, which follow live, a moment later.
func setMode(t *testing.T, r *rig.Rig, name string, mode policyv1alpha1.Mode) {
	t.Helper()
	policy := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	// A patch: components write the status meanwhile.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"mode":"`+string(mode)+`"}}`))
	require.NoError(t, r.Rome.Patch(t.Context(), policy, patch))
	eventually(t, "all components decide by "+name, func(t planetest.T) bool {
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
		have, want, _ := strings.Cut(policy.Status.Components, "/")
		return policy.Status.ObservedGeneration == policy.Generation && have == want
	})
}

func antiAffinity(t planetest.T, r *rig.Rig, replicas int32) *corev1.PodAntiAffinity {
	t.Helper()
	scale(t, r, "storefront", 0)
	labels := map[string]string{"app": "storefront"}
	eventually(t, "no pod is left", func(t planetest.T) bool { return len(pods(t, r.Milan, "shop-rome", labels)) == 0 })
	scale(t, r, "storefront", replicas)
	var remote []corev1.Pod
	eventually(t, "the remote pods exist", func(t planetest.T) bool {
		remote = pods(t, r.Milan, "shop-rome", labels)
		return len(remote) == int(replicas)
	})
	if remote[0].Spec.Affinity == nil {
		return nil
	}
	return remote[0].Spec.Affinity.PodAntiAffinity
}

func policySwitchedOff(t *testing.T, r *rig.Rig) {
	require.NotNil(t, antiAffinity(t, r, 1), "the soft preset gives the remote pod an anti-affinity")
	setMode(t, r, "default-antiaffinity", policyv1alpha1.ModeDisabled)
	eventually(t, "without the policy there is none", func(t planetest.T) bool { return antiAffinity(t, r, 1) == nil })
	setMode(t, r, "default-antiaffinity", policyv1alpha1.ModeEnforce)
	eventually(t, "and with it there is one again", func(t planetest.T) bool { return antiAffinity(t, r, 1) != nil })

	tolerations := func(t planetest.T) int {
		asked := pod("asked")
		require.NoError(t, r.Rome.Create(t.Context(), asked, client.DryRunAll))
		return len(tolerationsOf(asked))
	}
	require.Equal(t, 1, tolerations(t), "the placement policy lets the pod onto virtual nodes")
	setMode(t, r, "default-podplacement", policyv1alpha1.ModeDisabled)
	eventually(t, "without the policy the pod has no toleration", func(t planetest.T) bool { return tolerations(t) == 0 })
	setMode(t, r, "default-podplacement", policyv1alpha1.ModeEnforce)
	eventually(t, "with the policy it has one again", func(t planetest.T) bool { return tolerations(t) == 1 })
	scale(t, r, "storefront", 2)
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: application.Namespace},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "shop.example/any:1"}}},
	}
}

func tolerationsOf(pod *corev1.Pod) []corev1.Toleration {
	var ours []corev1.Toleration
	for _, toleration := range pod.Spec.Tolerations {
		if toleration.Key == offloadingv1beta1.VirtualNodeTaintKey {
			ours = append(ours, toleration)
		}
	}
	return ours
}

// kubeletRestarts deletes the virtual kubelet, which adopts what it finds.
func kubeletRestarts(t *testing.T, r *rig.Rig) {
	eventArrives(t, r)
	tenant := rig.Pair.ConsumerTenant()
	labels := map[string]string{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet}
	before := map[types.UID]bool{}
	for _, p := range pods(t, r.Milan, "shop-rome", nil) {
		before[p.UID] = true
	}
	kubelets := pods(t, r.Rome, tenant, labels)
	require.Len(t, kubelets, 1)
	require.NoError(t, r.Rome.Delete(t.Context(), &kubelets[0]))
	eventually(t, "a new virtual kubelet is ready", func(t planetest.T) bool {
		now := pods(t, r.Rome, tenant, labels)
		return len(now) == 1 && now[0].UID != kubelets[0].UID && ready(&now[0])
	})
	scale(t, r, "storefront", 3)
	require.NoError(t, r.Rome.WaitForPods(t.Context(), application.Namespace, applicationPods+1, quiet))
	survivors := 0
	for _, p := range pods(t, r.Milan, "shop-rome", nil) {
		if before[p.UID] {
			survivors++
		}
	}
	assert.Equal(t, len(before), survivors, "no remote pod was replaced")
	scale(t, r, "storefront", 2)
	eventArrives(t, r)
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func unOffload(t *testing.T, r *rig.Rig) {
	nso := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{
		Name: offloadingv1beta1.NamespaceOffloadingName, Namespace: application.Namespace,
	}}
	// The workloads go first, so that nothing makes new pods meanwhile.
	for _, name := range []string{"storefront", "catalog"} {
		require.NoError(t, r.Rome.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: application.Namespace}}))
	}
	require.NoError(t, r.Rome.Delete(t.Context(), nso))
	eventually(t, "the remote namespace is gone", func(t planetest.T) bool {
		return apierrors.IsNotFound(r.Milan.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, &corev1.Namespace{}))
	})
	eventually(t, "the NamespaceOffloading is gone", func(t planetest.T) bool {
		return apierrors.IsNotFound(r.Rome.Get(t.Context(), client.ObjectKeyFromObject(nso), nso))
	})
	namespace := &corev1.Namespace{}
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Name: application.Namespace}, namespace))
	assert.NotContains(t, namespace.Labels, offloadingv1beta1.SchedulingEnabledLabel)
	eventually(t, "pods that ran there are aborted", func(t planetest.T) bool {
		for _, p := range pods(t, r.Rome, application.Namespace, map[string]string{"app": "database"}) {
			if p.Spec.NodeName == rig.Node && p.DeletionTimestamp.IsZero() &&
				p.Status.Reason != offloadingv1beta1.OffloadingAbortedReason && p.Status.Reason != offloadingv1beta1.OffloadingBackOffReason {
				return false
			}
		}
		return true
	})
}

func returnSlice(t *testing.T, r *rig.Rig) {
	tenant := rig.Pair.ConsumerTenant()
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: rig.Node, Namespace: tenant}}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: vn.ObjectMeta}
	require.NoError(t, r.Rome.Delete(t.Context(), slice))
	for _, object := range []client.Object{slice, vn} {
		eventually(t, "the slice and its VirtualNode are gone", func(t planetest.T) bool {
			return apierrors.IsNotFound(r.Rome.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		})
	}
	assert.True(t, apierrors.IsNotFound(r.Rome.Get(t.Context(), client.ObjectKey{Name: rig.Node}, &corev1.Node{})))
	eventually(t, "no kubelet has access to namespaces", func(t planetest.T) bool { return len(accesses(t, r, "")) == 0 })
	for _, object := range virtualkubelet.Rights(vn) {
		assert.True(t, isGone(t, r, object), "%T %s", object, object.GetName())
	}
	deployments := &appsv1.DeploymentList{}
	require.NoError(t, r.Rome.List(t.Context(), deployments, client.InNamespace(tenant)))
	assert.Empty(t, deployments.Items)
	eventually(t, "its NamespaceMap is gone in both clusters", func(t planetest.T) bool {
		for cluster, namespace := range map[*rig.Cluster]string{r.Rome: tenant, r.Milan: rig.Pair.ProviderTenant()} {
			list := &offloadingv1beta1.NamespaceMapList{}
			require.NoError(t, cluster.List(t.Context(), list, client.InNamespace(namespace)))
			if len(list.Items) > 0 {
				return false
			}
		}
		return true
	})
}
