package policytest_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func manifest(version string) contract.Manifest {
	return contract.Manifest{Version: version, Points: []contract.PointManifest{{
		Point: contract.MetadataFilter, Reads: []string{"/notReflected"},
		Writes: []contract.WriteRule{{Path: "/metadata/labels", Verbs: []contract.Verb{contract.VerbRemove}}},
	}}}
}

func filter(facts contract.MetadataFilterFacts) ([]contract.Operation, error) {
	if len(facts.NotReflected.Labels) == 0 {
		return nil, errors.New("nothing to drop")
	}
	return []contract.Operation{contract.Remove("/metadata/labels", facts.NotReflected.Labels...)}, nil
}

func native(version string) *policytest.Policy {
	return policytest.Native("filter", manifest(version), map[contract.Point]func(contract.Request) (contract.Response, error){
		contract.MetadataFilter: policytest.Decide(filter),
	})
}

func TestAFunctionIsAPolicy(t *testing.T) {
	policy := native("1")
	chains := chain.New(chain.Options{})
	require.NoError(t, chains.Swap([]chain.Binding{{Name: "mine", Policy: policy, Point: contract.MetadataFilter}}))
	ask := func(labels ...string) (*chain.Result, error) {
		return chains.Evaluate(t.Context(), chain.Input{
			Point:  contract.MetadataFilter,
			Object: map[string]any{"metadata": map[string]any{"labels": map[string]string{"a": "1", "b": "2"}}},
			Facts:  map[string]any{"notReflected": contract.NotReflected{Labels: labels}},
		})
	}
	result, err := ask("a")
	require.NoError(t, err)
	data, err := json.Marshal(result.Object)
	require.NoError(t, err)
	assert.JSONEq(t, `{"metadata":{"labels":{"b":"2"}}}`, string(data))
	assert.Equal(t, 1, policy.Calls())

	_, err = ask()
	require.ErrorContains(t, err, "nothing to drop")
}

func TestDigestsTellVersionsApart(t *testing.T) {
	one, same := native("1"), native("1")
	assert.Equal(t, one.Digest(), same.Digest())
	assert.NotEqual(t, native("1").Digest(), native("2").Digest())
	assert.Regexp(t, "^sha256:[0-9a-f]{64}$", native("1").Digest())
}

func TestInvalidCalls(t *testing.T) {
	policy := native("1")
	for name, tc := range map[string]struct{ export, request, wantErr string }{
		"a missing export":           {export: "pod_mutation", request: `{}`, wantErr: "no export pod_mutation"},
		"a request that is not JSON": {export: "metadata_filter", request: `{`, wantErr: "decoding the request"},
		"facts of another shape":     {export: "metadata_filter", request: `{"facts":[]}`, wantErr: "decoding facts"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := policy.Call(t.Context(), tc.export, []byte(tc.request))
			require.ErrorContains(t, err, tc.wantErr)
		})
	}
}
