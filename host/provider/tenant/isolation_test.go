package tenant

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func TestEachConsumerHasAPriorityLevel(t *testing.T) {
	c := fakeclient.Builder().Build()
	r := &Reconciler{Client: c}
	for _, consumer := range []liqocorev1beta1.ClusterID{"rome", "oslo", "rome"} {
		require.NoError(t, r.isolate(t.Context(), &authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: consumer}}))
	}
	levels, schemas := &flowcontrolv1.PriorityLevelConfigurationList{}, &flowcontrolv1.FlowSchemaList{}
	require.NoError(t, c.List(t.Context(), levels))
	require.NoError(t, c.List(t.Context(), schemas))
	require.Len(t, levels.Items, 2)
	require.Len(t, schemas.Items, 2)
	for i, consumer := range []string{"oslo", "rome"} {
		schema := schemas.Items[i]
		assert.Equal(t, levels.Items[i].Name, schema.Spec.PriorityLevelConfiguration.Name)
		assert.Equal(t, []flowcontrolv1.Subject{
			{Kind: "User", User: &flowcontrolv1.UserSubject{Name: consumer}}, {Kind: "Group", Group: &flowcontrolv1.GroupSubject{Name: consumer}},
		}, schema.Spec.Rules[0].Subjects)
	}

	level := levels.Items[1]
	level.Spec.Limited.NominalConcurrencyShares = ptr.To[int32](7)
	require.NoError(t, c.Update(t.Context(), &level))
	require.NoError(t, c.Delete(t.Context(), &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: level.Name}}))
	require.NoError(t, r.isolate(t.Context(), &authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(&level), &level))
	assert.Equal(t, int32(7), *level.Spec.Limited.NominalConcurrencyShares, "an administrator's shares stay")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(&level), &flowcontrolv1.FlowSchema{}))
}
