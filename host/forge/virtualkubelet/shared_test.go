package virtualkubelet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// shared returns the Deployment of the process that a new VirtualNode would share.
func shared(t *testing.T, name string, change func(*offloadingv1beta1.VirtualNode, *offloadingv1beta1.VkOptionsTemplate)) *offloadingv1beta1.DeploymentTemplate {
	t.Helper()
	vn, opts := virtualNode(nil), options()
	vn.Name = name
	vn.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig-" + name}
	if change != nil {
		change(vn, opts)
	}
	require.NoError(t, Complete(vn, opts, Cluster{ID: "rome", Namespace: "longshore"}))
	require.NoError(t, SyncTemplate(vn, opts))
	deployment, err := Shared(vn)
	require.NoError(t, err)
	return deployment
}

func TestVirtualNodesThatDifferInTheirNodeShareADeployment(t *testing.T) {
	first := shared(t, "milan-1", nil)
	for name, change := range map[string]func(*offloadingv1beta1.VirtualNode, *offloadingv1beta1.VkOptionsTemplate){
		"name and kubeconfig": nil,
		"node": func(vn *offloadingv1beta1.VirtualNode, _ *offloadingv1beta1.VkOptionsTemplate) {
			vn.Spec.CreateNode, vn.Spec.DisableNetworkCheck = new(bool), new(bool)
			vn.Spec.Labels = map[string]string{"zone": "a"}
		},
		"labels and annotations of the Node": func(_ *offloadingv1beta1.VirtualNode, o *offloadingv1beta1.VkOptionsTemplate) {
			o.Spec.NodeExtraLabels, o.Spec.NodeExtraAnnotations = map[string]string{"rack": "1"}, map[string]string{"rack": "1"}
		},
		"classes": func(vn *offloadingv1beta1.VirtualNode, _ *offloadingv1beta1.VkOptionsTemplate) {
			vn.Spec.StorageClasses = []authv1beta1.StorageType{{StorageClassName: "fast"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, first, shared(t, "milan-2", change))
		})
	}
}

func TestVirtualNodesWithAnotherProcessDoNotShareIt(t *testing.T) {
	first := shared(t, "milan-1", nil)
	for name, change := range map[string]func(*offloadingv1beta1.VirtualNode, *offloadingv1beta1.VkOptionsTemplate){
		"image": func(_ *offloadingv1beta1.VirtualNode, o *offloadingv1beta1.VkOptionsTemplate) {
			o.Spec.ContainerImage = "other"
		},
		"arguments": func(_ *offloadingv1beta1.VirtualNode, o *offloadingv1beta1.VkOptionsTemplate) {
			o.Spec.ExtraArgs = []string{"--client-qps=7"}
		},
		"replicas": func(_ *offloadingv1beta1.VirtualNode, o *offloadingv1beta1.VkOptionsTemplate) {
			replicas := int32(3)
			o.Spec.Replicas = &replicas
		},
		"labels": func(_ *offloadingv1beta1.VirtualNode, o *offloadingv1beta1.VkOptionsTemplate) {
			o.Spec.ExtraLabels = map[string]string{"a": "b"}
		},
		"provider": func(vn *offloadingv1beta1.VirtualNode, _ *offloadingv1beta1.VkOptionsTemplate) {
			vn.Spec.ClusterID = "turin"
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.NotEqual(t, first.Name, shared(t, "milan-1", change).Name)
		})
	}
}

func TestASharedDeploymentBelongsToNoVirtualNode(t *testing.T) {
	deployment := shared(t, "milan-1", nil)
	assert.Regexp(t, "^vk-shared-[0-9a-f]{10}$", deployment.Name)
	pod := &deployment.Spec.Template
	want := map[string]string{
		offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet, "liqo.io/remote-cluster-id": "milan",
		offloadingv1beta1.SharedProcessKey: deployment.Name,
	}
	assert.Equal(t, want, deployment.Spec.Selector.MatchLabels)
	for _, labels := range []map[string]string{deployment.Labels, pod.Labels} {
		assert.NotContains(t, labels, offloadingv1beta1.VirtualNodeLabel)
		assert.Subset(t, labels, want)
	}
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		assert.Equal(t, want, constraint.LabelSelector.MatchLabels)
	}
	assert.Equal(t, deployment.Name, pod.Spec.ServiceAccountName)
	container := pod.Spec.Containers[0]
	assert.Contains(t, container.Args, "--shared-process="+deployment.Name)
	assert.Contains(t, container.Args, "--home-cluster-id=rome")
	for _, argument := range container.Args {
		assert.NotContains(t, argument, "milan-1")
	}
	for _, variable := range container.Env {
		assert.NotEqual(t, "VIRTUALNODE_NAME", variable.Name)
	}
	_, err := Shared(&offloadingv1beta1.VirtualNode{})
	assert.ErrorContains(t, err, "has no container")
}
