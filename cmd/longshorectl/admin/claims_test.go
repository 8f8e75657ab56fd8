package admin

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func virtualNode(name string, provider liqocorev1beta1.ClusterID) *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tenant", UID: apitypes.UID(name)},
		Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: provider},
	}
}

func claimOf(name, provider, state string) client.Object {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: map[string]string{
		offloadingv1beta1.StorageClusterLabel: provider, offloadingv1beta1.RemoteClaimLabel: state,
	}}}
}

func TestClaimsThatLoseTheirDataWithTheLastVirtualNode(t *testing.T) {
	const created = offloadingv1beta1.RemoteClaimCreated
	const asks = `With its last virtual node, cluster "milan" deletes the remote namespaces. These claims lose their data, unless its volumes are retained: `
	leaving := virtualNode("milan", "milan")
	for name, tc := range map[string]struct {
		objects []client.Object
		leaving []*offloadingv1beta1.VirtualNode
		want    string
	}{
		"one claim": {
			objects: []client.Object{leaving, claimOf("data", "milan", created)}, leaving: []*offloadingv1beta1.VirtualNode{leaving},
			want: asks + "shop/data.",
		},
		"many claims": {
			objects: []client.Object{
				leaving, claimOf("f", "milan", created), claimOf("e", "milan", created), claimOf("d", "milan", created), claimOf("c", "milan", created),
				claimOf("b", "milan", created), claimOf("a", "milan", created),
			},
			leaving: []*offloadingv1beta1.VirtualNode{leaving},
			want:    asks + "shop/a, shop/b, shop/c, shop/d, shop/e and 1 more.",
		},
		"a virtual node of another provider does not help": {
			objects: []client.Object{leaving, virtualNode("turin", "turin"), claimOf("data", "milan", created)}, leaving: []*offloadingv1beta1.VirtualNode{leaving},
			want: asks + "shop/data.",
		},
		"another virtual node of the provider stays": {
			objects: []client.Object{leaving, virtualNode("milan-gpu", "milan"), claimOf("data", "milan", created)}, leaving: []*offloadingv1beta1.VirtualNode{leaving},
		},
		"no virtual node goes":        {objects: []client.Object{claimOf("data", "milan", created)}},
		"a claim of another provider": {objects: []client.Object{leaving, claimOf("data", "turin", created)}, leaving: []*offloadingv1beta1.VirtualNode{leaving}},
		"no data yet, or not any more": {
			objects: []client.Object{leaving, claimOf("new", "milan", offloadingv1beta1.RemoteClaimRequested), claimOf("lost", "milan", offloadingv1beta1.RemoteClaimLost)},
			leaving: []*offloadingv1beta1.VirtualNode{leaving},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Cluster{Client: fakeclient.Builder(tc.objects...).Build()}
			got, err := c.ClaimsLost(t.Context(), "milan", tc.leaving)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}
