package rig_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/plan"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/planner"
)

// planCases are pods that differ in what is decided about them.
var planCases = map[string]struct {
	change func(*corev1.Pod)
	result planner.Result
}{
	"plan-plain": {func(*corev1.Pod) {}, planner.Offloadable},
	"plan-affinity": {func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}}}}},
		}}}
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	}, planner.Offloadable},
	"plan-preset": {func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{offloadingv1beta1.AntiAffinityPresetAnnotation: "soft", offloadingv1beta1.AntiAffinityLabelsAnnotation: "app"}
		pod.Spec.EnableServiceLinks = new(bool)
		pod.Spec.Hostname, pod.Spec.Subdomain = "db", "data"
	}, planner.Offloadable},
	"plan-missing": {func(pod *corev1.Pod) {
		pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}}}
	}, planner.Pending},
	"plan-selector": {func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, planner.Pending},
}

// tokenVolume is the volume that the API server adds to each pod, with a random name.
var tokenVolume = regexp.MustCompile(`kube-api-access-[a-z0-9]+`)

// planIsTrue predicts pods, creates them, and compares.
func planIsTrue(t *testing.T, r *rig.Rig) {
	kubeconfigs, err := r.WriteKubeconfigs(t.TempDir())
	require.NoError(t, err)
	for name, tc := range planCases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: application.Namespace, Labels: map[string]string{"app": name}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "shop.example/web:1"}}},
			}
			tc.change(pod)
			planned := predict(t, kubeconfigs["rome"], withDefaults(t, r, pod))
			assert.Equal(t, tc.result, planned.Result, "%+v", planned.Reason)
			require.NoError(t, r.Rome.Create(t.Context(), pod))
			defer remove(t, r, pod)
			require.NotNil(t, planned.AdmittedPod)
			assert.Equal(t, asJSON(t, planned.AdmittedPod.Spec), asJSON(t, pod.Spec), "the admitted pod")
			assert.Equal(t, planned.AdmittedPod.Annotations, pod.Annotations)
			if planned.ShadowPod == nil {
				isUnschedulable(t, r, pod)
				return
			}
			shadow := &offloadingv1beta1.ShadowPod{}
			eventually(t, "the ShadowPod is sent", func(t planetest.T) bool {
				return r.Milan.Get(t.Context(), client.ObjectKeyFromObject(planned.ShadowPod), shadow) == nil
			})
			assert.Equal(t, asJSON(t, planned.ShadowPod.Spec), asJSON(t, shadow.Spec), "the ShadowPod")
			for key, value := range planned.ShadowPod.Labels {
				assert.Equal(t, value, shadow.Labels[key], key)
			}
		})
	}
}

// remove deletes a pod and waits for its end: the next steps count pods.
func remove(t *testing.T, r *rig.Rig, pod *corev1.Pod) {
	t.Helper()
	require.NoError(t, r.Rome.Delete(t.Context(), pod))
	eventually(t, "the pod is gone", func(t planetest.T) bool {
		return apierrors.IsNotFound(r.Rome.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}))
	})
}

// withDefaults returns the pod with what the API server adds before the webhook, from a
// namespace that is not offloaded.
func withDefaults(t *testing.T, r *rig.Rig, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	completed := pod.DeepCopy()
	completed.Namespace = metav1.NamespaceDefault
	eventually(t, "the namespace has its service account", func(t planetest.T) bool {
		return r.Rome.Create(t.Context(), completed, client.DryRunAll) == nil
	})
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, Annotations: pod.Annotations},
		Spec:       completed.Spec,
	}
}

// predict runs `longshorectl plan` against a cluster.
func predict(t *testing.T, kubeconfig string, pod *corev1.Pod) *planner.Plan {
	t.Helper()
	data, err := json.Marshal(pod)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "pod.json")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	var out bytes.Buffer
	command := plan.Command(nil, &out, func(string) string { return "" }, nil)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs([]string{"-f", file, "--kubeconfig", kubeconfig, "-o", "json"})
	code, message := output.ExitCode(command.ExecuteContext(t.Context()))
	require.Contains(t, []int{output.CodeDone, output.CodeDenied}, code, message)
	var result plan.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &result))
	require.Len(t, result.Plans, 1)
	assert.Empty(t, result.Problems)
	assert.Empty(t, result.Plans[0].Assumed, "the cluster says everything")
	return result.Plans[0]
}

// asJSON returns a value as JSON without names that are random.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.MarshalIndent(value, "", " ")
	require.NoError(t, err)
	return tokenVolume.ReplaceAllString(string(data), "kube-api-access")
}

func isUnschedulable(t *testing.T, r *rig.Rig, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "the scheduler finds no node", func(t planetest.T) bool {
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				return true
			}
		}
		return false
	})
}
