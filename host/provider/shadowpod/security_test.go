package shadowpod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
)

// forbiddenSpecs are specs that the baseline level forbids, and a part of the reason.
var forbiddenSpecs = map[string]struct {
	change func(*corev1.PodSpec)
	reason string
}{
	"the network of the node":       {func(s *corev1.PodSpec) { s.HostNetwork = true }, "hostNetwork=true"},
	"the processes of the node":     {func(s *corev1.PodSpec) { s.HostPID = true }, "hostPID=true"},
	"the shared memory of the node": {func(s *corev1.PodSpec) { s.HostIPC = true }, "hostIPC=true"},
	"the files of the node":         {func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{hostPath("/")} }, "hostPath volumes"},
	"all rights on the node":        {func(s *corev1.PodSpec) { security(s).Privileged = ptr.To(true) }, "privileged"},
	"a capability of root": {func(s *corev1.PodSpec) {
		security(s).Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}
	}, "SYS_ADMIN"},
	"a port of the node": {func(s *corev1.PodSpec) {
		s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}, "hostPort"},
	"the same from an init container": {func(s *corev1.PodSpec) {
		s.InitContainers = []corev1.Container{{Name: "init", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}}
	}, "privileged"},
	"a node without the scheduler":       {func(s *corev1.PodSpec) { s.NodeName = "control-plane-1" }, "nodeName=control-plane-1"},
	"priority over pods of the provider": {func(s *corev1.PodSpec) { s.PriorityClassName = "system-node-critical" }, "system-node-critical"},
}

func hostPath(path string) corev1.Volume {
	return corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
}

func security(spec *corev1.PodSpec) *corev1.SecurityContext {
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{}
	return spec.Containers[0].SecurityContext
}

func TestForbiddenPodIsNotCreated(t *testing.T) {
	for name, tc := range forbiddenSpecs {
		t.Run(name, func(t *testing.T) {
			s := shadow(func(s *offloadingv1beta1.ShadowPod) { tc.change(&s.Spec.Pod) })
			out := state{shadow: s}.reconcile(t)
			require.NoError(t, out.err)
			assert.Nil(t, out.pod)
			assert.Equal(t, []string{"patch shadowpod status"}, out.writes)
			assert.Equal(t, creationRetry, out.result.RequeueAfter)
			assert.Equal(t, offloadingv1beta1.FailedCreatePodReason, out.shadow.Status.Reason)
			assert.Contains(t, out.shadow.Status.Message, `violates the provider's Pod Security level "baseline"`)
			assert.Contains(t, out.shadow.Status.Message, tc.reason)
			require.Len(t, out.events, 1)
			assert.Contains(t, out.events[0], tc.reason)
		})
	}
}

func TestSecurityViolation(t *testing.T) {
	labels := func(level string) map[string]string { return map[string]string{api.EnforceLevelLabel: level} }
	cases := map[string]struct {
		level     api.Level
		namespace map[string]string
		change    func(*corev1.PodSpec)
		want      string
	}{
		"a plain pod is allowed by default":          {},
		"a privileged pod is not allowed by default": {change: func(s *corev1.PodSpec) { security(s).Privileged = ptr.To(true) }, want: `level "baseline"`},
		"the provider may allow all": {level: api.LevelPrivileged, change: func(s *corev1.PodSpec) {
			s.HostNetwork, s.PriorityClassName, s.NodeName = true, "system-node-critical", "n"
		}},
		"the provider may require more":                            {level: api.LevelRestricted, want: `level "restricted"`},
		"a label of the namespace allows more":                     {namespace: labels("privileged"), change: func(s *corev1.PodSpec) { s.HostPID = true }},
		"a label of the namespace requires more":                   {namespace: labels("restricted"), want: `level "restricted"`},
		"an invalid label means restricted":                        {level: api.LevelPrivileged, namespace: labels("privilegd"), want: `level "restricted"`},
		"a level that only warns is ignored":                       {namespace: map[string]string{api.WarnLevelLabel: "restricted"}},
		"another priority class is admitted by the webhook or not": {change: func(s *corev1.PodSpec) { s.PriorityClassName = "high" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := provider.Pod(shadow(nil))
			if tc.change != nil {
				tc.change(&pod.Spec)
			}
			got, err := provider.SecurityViolation(tc.level, tc.namespace, pod)
			require.NoError(t, err)
			if tc.want == "" {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, tc.want)
		})
	}
}

func TestSecurityLevelOfNamespace(t *testing.T) {
	s := shadow(func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.HostNetwork = true })
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, Labels: map[string]string{api.EnforceLevelLabel: "privileged"}}}
	out := state{shadow: s, namespace: namespace}.reconcile(t)
	require.NoError(t, out.err)
	require.NotNil(t, out.pod)
	assert.True(t, out.pod.Spec.HostNetwork)
}

func TestRunningPodIsNotRefused(t *testing.T) {
	// The pod lost its label, so the cache does not hold it, and the level was set later.
	s := shadow(func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.HostNetwork, s.Status.Phase = true, corev1.PodRunning })
	pod := ownPod(s, corev1.PodRunning, 0)
	delete(pod.Labels, offloadingv1beta1.ManagedByLabel)
	out := state{shadow: s, live: pod}.reconcile(t)
	assert.NotContains(t, out.writes, "patch shadowpod status")
	assert.Contains(t, out.writes, "patch pod")
}
