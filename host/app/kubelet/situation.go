package kubelet

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// situation is what the policies are told of the virtual node, as it is now. Unlike in
// the reference, a changed offloadingPatch takes effect without a restart.
type situation struct {
	mu          sync.RWMutex
	virtualNode *offloadingv1beta1.VirtualNode
}

// set takes over the VirtualNode of this node and reports whether policies could answer otherwise now.
func (s *situation) set(vn *offloadingv1beta1.VirtualNode) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.virtualNode
	s.virtualNode = vn
	return had != nil && (!maps.Equal(had.Spec.Labels, vn.Spec.Labels) ||
		!equality.Semantic.DeepEqual(had.Spec.OffloadingPatch, vn.Spec.OffloadingPatch))
}

func (s *situation) get() *offloadingv1beta1.VirtualNode {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.virtualNode
}

// facts are those of pod.Options.
func (a *App) facts() (*offloadingv1beta1.OffloadingPatch, contract.VirtualNode) {
	vn := a.situation.get()
	return vn.Spec.OffloadingPatch, contract.VirtualNode{
		Name: a.options.NodeName, ConsumerClusterID: a.options.HomeClusterID,
		ProviderClusterID: a.options.ForeignClusterID, Labels: vn.Spec.Labels,
	}
}
