package tenant

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// TestTheCordonOfATenantMarksItsSlices has slices that the consumer created with a mark of its own.
func TestTheCordonOfATenantMarksItsSlices(t *testing.T) {
	const key = authv1beta1.CordonTenantAnnotation
	marked := func(value string) map[string]string { return map[string]string{key: value, "other": "kept"} }
	for name, tc := range map[string]struct {
		before    map[string]string
		condition authv1beta1.TenantCondition
		after     map[string]string
	}{
		"a slice without a mark":                 {map[string]string{"other": "kept"}, authv1beta1.TenantConditionCordoned, marked("true")},
		"a slice with a mark":                    {marked("true"), authv1beta1.TenantConditionCordoned, marked("true")},
		"a mark without a value":                 {marked(""), authv1beta1.TenantConditionCordoned, marked("")},
		"a slice that claims not to be cordoned": {marked("false"), authv1beta1.TenantConditionCordoned, marked("true")},
		"and one that claims it otherwise":       {marked("0"), authv1beta1.TenantConditionCordoned, marked("true")},
		"the mark ends with the cordon":          {marked("true"), authv1beta1.TenantConditionActive, map[string]string{"other": "kept"}},
		"a slice that was not cordoned":          {marked("False"), authv1beta1.TenantConditionActive, marked("False")},
	} {
		t.Run(name, func(t *testing.T) {
			slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
				Namespace: "liqo-tenant-rome", Name: "milan", Annotations: tc.before, Labels: map[string]string{liqocorev1beta1.ReplicatedLabel: "true"},
			}}
			r := &Reconciler{Client: fakeclient.Builder(slice).Build()}
			require.NoError(t, r.cordon(t.Context(), &authv1beta1.Tenant{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}, Spec: authv1beta1.TenantSpec{TenantCondition: tc.condition},
			}))
			require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(slice), slice))
			assert.Equal(t, tc.after, slice.Annotations)
		})
	}
}
