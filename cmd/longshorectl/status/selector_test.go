package status

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func TestKubeletSelectorFollowsTheProcess(t *testing.T) {
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan-1"}}
	assert.Equal(t, "liqo.io/virtual-node=milan-1", kubeletSelector(vn))
	vn.Annotations = map[string]string{offloadingv1beta1.SharedProcessKey: "vk-shared-0123456789"}
	assert.Equal(t, "longshore.dev/shared-virtual-kubelet=vk-shared-0123456789", kubeletSelector(vn))
}
