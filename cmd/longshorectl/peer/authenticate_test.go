package peer

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// TestAClusterThatIsPeeredAgainIsNotLost begins to authenticate after both clusters have given up each
// other, and a third one.
func TestAClusterThatIsPeeredAgainIsNotLost(t *testing.T) {
	lost := func(id liqocorev1beta1.ClusterID) *liqocorev1beta1.ForeignCluster {
		fc := &liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{
			Name: string(id), Annotations: map[string]string{"liqo.io/foreign-cluster-permanently-unreachable": "true", "team": "shop"},
		}}
		fc.Spec.ClusterID = id
		return fc
	}
	open := func(id liqocorev1beta1.ClusterID, objects ...client.Object) *admin.Cluster {
		return &admin.Cluster{Client: fakeclient.Builder(objects...).Build(), ID: id}
	}
	isLost := func(c *admin.Cluster, name string) bool {
		t.Helper()
		fc := &liqocorev1beta1.ForeignCluster{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: name}, fc))
		assert.Equal(t, "shop", fc.Annotations["team"])
		return fc.PermanentlyUnreachable()
	}
	begin := func(p *Pair) error { return p.AuthenticateSteps()[0].Run(t.Context(), func(string) {}) }

	rome, milan := open("rome", lost("milan"), lost("oslo")), open("milan", lost("rome"))
	require.NoError(t, begin(&Pair{Consumer: rome, Provider: milan}))
	assert.False(t, isLost(rome, "milan"))
	assert.False(t, isLost(milan, "rome"))
	assert.True(t, isLost(rome, "oslo"), "it is not peered again")

	// A peering user may not read the provider's ForeignClusters.
	rome, milan = open("rome", lost("milan")), open("milan", lost("rome"))
	milan.Client = interceptor.NewClient(milan.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*liqocorev1beta1.ForeignClusterList); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "foreignclusters"}, "", errors.New("not allowed"))
			}
			return c.List(ctx, list, options...)
		},
	})
	require.NoError(t, begin(&Pair{Consumer: rome, Provider: milan}))
	assert.False(t, isLost(rome, "milan"))
}
