package operation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// joined returns n texts, made of a format with one number, separated by commas.
func joined(n int, format string) string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(texts, ",")
}

// Each case takes minutes if lists are compared pair by pair, and then exceeds the timeout of
// go test.
func TestVerbsAreLinearInTheSizeOfLists(t *testing.T) {
	const many = 100_000
	toleration := `{"key":"k%d","operator":"Exists"}`
	values := joined(many, `"v%d"`)
	reversed := `"v0",` + joined(many-1, `"w%d"`)
	for name, tc := range map[string]struct {
		doc  string
		op   contract.Operation
		want int
	}{
		"ensure many": {
			doc: `{}`, op: raw(contract.VerbEnsure, "/list", "["+joined(many, toleration)+"]"), want: many,
		},
		"ensure many that are there": {
			doc: `{"list":[` + joined(many, toleration) + `]}`,
			op:  raw(contract.VerbEnsure, "/list", "["+joined(many, toleration)+"]"), want: many,
		},
		"require many expressions of many": {
			doc:  nodeAffinity(`[{"matchExpressions":[` + joined(many, toleration) + `]}]`),
			op:   raw(contract.VerbRequire, "/na", `[{"matchExpressions":[`+joined(many, `{"key":"n%d","operator":"Exists"}`)+`]}]`),
			want: 2 * many,
		},
		"require an expression with many values": {
			doc:  nodeAffinity(`[{"matchExpressions":[{"key":"k","operator":"In","values":[` + values + `]}]}]`),
			op:   raw(contract.VerbRequire, "/na", `[{"matchExpressions":[{"key":"k","operator":"In","values":[`+reversed+`]}]}]`),
			want: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			compiled, err := operation.Compile([]contract.Operation{tc.op})
			require.NoError(t, err)
			after, _, err := operation.Apply(decode(t, tc.doc), compiled)
			require.NoError(t, err)
			list, ok := after["list"].([]any)
			if !ok {
				list = expressions(t, after)
			}
			assert.Len(t, list, tc.want)
		})
	}
}

// expressions are those of the first required term of the document's node affinity.
func expressions(t *testing.T, doc map[string]any) []any {
	t.Helper()
	var value any = doc
	for _, key := range []string{"na", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"} {
		members, ok := value.(map[string]any)
		require.True(t, ok)
		value = members[key]
	}
	terms, ok := value.([]any)
	require.True(t, ok)
	first, ok := terms[0].(map[string]any)
	require.True(t, ok)
	list, ok := first["matchExpressions"].([]any)
	require.True(t, ok)
	return list
}
