package virtualnode

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
)

// TestInformersRunBeforeTheFirstVirtualNode keeps waits out of the way to the first ready Node.
func TestInformersRunBeforeTheFirstVirtualNode(t *testing.T) {
	informers := &informertest.FakeInformers{Scheme: clientgoscheme.Scheme}
	require.NoError(t, startInformers(t.Context(), informers))
	var kinds []string
	for kind := range maps.Keys(informers.InformersByGVK) {
		kinds = append(kinds, kind.Kind)
	}
	slices.Sort(kinds)
	assert.Equal(t, []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"}, kinds)
}
