package policysource_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// Virtual kubelets record the fingerprint on ShadowPods, for the next process.
func TestTheFingerprintIsThatOfThePoliciesThatDecide(t *testing.T) {
	first, part1 := other("a", "first", 1)
	second, part2 := other("b", "second", 2)
	r := newRig(t, first, part1, second, part2)
	assert.Empty(t, r.source.Fingerprint(), "before the policies are bound")
	r.mustPass()
	before := r.source.Fingerprint()
	require.NotEmpty(t, before)
	r.mustPass()
	assert.Equal(t, before, r.source.Fingerprint(), "nothing has changed")

	seen := map[string]string{before: "at first"}
	for _, change := range []struct {
		what string
		make func()
	}{
		{"a policy has changed", func() { r.edit("a", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Order = ptr.To[int32](3) }) }},
		{"a policy is disabled", func() {
			r.edit("b", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Mode = policyv1alpha1.ModeDisabled })
		}},
		{"a policy is deleted", func() { require.NoError(t, r.client.Delete(t.Context(), r.get("b"))) }},
	} {
		change.make()
		r.mustPass()
		now := r.source.Fingerprint()
		assert.Empty(t, seen[now], change.what)
		seen[now] = change.what
	}

	r.edit("a", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Mode = policyv1alpha1.ModeShadow })
	r.mustPass()
	assert.Empty(t, r.source.Fingerprint(), "a policy in mode Shadow reports about all objects")
	require.NoError(t, r.client.Delete(t.Context(), r.get("a")))
	r.mustPass()
	last := r.source.Fingerprint()

	r.restart()
	r.mustPass()
	assert.Equal(t, last, r.source.Fingerprint(), "another process with the same policies")
}
