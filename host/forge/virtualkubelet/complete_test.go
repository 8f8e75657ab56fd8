package virtualkubelet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func options() *offloadingv1beta1.VkOptionsTemplate {
	return &offloadingv1beta1.VkOptionsTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "virtual-kubelet-default", Namespace: "longshore"},
		Spec: offloadingv1beta1.VkOptionsTemplateSpec{
			CreateNode: true, ContainerImage: "longshore/longshore:1", Replicas: ptr.To[int32](1),
			MetricsEnabled: true, MetricsAddress: ":5872",
			LabelsNotReflected: []string{"team"}, AnnotationsNotReflected: []string{"neg"},
			ReflectorsConfig: map[string]offloadingv1beta1.ReflectorConfig{
				"pod": {NumWorkers: 10}, "configmap": {NumWorkers: 3, Type: offloadingv1beta1.DenyList},
			},
			ExtraArgs: []string{"--client-qps=50"},
		},
	}
}

func virtualNode(change func(*offloadingv1beta1.VirtualNode)) *offloadingv1beta1.VirtualNode {
	vn := &offloadingv1beta1.VirtualNode{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "VirtualNode"},
		ObjectMeta: metav1.ObjectMeta{Name: "mynode", Namespace: "liqo-tenant-milan"},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID: "milan", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-resourceslice-mynode"},
		},
	}
	if change != nil {
		change(vn)
	}
	return vn
}

// completedPod returns the pod of a completed VirtualNode. The function changes the pod in the
// spec.template of the user.
func completedPod(t *testing.T, opts *offloadingv1beta1.VkOptionsTemplate, write func(*corev1.PodSpec)) corev1.PodSpec {
	t.Helper()
	vn := virtualNode(nil)
	if write != nil {
		vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{}
		vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{}}
		write(&vn.Spec.Template.Spec.Template.Spec)
	}
	require.NoError(t, Complete(vn, opts, Cluster{ID: "rome", Namespace: "longshore"}))
	require.NoError(t, SyncTemplate(vn, opts))
	return vn.Spec.Template.Spec.Template.Spec
}

func TestTheMetricsPortIsThatOfTheAddress(t *testing.T) {
	for address, port := range map[string]int32{":5872": 5872, "127.0.0.1:9090": 9090, "[::]:5872": 5872, "none": 0} {
		assert.Equal(t, port, portOf(address), address)
	}
}

func TestCompleteForgesTheDeploymentOfTheReference(t *testing.T) {
	vn, opts := virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		vn.Spec.StorageClasses = []authv1beta1.StorageType{{StorageClassName: "slow"}, {StorageClassName: "fast", Default: true}}
	}), options()
	cluster := Cluster{
		ID: "rome", Namespace: "longshore", LocalPodCIDRs: []string{"10.10.0.0/16"}, PriorityClassName: "high",
		NodeSelector: map[string]string{"pool": "system"}, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
	}
	require.NoError(t, Complete(vn, opts, cluster))
	require.NoError(t, SyncTemplate(vn, opts))
	template := vn.Spec.Template
	assert.Equal(t, "vk-mynode", template.ObjectMeta.Name)
	assert.Equal(t, "liqo-tenant-milan", template.ObjectMeta.Namespace)
	assert.Equal(t, map[string]string{
		"offloading.liqo.io/component": "virtual-kubelet", "liqo.io/remote-cluster-id": "milan", "liqo.io/virtual-node": "mynode",
	}, template.Spec.Selector.MatchLabels)
	pod := template.Spec.Template.Spec
	assert.Equal(t, "mynode", pod.ServiceAccountName)
	assert.Equal(t, "high", pod.PriorityClassName)
	assert.Equal(t, map[string]string{"pool": "system"}, pod.NodeSelector)
	assert.Equal(t, cluster.Affinity, pod.Affinity)
	require.Len(t, pod.TopologySpreadConstraints, 2, "replicas are kept apart, over nodes and over zones")
	for _, constraint := range pod.TopologySpreadConstraints {
		assert.Equal(t, corev1.ScheduleAnyway, constraint.WhenUnsatisfiable)
		assert.Equal(t, template.Spec.Selector, constraint.LabelSelector)
	}
	container := pod.Containers[0]
	assert.Equal(t, []string{"/usr/bin/virtual-kubelet"}, container.Command)
	assert.Equal(t, []string{
		"--foreign-cluster-id=milan", "--nodename=mynode", "--node-ip=$(POD_IP)", "--tenant-namespace=liqo-tenant-milan",
		"--liqo-namespace=longshore", "--home-cluster-id=rome", "--local-podcidr=10.10.0.0/16",
		"--enable-storage", "--remote-real-storage-class-name=fast",
		"--configmap-reflection-workers=3", "--pod-reflection-workers=10", "--configmap-reflection-type=DenyList",
		"--client-qps=50", "--metrics-enabled=true", "--metrics-address=:5872", "--health-port=10248", "--policy-cache-dir=/var/cache/longshore",
		"--foreign-kubeconfig-secret-name=kubeconfig-resourceslice-mynode", "--create-node=true", "--node-check-network=true",
	}, container.Args)
	assert.Equal(t, int32(5872), container.Ports[0].ContainerPort)
	// Policies are compiled into files, and the root file system is read-only.
	require.Len(t, pod.Volumes, 1)
	assert.NotNil(t, pod.Volumes[0].EmptyDir)
	assert.Equal(t, []corev1.VolumeMount{{Name: pod.Volumes[0].Name, MountPath: "/var/cache/longshore"}}, container.VolumeMounts)
	assert.Equal(t, []string{"team"}, vn.Spec.OffloadingPatch.LabelsNotReflected)

	again := vn.DeepCopy()
	require.NoError(t, SyncTemplate(again, opts))
	assert.Equal(t, vn, again, "SyncTemplate is idempotent")
}

func TestADirectoryForPoliciesOfTheOperatorNeedsNoVolume(t *testing.T) {
	vn, opts := virtualNode(func(*offloadingv1beta1.VirtualNode) {}), options()
	opts.Spec.ExtraArgs = []string{"--policy-cache-dir=/mnt/policies"}
	require.NoError(t, Complete(vn, opts, Cluster{ID: "rome", Namespace: "longshore"}))
	require.NoError(t, SyncTemplate(vn, opts))
	pod := vn.Spec.Template.Spec.Template.Spec
	assert.Empty(t, pod.Volumes)
	assert.Empty(t, pod.Containers[0].VolumeMounts)
	assert.Contains(t, pod.Containers[0].Args, "--policy-cache-dir=/mnt/policies")
	assert.NotContains(t, pod.Containers[0].Args, "--policy-cache-dir=/var/cache/longshore")
}

func TestCompleteMergesTheTemplateOfTheUser(t *testing.T) {
	template := &offloadingv1beta1.DeploymentTemplate{}
	template.ObjectMeta.Labels = map[string]string{"team": "infra"}
	template.Spec.Template.Spec.Containers = []corev1.Container{{
		Image: "mirror/longshore:2", Args: []string{"--node-extra-labels=zone=a,rack=7", "--client-qps=9", "--unknown=1", "--metrics-enabled"},
	}}
	vn, opts := virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.Template = template }), options()
	require.NoError(t, Complete(vn, opts, Cluster{ID: "rome"}))
	container := vn.Spec.Template.Spec.Template.Spec.Containers[0]
	assert.Equal(t, "mirror/longshore:2", container.Image)
	assert.Contains(t, container.Args, "--node-extra-labels=rack=7,zone=a")
	assert.Contains(t, container.Args, "--client-qps=9")
	assert.NotContains(t, container.Args, "--unknown=1", "only arguments of the options are merged (wire 2.4)")
	assert.Equal(t, "infra", vn.Spec.Template.ObjectMeta.Labels["team"])
}

func TestTheHeapFollowsTheMemoryLimit(t *testing.T) {
	limited := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}
	}
	heapOf := func(pod corev1.PodSpec) string {
		for _, variable := range pod.Containers[0].Env {
			if variable.Name == "GOMEMLIMIT" {
				return variable.Value
			}
		}
		return ""
	}
	for name, tc := range map[string]struct {
		options, template corev1.ResourceList
		want              string
	}{
		"no limit":                             {},
		"a limit of another resource":          {options: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		"the limit of the options":             {options: limited("512Mi"), want: "483183819"},
		"the limit of the user's template":     {template: limited("1Gi"), want: "966367638"},
		"the user's template over the options": {options: limited("512Mi"), template: limited("1G"), want: "900000000"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := options()
			opts.Spec.Resources.Limits = tc.options
			pod := completedPod(t, opts, func(pod *corev1.PodSpec) { pod.Containers[0].Resources.Limits = tc.template })
			assert.Equal(t, tc.want, heapOf(pod))
		})
	}
	t.Run("later changes of the template", func(t *testing.T) {
		opts, vn := options(), virtualNode(nil)
		require.NoError(t, Complete(vn, opts, Cluster{ID: "rome"}))
		container := &vn.Spec.Template.Spec.Template.Spec.Containers[0]
		for amount, want := range map[string]string{"1G": "900000000", "2G": "1800000000", "0": ""} {
			container.Resources.Limits = limited(amount)
			require.NoError(t, SyncTemplate(vn, opts))
			assert.Equal(t, want, heapOf(vn.Spec.Template.Spec.Template.Spec))
		}
	})
}

func TestCompleteAcceptsItsOwnResult(t *testing.T) {
	vn, cluster := virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		vn.Spec.StorageClasses = []authv1beta1.StorageType{{StorageClassName: "fast"}}
		vn.Spec.IngressClasses = []authv1beta1.IngressType{{IngressClassName: "nginx"}}
		vn.Spec.LoadBalancerClasses = []authv1beta1.LoadBalancerType{{LoadBalancerClassName: "metallb"}}
	}), Cluster{ID: "rome", Namespace: "longshore"}
	opts := options()
	opts.Spec.NodeExtraLabels, opts.Spec.NodeExtraAnnotations = map[string]string{"zone": "a"}, map[string]string{"rack": "7"}
	opts.Spec.ExtraArgs = append(opts.Spec.ExtraArgs, "--enable-profiling")
	require.NoError(t, Complete(vn, opts.DeepCopy(), cluster))
	require.NoError(t, SyncTemplate(vn, opts.DeepCopy()))
	restored := vn.DeepCopy()
	require.NoError(t, Complete(restored, opts.DeepCopy(), cluster))
	require.NoError(t, SyncTemplate(restored, opts.DeepCopy()))
	assert.ElementsMatch(t, Arguments(vn), Arguments(restored))
}

func TestProbesUseTheHealthPort(t *testing.T) {
	for name, tc := range map[string]struct {
		extraArgs []string
		write     func(*corev1.PodSpec)
		want      int32
	}{
		"the default":             {want: 10248},
		"of the options template": {extraArgs: []string{"--health-port=9000"}, want: 9000},
		"of spec.template": {extraArgs: []string{"--health-port=9000"}, want: 9001,
			write: func(spec *corev1.PodSpec) { spec.Containers[0].Args = []string{"--health-port=9001"} }},
		"zero disables probes": {write: func(spec *corev1.PodSpec) { spec.Containers[0].Args = []string{"--health-port=0"} }},
	} {
		t.Run(name, func(t *testing.T) {
			opts := options()
			opts.Spec.ExtraArgs = append(opts.Spec.ExtraArgs, tc.extraArgs...)
			c := completedPod(t, opts, tc.write).Containers[0]
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

func TestSecurityContextAndProbesOfTheUserWin(t *testing.T) {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(10250)}}}
	change := func(spec *corev1.PodSpec) {
		spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](77)}
		spec.Containers[0].SecurityContext = &corev1.SecurityContext{}
		spec.Containers[0].ReadinessProbe = probe
	}
	spec := completedPod(t, options(), change)
	assert.Equal(t, &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](77)}, spec.SecurityContext)
	assert.Equal(t, &corev1.SecurityContext{}, spec.Containers[0].SecurityContext)
	assert.Equal(t, probe, spec.Containers[0].ReadinessProbe)
	assert.Equal(t, "/healthz", spec.Containers[0].LivenessProbe.HTTPGet.Path, "defaults of other fields stay")
	assert.Nil(t, spec.Containers[0].StartupProbe)
}

func TestCompleteAddsTheKeysThatTheOptionsKeepBack(t *testing.T) {
	vn, opts := virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		vn.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{LabelsNotReflected: []string{"own"}}
	}), options()
	require.NoError(t, Complete(vn, opts, Cluster{ID: "rome", Namespace: "longshore"}))
	assert.ElementsMatch(t, []string{"own", "team"}, vn.Spec.OffloadingPatch.LabelsNotReflected)
	assert.Equal(t, []string{"neg"}, vn.Spec.OffloadingPatch.AnnotationsNotReflected)
}

func TestTheImageFollowsTheOptionsThatItIsFrom(t *testing.T) {
	template := func(image string) *offloadingv1beta1.DeploymentTemplate {
		template := &offloadingv1beta1.DeploymentTemplate{}
		template.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
		return template
	}
	for name, tc := range map[string]struct {
		recorded, image, options, want string
	}{
		"an image of the options":            {"app:1", "app:1", "app:2", "app:2"},
		"options that have not changed":      {"app:1", "app:1", "app:1", "app:1"},
		"an image of the user":               {"", "app:1", "app:2", "app:1"},
		"an image that the user has changed": {"app:1", "mine:1", "app:2", "mine:1"},
		"options without an image":           {"app:1", "app:1", "", "app:1"},
	} {
		t.Run(name, func(t *testing.T) {
			vn := &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{Template: template(tc.image)}}
			if tc.recorded != "" {
				vn.Annotations = map[string]string{offloadingv1beta1.ImageAnnotation: tc.recorded}
			}
			options := &offloadingv1beta1.VkOptionsTemplate{Spec: offloadingv1beta1.VkOptionsTemplateSpec{ContainerImage: tc.options}}
			assert.Equal(t, tc.want != tc.image, FollowImage(vn, options))
			assert.Equal(t, tc.want, vn.Spec.Template.Spec.Template.Spec.Containers[0].Image)
			if tc.want != tc.image {
				assert.Equal(t, tc.want, vn.Annotations[offloadingv1beta1.ImageAnnotation], "the next image is followed, too")
			}
		})
	}
	assert.False(t, FollowImage(&offloadingv1beta1.VirtualNode{}, &offloadingv1beta1.VkOptionsTemplate{}), "no template")
}

func TestTheOriginOfTheImageIsRecorded(t *testing.T) {
	for name, tc := range map[string]struct {
		image, want string
	}{
		"of the options": {"", "app:1"},
		"of the user":    {"mine:1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			vn := &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan", Template: &offloadingv1beta1.DeploymentTemplate{}}}
			if tc.image != "" {
				vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Image: tc.image}}
			}
			options := &offloadingv1beta1.VkOptionsTemplate{Spec: offloadingv1beta1.VkOptionsTemplateSpec{ContainerImage: "app:1"}}
			require.NoError(t, Complete(vn, options, Cluster{}))
			assert.Equal(t, tc.want, vn.Annotations[offloadingv1beta1.ImageAnnotation])
		})
	}
}
