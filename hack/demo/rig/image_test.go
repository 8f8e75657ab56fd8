package rig_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// imageLines is for upgrades: the chart changes the image of the VkOptionsTemplate only.
func imageLines(t *testing.T, s *shell) {
	options := &offloadingv1beta1.VkOptionsTemplate{}
	require.NoError(t, s.rig.Rome.Get(t.Context(), client.ObjectKey{Namespace: rig.Namespace, Name: "virtual-kubelet-default"}, options))
	reader := startHowTos(t, s.rig)
	reader.follows(t, "docs/howto/upgrade.md", "## Upgrade")
	reader.follows(t, "docs/howto/upgrade.md", "## Upgrade a release whose defaults were hooks", "## Roll back")
	image := options.Spec.ContainerImage
	for _, next := range []string{image + "-next", image} {
		changed := options.DeepCopy()
		changed.Spec.ContainerImage = next
		require.NoError(t, s.rig.Rome.Patch(t.Context(), changed, client.MergeFrom(options)))
		options = changed
		planetest.Until(t, func(t planetest.T) bool {
			deployment := &appsv1.Deployment{}
			require.NoError(t, s.rig.Rome.Get(t.Context(), client.ObjectKey{Namespace: tenantInRome, Name: "vk-milan"}, deployment))
			return deployment.Spec.Template.Spec.Containers[0].Image == next
		}, patience, every, "the virtual kubelet has the image %s", next)
	}
	require.NoError(t, s.rig.Rome.WaitForDeployments(t.Context(), tenantInRome, quiet))
	require.NoError(t, s.rig.Rome.WaitForNode(t.Context(), "milan", quiet))
}
