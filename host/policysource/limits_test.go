package policysource_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

func TestABuiltInWithLimitsOfItsOwnIsLoadedOnce(t *testing.T) {
	limited := func(name string, fuel int64) *policyv1alpha1.OffloadingPolicy {
		return object(name, func(s *policyv1alpha1.OffloadingPolicySpec) {
			s.Limits, s.Order = &policyv1alpha1.Limits{Fuel: &fuel}, ptr.To[int32](1)
		})
	}
	first, second := limited("a", 7), limited("b", 7)
	second.Spec.Order = ptr.To[int32](2)
	r := newRig(t, object("unlimited", func(s *policyv1alpha1.OffloadingPolicySpec) { s.Order = ptr.To[int32](3) }), first, second)
	r.mustPass()
	assert.Equal(t, []string{"default"}, r.loads, "policies with equal limits share a module; the one without limits has the built-in one")
	for _, name := range []string{"unlimited", "a", "b"} {
		assert.Equal(t, "True Bound", r.reason(name))
	}

	r.edit("a", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Limits.Fuel = ptr.To[int64](8) })
	r.mustPass()
	assert.Len(t, r.loads, 2)
	assert.Empty(t, r.closed)
	require.NoError(t, r.client.Delete(t.Context(), r.get("a")))
	r.mustPass()
	require.NoError(t, r.client.Delete(t.Context(), r.get("b")))
	r.mustPass()
	assert.Equal(t, []string{"default", "default"}, r.closed)
	assert.Equal(t, "True Bound", r.reason("unlimited"))
}
