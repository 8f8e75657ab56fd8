package vectors_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/native"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestNativePoliciesAnswerTheVectors(t *testing.T) {
	all, err := vectors.All()
	require.NoError(t, err)
	functions := native.Functions()
	asked := map[contract.Point]int{}
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			var request contract.Request
			require.NoError(t, json.Unmarshal(v.Request, &request))
			require.Contains(t, functions, request.Point)
			asked[request.Point]++
			response, err := functions[request.Point](request)
			if v.Error != "" {
				require.ErrorContains(t, err, v.Error)
				return
			}
			require.NoError(t, err)
			got, err := json.Marshal(response)
			require.NoError(t, err)
			assert.JSONEq(t, string(v.Response), string(got))
		})
	}
	for _, point := range contract.CorePoints() {
		assert.Positive(t, asked[point], "no vector for %s", point)
	}
}

// An answer that its own manifest does not allow would be refused by the host.
func TestAnswersStayInsideTheManifest(t *testing.T) {
	all, err := vectors.All()
	require.NoError(t, err)
	manifest := defaults.Manifest()
	for _, v := range all {
		if v.Error != "" {
			continue
		}
		point, err := v.Point()
		require.NoError(t, err)
		var response contract.Response
		require.NoError(t, json.Unmarshal(v.Response, &response))
		for _, op := range response.Operations {
			allowed := false
			for _, rule := range manifest.For(point).Writes {
				for _, verb := range rule.Verbs {
					allowed = allowed || rule.Path == op.Path && verb == op.Op
				}
			}
			assert.True(t, allowed, "%s: %s %s is not in the manifest", v.Name, op.Op, op.Path)
		}
	}
}

func TestParseRefusesIncompleteVectors(t *testing.T) {
	tests := map[string]struct{ data, wantError string }{
		"no origin":             {`{"description":"d","request":{},"response":{}}`, "description and origin"},
		"no request":            {`{"description":"d","origin":"o","response":{}}`, "needs a request"},
		"neither outcome":       {`{"description":"d","origin":"o","request":{}}`, "a response or an error"},
		"both outcomes":         {`{"description":"d","origin":"o","request":{},"response":{},"error":"e"}`, "a response or an error"},
		"object without result": {`{"description":"d","origin":"o","request":{},"response":{},"object":{}}`, "object and result"},
		"an unknown member":     {`{"description":"d","origin":"o","request":{},"response":{},"answer":1}`, "unknown field"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := vectors.Parse([]byte(tc.data))
			assert.ErrorContains(t, err, tc.wantError)
		})
	}
}

// A module of any point is asked golden requests.
func TestEveryPointHasVectors(t *testing.T) {
	every, err := vectors.Every()
	require.NoError(t, err)
	asked := map[contract.Point]int{}
	for i := range every {
		point, err := every[i].Point()
		require.NoError(t, err)
		asked[point]++
	}
	for _, point := range contract.Points() {
		assert.GreaterOrEqual(t, asked[point], 4, "vectors of %s", point)
	}
}
