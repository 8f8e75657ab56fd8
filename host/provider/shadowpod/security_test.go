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
)

// hostile are specs with which a pod leaves its sandbox, and a word of the reason.
var hostile = map[string]struct {
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
	"precedence over the provider's own": {func(s *corev1.PodSpec) { s.PriorityClassName = "system-node-critical" }, "system-node-critical"},
}

func hostPath(path string) corev1.Volume {
	return corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
}

func security(spec *corev1.PodSpec) *corev1.SecurityContext {
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{}
	return spec.Containers[0].SecurityContext
}

func TestAHostilePodIsNotCreatedAndTheShadowPodSaysWhy(t *testing.T) {
	for name, tc := range hostile {
		t.Run(name, func(t *testing.T) {
			s := shadow(func(s *offloadingv1beta1.ShadowPod) { tc.change(&s.Spec.Pod) })
			out := world{shadow: s}.pass(t)
			require.NoError(t, out.err)
			assert.Nil(t, out.pod)
			assert.Equal(t, []string{"patch shadowpod status"}, out.writes)
			assert.Equal(t, unmanagedRetry, out.result.RequeueAfter, "the provider may allow it later")
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
		"a plain pod is allowed by default":                  {},
		"a privileged pod is not":                            {change: func(s *corev1.PodSpec) { security(s).Privileged = ptr.To(true) }, want: `level "baseline"`},
		"the provider may allow all":                         {level: api.LevelPrivileged, change: func(s *corev1.PodSpec) { s.HostNetwork, s.PriorityClassName = true, "system-node-critical" }},
		"the provider may ask for more":                      {level: api.LevelRestricted, want: `level "restricted"`},
		"a label of the namespace allows more":               {namespace: labels("privileged"), change: func(s *corev1.PodSpec) { s.HostPID = true }},
		"a label of the namespace asks for more":             {namespace: labels("restricted"), want: `level "restricted"`},
		"a label that is misspelled means the strictest":     {level: api.LevelPrivileged, namespace: labels("privilegd"), want: `level "restricted"`},
		"a level that only warns changes nothing":            {namespace: map[string]string{api.WarnLevelLabel: "restricted"}},
		"another class of priority is the scheduler's topic": {change: func(s *corev1.PodSpec) { s.PriorityClassName = "high" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := ForgePod(shadow(nil))
			if tc.change != nil {
				tc.change(&pod.Spec)
			}
			got, err := SecurityViolation(tc.level, tc.namespace, pod)
			require.NoError(t, err)
			if tc.want == "" {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, tc.want)
		})
	}
}

func TestTheLevelIsThatOfTheNamespaceIfTheProviderSetOne(t *testing.T) {
	s := shadow(func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.HostNetwork = true })
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, Labels: map[string]string{api.EnforceLevelLabel: "privileged"}}}
	out := world{shadow: s, namespace: namespace}.pass(t)
	require.NoError(t, out.err)
	require.NotNil(t, out.pod)
	assert.True(t, out.pod.Spec.HostNetwork)
}

func TestAPodThatRunsIsFoundAlthoughTheProviderWouldNotCreateItNow(t *testing.T) {
	// The pod is not in the cache, which selects by label, and the level is newer than it.
	s := shadow(func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.HostNetwork, s.Status.Phase = true, corev1.PodRunning })
	pod := ownPod(s, corev1.PodRunning, 0)
	delete(pod.Labels, offloadingv1beta1.ManagedByLabel)
	out := world{shadow: s, live: pod}.pass(t)
	assert.NotContains(t, out.writes, "patch shadowpod status", "it is not refused: it runs")
	assert.Contains(t, out.writes, "patch pod", "its label is restored")
}
