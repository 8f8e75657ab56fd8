package suite_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
)

func TestOperationsOfTheVectorsGiveTheirResults(t *testing.T) {
	all, err := vectors.All()
	require.NoError(t, err)
	applied := 0
	for i := range all {
		t.Run(all[i].Name, func(t *testing.T) {
			assert.NoError(t, suite.CheckResult(&all[i]))
		})
		if len(all[i].Object) > 0 {
			applied++
		}
	}
	assert.Greater(t, applied, 30)
}

func TestCheckResultFindsAWrongResult(t *testing.T) {
	v := vectors.Vector{
		Response: []byte(`{"version":"v1alpha1","operations":[{"op":"merge","path":"/spec/nodeSelector","value":{"a":"1"}}]}`),
		Object:   []byte(`{"spec":{}}`), Result: []byte(`{"spec":{"nodeSelector":{"a":"2"}}}`),
	}
	assert.ErrorContains(t, suite.CheckResult(&v), "applied once gives")
}

// fake answers the same to everything.
type fake struct {
	output string
	err    error
}

func (f fake) Call(context.Context, string, []byte) ([]byte, error) { return []byte(f.output), f.err }

func TestCheckFindsWrongAnswers(t *testing.T) {
	request := []byte(`{"version":"v1alpha1","point":"MetadataFilter","facts":{}}`)
	answer := &vectors.Vector{Request: request, Response: []byte(`{"version":"v1alpha1","warnings":["a"]}`)}
	failure := &vectors.Vector{Request: request, Error: "no terms"}
	tests := map[string]struct {
		vector *vectors.Vector
		host   fake
		want   string
	}{
		"the right answer":                      {answer, fake{output: `{"warnings":["a"], "version":"v1alpha1"}`}, ""},
		"another answer":                        {answer, fake{output: `{"version":"v1alpha1"}`}, "want {"},
		"no answer":                             {answer, fake{}, "which is not a response"},
		"a member that the contract lacks":      {answer, fake{output: `{"version":"v1alpha1","warnings":["a"],"x":1}`}, "unknown field"},
		"a failure where an answer is due":      {answer, fake{err: errors.New("trap")}, "trap"},
		"the right failure":                     {failure, fake{err: errors.New("there are no terms here")}, ""},
		"another failure":                       {failure, fake{err: errors.New("trap")}, `want an error with "no terms"`},
		"an answer where a failure is expected": {failure, fake{output: `{"version":"v1alpha1"}`}, "want an error"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := suite.Check(t.Context(), tc.host, tc.vector)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
