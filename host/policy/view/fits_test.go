package view_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/longshore-dev/longshore/host/policy/operation"
)

var podSpec = reflect.TypeFor[corev1.PodSpec]()

func TestWhatFitsAPodSpec(t *testing.T) {
	for name, tc := range map[string]struct {
		spec string
		want bool
	}{
		"usual fields":               {`{"tolerations":[{"key":"a","operator":"Exists","tolerationSeconds":30}],"nodeSelector":{"a":"b"},"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}}}`, true},
		"numbers and booleans":       {`{"hostNetwork":true,"priority":5,"terminationGracePeriodSeconds":9223372036854775807}`, true},
		"an unknown field":           {`{"tolerations":[{"key":"a","future":1}]}`, false},
		"a field in another case":    {`{"nodename":"n"}`, false},
		"a string for a number":      {`{"priority":"5"}`, false},
		"a number that is too large": {`{"priority":5000000000}`, false},
		"a fraction":                 {`{"priority":0.5}`, false},
		"a list for an object":       {`{"nodeSelector":[]}`, false},
		"an object for a list":       {`{"tolerations":{}}`, false},
		"what reads itself":          {`{"containers":[{"resources":{"limits":{"cpu":"1"}}}]}`, false},
		"null":                       {`{"tolerations":[null]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := operation.Decode([]byte(tc.spec))
			require.NoError(t, err)
			assert.Equal(t, tc.want, operation.Fits(value, podSpec))
		})
	}
}

// FuzzFits: what fits can be read strictly, and nothing of it is lost.
func FuzzFits(f *testing.F) {
	spec, err := json.Marshal(largePod().Spec)
	require.NoError(f, err)
	f.Add(string(spec))
	f.Add(`{"tolerations":[{"key":"a","operator":"Exists","tolerationSeconds":30}],"nodeSelector":{"a":"b"},"priority":5,"hostNetwork":true}`)
	f.Add(`{"hostAliases":[{"ip":"1","hostnames":["a"]}],"os":{"name":"linux"},"enableServiceLinks":false,"dnsConfig":{"options":[{"name":"n","value":"v"}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		value, err := operation.Decode([]byte(text))
		if err != nil || !operation.Fits(value, podSpec) {
			return
		}
		var read corev1.PodSpec
		members, ok := value.(map[string]any)
		require.True(t, ok)
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(members, &read, true))
	})
}
