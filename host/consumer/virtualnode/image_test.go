package virtualnode

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// An upgrade changes the image of the VkOptionsTemplate. Virtual kubelets that have their image from
// there must follow, or the policies of the new version never become ready.
func TestTheImageOfTheVkOptionsTemplateReachesTheVirtualNode(t *testing.T) {
	options := &offloadingv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Name: "options", Namespace: "longshore"}}
	options.Spec.ContainerImage = "app:2"
	vn := virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		vn.Annotations = map[string]string{offloadingv1beta1.ImageAnnotation: "app:1"}
		vn.Spec.VkOptionsTemplateRef = &corev1.ObjectReference{Name: "options", Namespace: "longshore"}
		vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "virtual-kubelet", Image: "app:1"}}
	})
	w := pass(t, vn, append(peered(kubeconfig), options)...)
	assert.Equal(t, "app:2", w.vn.Spec.Template.Spec.Template.Spec.Containers[0].Image)
	assert.Equal(t, []string{"Normal ImageChanged The virtual kubelet gets image app:2 of VkOptionsTemplate longshore/options"}, w.events)

	w = pass(t, w.vn, append(peered(kubeconfig), options)...)
	deployment := &appsv1.Deployment{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "vk-mynode"}, deployment))
	assert.Equal(t, "app:2", deployment.Spec.Template.Spec.Containers[0].Image)
}
