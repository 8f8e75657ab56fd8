package resourceslice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func conditions(authentication, resources authv1beta1.ResourceSliceConditionStatus) []authv1beta1.ResourceSliceCondition {
	return []authv1beta1.ResourceSliceCondition{
		{Type: authv1beta1.ResourceSliceConditionTypeAuthentication, Status: authentication},
		{Type: authv1beta1.ResourceSliceConditionTypeResources, Status: resources},
	}
}

func TestSlicesThatWantAVirtualNode(t *testing.T) {
	accepted, denied := authv1beta1.ResourceSliceConditionAccepted, authv1beta1.ResourceSliceConditionDenied
	for name, tc := range map[string]struct {
		annotation string
		conditions []authv1beta1.ResourceSliceCondition
		want       bool
	}{
		"accepted":              {"true", conditions(accepted, accepted), true},
		"any other value":       {"yes", conditions(accepted, accepted), true},
		"false in capitals":     {"False", conditions(accepted, accepted), false},
		"empty":                 {"", conditions(accepted, accepted), false},
		"no credentials":        {"true", conditions(denied, accepted), false},
		"no resources":          {"true", conditions(accepted, denied), false},
		"the provider is quiet": {"true", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			slice := &authv1beta1.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{authv1beta1.CreateVirtualNodeAnnotation: tc.annotation}},
				Status:     authv1beta1.ResourceSliceStatus{Conditions: tc.conditions},
			}
			assert.Equal(t, tc.want, wantsVirtualNode(slice))
		})
	}
}

func TestVirtualNodeFollowsItsSlice(t *testing.T) {
	slice := &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Status: authv1beta1.ResourceSliceStatus{
			Resources:      corev1.ResourceList{"cpu": resource.MustParse("4")},
			NodeLabels:     map[string]string{"region": "eu", "liqo.io/remote-cluster-id": "forged"},
			NodeSelector:   map[string]string{"tenant": "rome"},
			StorageClasses: []authv1beta1.StorageType{{StorageClassName: "fast"}},
		},
	}
	vn := &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{
		Labels:          map[string]string{"team": "a"},
		OffloadingPatch: &offloadingv1beta1.OffloadingPatch{LabelsNotReflected: []string{"secret"}},
	}}
	setVirtualNode(vn, slice, "milan", "kubeconfig-resourceslice-gpu")
	assert.Equal(t, map[string]string{"liqo.io/remote-cluster-id": "milan", "liqo.io/resourceslice-name": "gpu"}, vn.Labels)
	assert.Equal(t, map[string]string{"team": "a", "region": "eu", "liqo.io/remote-cluster-id": "milan"}, vn.Spec.Labels,
		"what the administrator set stays, and the provider cannot pose as another cluster")
	assert.Equal(t, slice.Status.Resources, vn.Spec.ResourceQuota.Hard)
	assert.Equal(t, slice.Status.StorageClasses, vn.Spec.StorageClasses)
	assert.Equal(t, "kubeconfig-resourceslice-gpu", vn.Spec.KubeconfigSecretRef.Name)
	assert.Equal(t, map[string]string{"tenant": "rome"}, vn.Spec.OffloadingPatch.NodeSelector)
	assert.Equal(t, []string{"secret"}, vn.Spec.OffloadingPatch.LabelsNotReflected, "the rest of the patch belongs to the administrator")
}

// What the provider withdraws goes, and what an administrator set stays.
func TestWhatAProviderWithdrawsGoes(t *testing.T) {
	type entries = map[string]string
	own := func(labels entries) entries { return merge(labels, entries{"liqo.io/remote-cluster-id": "milan"}) }
	vn := &offloadingv1beta1.VirtualNode{}
	report := func(labels, selector entries) {
		slice := &authv1beta1.ResourceSlice{Status: authv1beta1.ResourceSliceStatus{NodeLabels: labels, NodeSelector: selector}}
		setVirtualNode(vn, slice, "milan", "kubeconfig")
		before := vn.DeepCopy()
		setVirtualNode(vn, slice, "milan", "kubeconfig")
		assert.Equal(t, before, vn, "the second time nothing changes")
	}
	report(entries{"region": "eu", "gpu": "yes"}, entries{"tenant": "rome"})
	assert.Equal(t, own(entries{"region": "eu", "gpu": "yes"}), vn.Spec.Labels)
	assert.Equal(t, entries{"tenant": "rome"}, vn.Spec.OffloadingPatch.NodeSelector)

	vn.Spec.Labels["team"], vn.Spec.OffloadingPatch.NodeSelector["disk"] = "a", "ssd"
	report(entries{"region": "us"}, nil)
	assert.Equal(t, own(entries{"region": "us", "team": "a"}), vn.Spec.Labels, "changed, withdrawn, set by hand")
	assert.Equal(t, entries{"disk": "ssd"}, vn.Spec.OffloadingPatch.NodeSelector)

	report(entries{"region": "us", "team": "b"}, entries{"disk": "hdd", "tenant": "rome"})
	assert.Equal(t, own(entries{"region": "us", "team": "a"}), vn.Spec.Labels, "a provider neither changes what is set by hand")
	assert.Equal(t, entries{"disk": "ssd", "tenant": "rome"}, vn.Spec.OffloadingPatch.NodeSelector)
	report(nil, nil)
	assert.Equal(t, own(entries{"team": "a"}), vn.Spec.Labels, "nor removes it")
	assert.Equal(t, entries{"disk": "ssd"}, vn.Spec.OffloadingPatch.NodeSelector)

	delete(vn.Spec.OffloadingPatch.NodeSelector, "disk")
	report(nil, nil)
	assert.Empty(t, vn.Spec.OffloadingPatch.NodeSelector)
}

// A VirtualNode of an earlier version does not say what of it is of the slice.
func TestAVirtualNodeOfAnEarlierVersionFollowsItsSlice(t *testing.T) {
	vn := &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{Labels: map[string]string{"region": "eu", "team": "a"}}}
	report := func(labels map[string]string) map[string]string {
		setVirtualNode(vn, &authv1beta1.ResourceSlice{Status: authv1beta1.ResourceSliceStatus{NodeLabels: labels}}, "milan", "kubeconfig")
		return vn.Spec.Labels
	}
	assert.Equal(t, "us", report(map[string]string{"region": "us"})["region"])
	assert.Equal(t, map[string]string{"team": "a", "liqo.io/remote-cluster-id": "milan"}, report(nil))
}
