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
