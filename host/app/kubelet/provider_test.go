package kubelet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// aged returns a VirtualNode of milan that was created at a minute past noon.
func aged(name string, minute int, keys ...string) *offloadingv1beta1.VirtualNode {
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 21, 12, minute, 0, 0, time.UTC)),
	}}
	vn.Spec.ClusterID, vn.Spec.Labels = "milan", map[string]string{"node": name}
	if len(keys) > 0 {
		vn.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{LabelsNotReflected: keys, AnnotationsNotReflected: keys[:1]}
	}
	return vn
}

func leaving(vn *offloadingv1beta1.VirtualNode) *offloadingv1beta1.VirtualNode {
	now := metav1.Now()
	vn.DeletionTimestamp = &now
	return vn
}

func TestWhatPoliciesAreToldOfSharedObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes      []*offloadingv1beta1.VirtualNode
		wantNode   string
		wantLabels []string
		wantNotes  []string
	}{
		"the only virtual node":                              {[]*offloadingv1beta1.VirtualNode{aged("a", 1, "x")}, "a", []string{"x"}, []string{"x"}},
		"the oldest, whatever its name":                      {[]*offloadingv1beta1.VirtualNode{aged("a", 2), aged("b", 1)}, "b", nil, nil},
		"the first by name of those of one second":           {[]*offloadingv1beta1.VirtualNode{aged("b", 1), aged("a", 1)}, "a", nil, nil},
		"what any of them keeps at home, once, oldest first": {[]*offloadingv1beta1.VirtualNode{aged("a", 2, "y", "x"), aged("b", 1, "x", "z")}, "b", []string{"x", "z", "y"}, []string{"x", "y"}},
		"not one that is being deleted":                      {[]*offloadingv1beta1.VirtualNode{leaving(aged("a", 1, "x")), aged("b", 2, "y")}, "b", []string{"y"}, []string{"y"}},
		"unless all are":                                     {[]*offloadingv1beta1.VirtualNode{leaving(aged("a", 1, "x")), leaving(aged("b", 2, "y"))}, "a", []string{"x", "y"}, []string{"x", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			given := append([]*offloadingv1beta1.VirtualNode(nil), tc.nodes...)
			assert.Equal(t, sharedFacts{
				virtualNode: contract.VirtualNode{
					Name: tc.wantNode, ConsumerClusterID: "rome", ProviderClusterID: "milan", Labels: map[string]string{"node": tc.wantNode},
				},
				notReflected: contract.NotReflected{Labels: tc.wantLabels, Annotations: tc.wantNotes},
			}, shared("rome", tc.nodes))
			assert.Equal(t, given, tc.nodes, "the cache's order is left alone")
		})
	}
}

func TestPeersTellWhenPoliciesCouldAnswerOtherwise(t *testing.T) {
	p := &peers{home: "rome", provider: "milan"}
	assert.True(t, p.set(aged("a", 1, "x")), "the first")
	assert.False(t, p.set(aged("a", 1, "x")), "the same again")
	assert.False(t, p.set(aged("b", 2)), "a younger one that keeps nothing at home")
	assert.True(t, p.set(aged("b", 2, "y")))
	assert.Equal(t, []string{"x", "y"}, p.get().notReflected.Labels)
	stranger := aged("c", 0, "z")
	stranger.Spec.ClusterID = "paris"
	assert.False(t, p.set(stranger), "one of another provider")
	assert.True(t, p.remove("a"))
	assert.Equal(t, "b", p.get().virtualNode.Name)
	assert.False(t, p.remove("b"), "without virtual nodes, nothing is decided any more")
	assert.Equal(t, "b", p.get().virtualNode.Name)
}
