package facts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// createdAt returns a VirtualNode of milan that was created at a minute past noon.
func createdAt(name string, minute int, keys ...string) *offloadingv1beta1.VirtualNode {
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 21, 12, minute, 0, 0, time.UTC)),
	}}
	vn.Spec.ClusterID, vn.Spec.Labels = "milan", map[string]string{"node": name}
	if len(keys) > 0 {
		vn.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{LabelsNotReflected: keys, AnnotationsNotReflected: keys[:1]}
	}
	return vn
}

func deleted(vn *offloadingv1beta1.VirtualNode) *offloadingv1beta1.VirtualNode {
	now := metav1.Now()
	vn.DeletionTimestamp = &now
	return vn
}

func TestComputeShared(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes           []*offloadingv1beta1.VirtualNode
		wantNode        string
		wantLabels      []string
		wantAnnotations []string
	}{
		"the only virtual node":                             {[]*offloadingv1beta1.VirtualNode{createdAt("a", 1, "x")}, "a", []string{"x"}, []string{"x"}},
		"the oldest virtual node":                           {[]*offloadingv1beta1.VirtualNode{createdAt("a", 2), createdAt("b", 1)}, "b", nil, nil},
		"the first name of the same second":                 {[]*offloadingv1beta1.VirtualNode{createdAt("b", 1), createdAt("a", 1)}, "a", nil, nil},
		"the union of the lists, oldest virtual node first": {[]*offloadingv1beta1.VirtualNode{createdAt("a", 2, "y", "x"), createdAt("b", 1, "x", "z")}, "b", []string{"x", "z", "y"}, []string{"x", "y"}},
		"a virtual node that is being deleted is ignored":   {[]*offloadingv1beta1.VirtualNode{deleted(createdAt("a", 1, "x")), createdAt("b", 2, "y")}, "b", []string{"y"}, []string{"y"}},
		"all virtual nodes are being deleted":               {[]*offloadingv1beta1.VirtualNode{deleted(createdAt("a", 1, "x")), deleted(createdAt("b", 2, "y"))}, "a", []string{"x", "y"}, []string{"x", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			given := append([]*offloadingv1beta1.VirtualNode(nil), tc.nodes...)
			assert.Equal(t, sharedFacts{
				virtualNode: contract.VirtualNode{
					Name: tc.wantNode, ConsumerClusterID: "rome", ProviderClusterID: "milan", Labels: map[string]string{"node": tc.wantNode},
				},
				notReflected: contract.NotReflected{Labels: tc.wantLabels, Annotations: tc.wantAnnotations},
			}, computeShared("rome", tc.nodes))
			assert.Equal(t, given, tc.nodes, "the order of the input is kept")
		})
	}
}

func TestChangesOfSharedFactsAreReported(t *testing.T) {
	f := New(remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "own"}, nil)
	assert.True(t, f.SetVirtualNode(createdAt("a", 1, "x")), "the first virtual node")
	assert.False(t, f.SetVirtualNode(createdAt("a", 1, "x")), "no change")
	assert.False(t, f.SetVirtualNode(createdAt("b", 2)), "a younger virtual node without lists")
	assert.True(t, f.SetVirtualNode(createdAt("b", 2, "y")), "a new list")
	assert.Equal(t, []string{"x", "y"}, f.forSharedObjects().notReflected.Labels)
	other := createdAt("c", 0, "z")
	other.Spec.ClusterID = "paris"
	assert.False(t, f.SetVirtualNode(other), "a virtual node of another provider")
	assert.True(t, f.RemoveVirtualNode("a"))
	assert.Equal(t, "b", f.forSharedObjects().virtualNode.Name)
	assert.False(t, f.RemoveVirtualNode("b"), "the last virtual node")
	assert.Equal(t, "b", f.forSharedObjects().virtualNode.Name)
}

func TestChangesOfTheOwnVirtualNodeAreReported(t *testing.T) {
	f := New(remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "own"}, nil)
	f.SetVirtualNode(createdAt("older", 1, "x"))
	f.SetVirtualNode(createdAt("own", 2, "x"))
	for _, change := range []struct {
		name  string
		alter func(*offloadingv1beta1.VirtualNodeSpec)
		want  bool
	}{
		{"nothing", func(*offloadingv1beta1.VirtualNodeSpec) {}, false},
		{"annotations", func(spec *offloadingv1beta1.VirtualNodeSpec) { spec.Annotations = map[string]string{"a": "b"} }, false},
		{"labels", func(spec *offloadingv1beta1.VirtualNodeSpec) { spec.Labels = map[string]string{"zone": "north"} }, true},
		{"offloadingPatch", func(spec *offloadingv1beta1.VirtualNodeSpec) {
			spec.OffloadingPatch.NodeSelector = map[string]string{"a": "b"}
		}, true},
	} {
		vn := f.VirtualNode().DeepCopy()
		change.alter(&vn.Spec)
		assert.Equal(t, change.want, f.SetVirtualNode(vn), change.name)
	}
	patch, node := f.ForPods()
	assert.Equal(t, map[string]string{"a": "b"}, patch.NodeSelector)
	assert.Equal(t, contract.VirtualNode{Name: "own", ConsumerClusterID: "rome", ProviderClusterID: "milan", Labels: map[string]string{"zone": "north"}}, node)
}
