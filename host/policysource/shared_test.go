package policysource_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// Fifty policies with a ConfigMap each, all of the same bytes.
func TestEqualBytesAreLoadedOnce(t *testing.T) {
	const many = 50
	var objects []client.Object
	for i := range many {
		name := fmt.Sprintf("many-%d", i)
		objects = append(objects, part(name, "v1"), object(name, func(spec *policyv1alpha1.OffloadingPolicySpec) {
			fromConfigMap(spec)
			spec.Module.ConfigMap.Name, spec.Order = name, ptr.To(int32(i+10))
		}))
	}
	r := newRig(t, objects...)
	r.mustPass()
	assert.Equal(t, []string{"v1"}, r.loads)
	for i := range many {
		assert.Equal(t, "True Bound", r.reason(fmt.Sprintf("many-%d", i)))
	}

	// A change of one policy does not affect the others, and a broken module is loaded once.
	require.NoError(t, r.client.Update(t.Context(), part("many-7", "broken")))
	r.mustPass()
	r.mustPass()
	assert.Equal(t, []string{"v1", "broken"}, r.loads)
	assert.Equal(t, "False ModuleNotLoaded", r.reason("many-7"))
	assert.Equal(t, "True Bound", r.reason("many-8"))

	for i := range many {
		require.NoError(t, r.client.Delete(t.Context(), object(fmt.Sprintf("many-%d", i), nil)))
	}
	r.mustPass()
	assert.Equal(t, []string{"v1"}, r.closed, "once, after the last")
}
