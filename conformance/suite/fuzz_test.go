package suite_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/builtin-policies/native"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// FuzzBuiltins asks the compiled module and the native functions the same, and holds
// their answers equal. The fuzzer varies settings and facts; the latter pass through the
// contract's types first, as the host sends nothing else.
func FuzzBuiltins(f *testing.F) {
	all, err := vectors.All()
	require.NoError(f, err)
	for i := range all {
		var request contract.Request
		require.NoError(f, json.Unmarshal(all[i].Request, &request))
		f.Add(string(request.Point), []byte(request.Facts), []byte(request.Settings))
	}
	host := longshore(f)
	f.Fuzz(func(t *testing.T, name string, facts, settings []byte) {
		point := contract.Point(name)
		canonical, ok := canonicalFacts(point, facts)
		if !ok {
			t.Skip("no facts of this point")
		}
		request := contract.Request{Version: contract.Version, Point: point, Facts: canonical}
		if object := (map[string]any{}); json.Unmarshal(settings, &object) == nil && object != nil {
			sent, err := json.Marshal(object)
			require.NoError(t, err)
			request.Settings = sent
		}
		input, err := json.Marshal(request)
		require.NoError(t, err)
		want, wantErr := native.Functions()[point](request)
		got, err := host.Call(t.Context(), point.Export(), input)
		if wantErr != nil {
			require.ErrorContains(t, err, wantErr.Error())
			return
		}
		require.NoError(t, err)
		wantJSON, err := json.Marshal(want)
		require.NoError(t, err)
		assert.JSONEq(t, string(wantJSON), string(got))
	})
}

// canonicalFacts decodes facts into the point's type and encodes them again.
func canonicalFacts(point contract.Point, facts []byte) ([]byte, bool) {
	var v any
	switch point {
	case contract.PodMutation:
		v = new(contract.PodMutationFacts)
	case contract.OffloadingPatch:
		v = new(contract.OffloadingPatchFacts)
	case contract.AntiAffinityPreset:
		v = new(contract.AntiAffinityPresetFacts)
	case contract.MetadataFilter:
		v = new(contract.MetadataFilterFacts)
	default:
		return nil, false
	}
	if json.Unmarshal(facts, v) != nil {
		return nil, false
	}
	data, err := json.Marshal(v)
	return data, err == nil
}
