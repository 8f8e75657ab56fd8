package view_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// invalidating returns valid operations that make a pod invalid.
func invalidating() map[string]contract.Operation {
	set := func(path, value string) contract.Operation { return contract.Set(path, contract.Raw(value)) }
	return map[string]contract.Operation{
		"an unknown field":                     set("/spec/nodeSelektor", `{"a":"b"}`),
		"a field in another case":              set("/spec/nodename", `"n"`),
		"an unknown field in a container":      set("/spec/containers[name=web]/imagePolicy", `"x"`),
		"a list that is a text":                set("/spec/tolerations", `"x"`),
		"a number beyond 64 bits":              set("/spec/activeDeadlineSeconds", `9223372036854775808`),
		"a number far beyond 64 bits":          set("/spec/activeDeadlineSeconds", `1e30`),
		"a number beyond 32 bits":              set("/spec/priority", `5000000000`),
		"a fraction":                           set("/spec/activeDeadlineSeconds", `1.5`),
		"a number beyond 64 bits in a context": set("/spec/securityContext/runAsUser", `9223372036854775808`),
		"a label's value with a space":         set("/metadata/labels/a", `"x y"`),
		"a label's key with a space":           contract.Merge("/metadata/labels", contract.StringMap{"a b": "c"}),
		"a label that is a number":             set("/metadata/labels/a", `1`),
		"labels that are a list":               set("/metadata/labels", `[1]`),
		"an annotation's key with two slashes": contract.Merge("/metadata/annotations", contract.StringMap{"a/b/c": ""}),
	}
}

func withHostname(operation contract.Operation) []contract.Operation {
	return []contract.Operation{contract.Set("/spec/hostname", contract.String("changed")), operation}
}

var everything = append(anything("/spec"), append(anything("/metadata/labels"), anything("/metadata/annotations")...)...)

func TestAnInvalidPodIsAFailureOfThePolicy(t *testing.T) {
	raw, err := json.Marshal(localPod())
	require.NoError(t, err)
	moments := map[string]func(c *chain.Chains) (hostname string, err error){
		"offload": func(c *chain.Chains) (string, error) {
			result, err := view.OffloadPod(t.Context(), c, offloadInput())
			if err != nil {
				return "", err
			}
			return result.ShadowPod.Spec.Pod.Hostname, nil
		},
		"admission": func(c *chain.Chains) (string, error) {
			in := admissionInput()
			in.Pod, in.Raw = nil, raw
			result, err := view.AdmitPod(t.Context(), c, in)
			if err != nil {
				return "", err
			}
			patch, err := result.JSONPatch(nil)
			require.NoError(t, err)
			if assert.NotContains(t, string(patch), "hostname") {
				return "", nil
			}
			return "changed", nil
		},
	}
	for name, operation := range invalidating() {
		for moment, ask := range moments {
			t.Run(name+" at "+moment, func(t *testing.T) {
				p := answering("invalid", contract.PodMutation, everything, withHostname(operation)...)
				binding := chain.Binding{Name: "invalid", Policy: p, Point: contract.PodMutation}
				c, _ := chains(t)
				require.NoError(t, c.Swap([]chain.Binding{binding}))
				_, err := ask(c)
				var failure *chain.PolicyError
				require.ErrorAs(t, err, &failure)
				assert.Equal(t, "invalid", failure.Binding)
				assert.Equal(t, engine.BadOutput, failure.Class)
				assert.Equal(t, 1, c.Health()[0].Failures)

				binding.FailurePolicy = chain.Ignore
				require.NoError(t, c.Swap([]chain.Binding{binding}))
				hostname, err := ask(c)
				require.NoError(t, err)
				assert.Empty(t, hostname, "no operation of the answer is applied")
			})
		}
	}
}

func TestInvalidLabelsAreAFailureOfTheFilter(t *testing.T) {
	for name, value := range map[string]string{"a number": `{"a":1}`, "an invalid value": `{"a":"x y"}`, "an invalid key": `{"a b":""}`} {
		t.Run(name, func(t *testing.T) {
			p := answering("invalid", contract.MetadataFilter, anything("/metadata/labels"), contract.Merge("/metadata/labels", contract.Raw(value)))
			c, _ := chains(t, p)
			_, _, _, err := view.FilterMetadata(t.Context(), c, view.MetadataInput{APIVersion: "v1", Kind: "Service", Labels: map[string]string{"app": "web"}})
			var failure *chain.PolicyError
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, "invalid", failure.Binding)
			assert.Equal(t, engine.BadOutput, failure.Class)
		})
	}
}
