package virtualnode

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// completed is a new VirtualNode whose author wrote into spec.template.
func completed(t *testing.T, opts *offloadingv1beta1.VkOptionsTemplate, write func(*corev1.PodSpec)) corev1.PodSpec {
	t.Helper()
	vn := virtualNode(nil)
	if write != nil {
		vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{}
		vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{}}
		write(&vn.Spec.Template.Spec.Template.Spec)
	}
	require.NoError(t, complete(vn, opts, Cluster{ID: "rome", Namespace: "longshore"}))
	require.NoError(t, follow(vn, opts))
	return vn.Spec.Template.Spec.Template.Spec
}

// testRestricted creates the virtual kubelet's pod in a namespace that is held to the Pod
// Security standard.
func testRestricted(t *testing.T, api client.Client) {
	t.Helper()
	const tenant = "liqo-tenant-milan"
	require.NoError(t, api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: tenant, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}))
	require.NoError(t, api.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "mynode", Namespace: tenant}}))
	pod := func(write func(*corev1.PodSpec)) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "vk-mynode", Namespace: tenant}, Spec: completed(t, options(), write)}
	}
	assert.NoError(t, api.Create(t.Context(), pod(nil), client.DryRunAll))

	err := api.Create(t.Context(), pod(func(spec *corev1.PodSpec) { spec.Containers[0].SecurityContext = &corev1.SecurityContext{} }), client.DryRunAll)
	require.True(t, apierrors.IsForbidden(err), "what its author writes counts: %v", err)
	assert.ErrorContains(t, err, "PodSecurity")
}

func TestAVirtualKubeletIsProbedWhereItAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		extraArgs []string
		write     func(*corev1.PodSpec)
		want      int32
	}{
		"by default":                      {want: 10248},
		"where the options template says": {extraArgs: []string{"--health-port=9000"}, want: 9000},
		"where spec.template says": {extraArgs: []string{"--health-port=9000"}, want: 9001,
			write: func(spec *corev1.PodSpec) { spec.Containers[0].Args = []string{"--health-port=9001"} }},
		"nowhere": {write: func(spec *corev1.PodSpec) { spec.Containers[0].Args = []string{"--health-port=0"} }},
	} {
		t.Run(name, func(t *testing.T) {
			opts := options()
			opts.Spec.ExtraArgs = append(opts.Spec.ExtraArgs, tc.extraArgs...)
			c := completed(t, opts, tc.write).Containers[0]
			if tc.want == 0 {
				assert.Nil(t, c.LivenessProbe)
				assert.Nil(t, c.ReadinessProbe)
				return
			}
			require.Len(t, c.Ports, 2)
			assert.Equal(t, corev1.ContainerPort{Name: "health", ContainerPort: tc.want, Protocol: corev1.ProtocolTCP}, c.Ports[1])
			assert.Equal(t, &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("health")}, c.LivenessProbe.HTTPGet)
			assert.Equal(t, &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString("health")}, c.ReadinessProbe.HTTPGet)
		})
	}
}

func TestWhatSpecTemplateSaysOfSecurityAndProbesWins(t *testing.T) {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(10250)}}}
	written := func(spec *corev1.PodSpec) {
		spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](77)}
		spec.Containers[0].SecurityContext = &corev1.SecurityContext{}
		spec.Containers[0].ReadinessProbe = probe
	}
	spec := completed(t, options(), written)
	assert.Equal(t, &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](77)}, spec.SecurityContext)
	assert.Equal(t, &corev1.SecurityContext{}, spec.Containers[0].SecurityContext)
	assert.Equal(t, probe, spec.Containers[0].ReadinessProbe)
	assert.Equal(t, "/healthz", spec.Containers[0].LivenessProbe.HTTPGet.Path, "what it does not say stays")
	assert.Nil(t, spec.Containers[0].StartupProbe)
}
