package reflection_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// remap sets what the namespace is mapped to; "" unmaps it.
func (r *rig) remap(t *testing.T, to string) {
	t.Helper()
	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: provider}, nm))
	nm.Spec.DesiredMapping, nm.Status.CurrentMapping = nil, nil
	if to != "" {
		nm.Spec.DesiredMapping = map[string]string{local: to}
	}
	status := nm.Status
	require.NoError(t, r.rome.Update(t.Context(), nm))
	nm.Status = status
	if to != "" {
		nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{
			local: {RemoteNamespace: to, Phase: offloadingv1beta1.MappingAccepted},
		}
	}
	require.NoError(t, r.rome.Status().Update(t.Context(), nm))
}
