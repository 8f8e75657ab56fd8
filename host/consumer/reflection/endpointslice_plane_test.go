package reflection_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// sendsEndpoints waits until the EndpointSlice that the consumer's controller made for a
// Service is in the provider. The endpoint of the remote pod is not in it: the provider has an
// EndpointSlice of its own. Pods that start later change nothing in it, and cost no request.
func (r *rig) sendsEndpoints(t *testing.T) {
	t.Helper()
	ofService := client.MatchingLabels{discoveryv1.LabelServiceName: "settings"}
	planetest.Until(t, func(t planetest.T) bool {
		slices, shadows := &discoveryv1.EndpointSliceList{}, &offloadingv1beta1.ShadowEndpointSliceList{}
		require.NoError(t, r.rome.List(t.Context(), slices, client.InNamespace(local), ofService))
		require.NoError(t, r.milan.List(t.Context(), shadows, client.InNamespace(remoteNamespace), ofService))
		return len(slices.Items) == 1 && len(slices.Items[0].Endpoints) == 1 && len(shadows.Items) == 1 &&
			shadows.Items[0].Name == slices.Items[0].Name && len(shadows.Items[0].Spec.Template.Ports) == 1 &&
			len(shadows.Items[0].Spec.Template.Endpoints) == 0
	}, soon, tick)
}
