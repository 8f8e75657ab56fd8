package certificate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func controlPlaneNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "control-plane", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}},
	}
}

func announcement() *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "kubernetes", Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"},
		},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.2"}}},
		Ports:     []discoveryv1.EndpointPort{{Port: ptr.To(int32(8443))}},
	}
}

func TestAddressOfTheAPIServer(t *testing.T) {
	worker := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a-worker"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.3"}}},
	}
	virtual := controlPlaneNode() // as its provider says
	virtual.Name, virtual.Labels["liqo.io/type"], virtual.Status.Addresses[0].Address = "a-virtual-node", "virtual-node", "192.0.2.66"
	for name, tc := range map[string]struct {
		override string
		nodes    []client.Object
		slices   []client.Object
		want     string
	}{
		"the administrator chose one":                      {override: "api.example.com:443", nodes: []client.Object{controlPlaneNode()}, want: "https://api.example.com:443"},
		"the administrator chose a URL":                    {override: "https://api.example.com", want: "https://api.example.com"},
		"a control-plane node":                             {nodes: []client.Object{worker, controlPlaneNode()}, slices: []client.Object{announcement()}, want: "https://192.0.2.1:6443"},
		"no control-plane node, but an announced address":  {nodes: []client.Object{worker}, slices: []client.Object{announcement()}, want: "https://192.0.2.2:8443"},
		"a virtual node is no control-plane node":          {nodes: []client.Object{virtual, controlPlaneNode()}, want: "https://192.0.2.1:6443"},
		"a virtual node only":                              {nodes: []client.Object{virtual}, slices: []client.Object{announcement()}, want: "https://192.0.2.2:8443"},
		"neither a control-plane node nor an announcement": {nodes: []client.Object{worker}},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := &Endpoint{
				Override: tc.override, Client: fakeclient.Builder(tc.nodes...).Build(),
				APIReader: fakeclient.Builder(tc.slices...).Build(),
			}
			params, err := endpoint.AuthParams(t.Context(), nil, nil)
			if tc.want == "" {
				require.ErrorIs(t, err, ErrNoEndpoint)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, params.APIServer)
		})
	}
}

// TestNodesAreReadFromTheCache counts the requests that the address costs: Tenants and
// ResourceSlices ask for it at each reconcile, and a cluster may have thousands of Nodes.
func TestNodesAreReadFromTheCache(t *testing.T) {
	uncached := map[string]int{}
	endpoint := &Endpoint{
		Client: fakeclient.Builder(controlPlaneNode()).Build(),
		APIReader: interceptor.NewClient(fakeclient.Builder(controlPlaneNode()).Build(), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				uncached[list.GetObjectKind().GroupVersionKind().Kind]++
				return c.List(ctx, list, options...)
			},
		}),
	}
	_, err := endpoint.AuthParams(t.Context(), nil, nil)
	require.NoError(t, err)
	assert.Empty(t, uncached)
}
