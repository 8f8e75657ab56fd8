package policies

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestTheNativePolicyAnswersEveryCorePoint(t *testing.T) {
	policy, err := loadBuiltIn(t.Context(), nil)
	require.NoError(t, err)
	for _, point := range contract.CorePoints() {
		assert.NoError(t, chain.Check([]chain.Binding{{Name: "native", Policy: policy, Point: point}}), point)
	}
}

func TestAForgetfulServerAsksEachTime(t *testing.T) {
	policy, err := loadBuiltIn(t.Context(), nil)
	require.NoError(t, err)
	native, ok := policy.(*policytest.Policy)
	require.True(t, ok)
	chains := chain.New(chainOptions())
	require.NoError(t, chains.Swap([]chain.Binding{{Name: "native", Policy: policy, Point: contract.MetadataFilter}}))
	for range 3 {
		_, err := chains.Evaluate(t.Context(), chain.Input{Point: contract.MetadataFilter, Object: map[string]any{}, Facts: map[string]any{
			"notReflected": map[string]any{"labels": []any{"team"}},
		}})
		require.NoError(t, err)
	}
	assert.Equal(t, 3, native.Calls())
}
