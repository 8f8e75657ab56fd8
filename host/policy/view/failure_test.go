package view_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestDecisionsRecordFallbacksAndSkippedPolicies(t *testing.T) {
	version := func(version string, fails bool) *policytest.Policy {
		manifest := contract.Manifest{Version: version, Points: []contract.PointManifest{{
			Point: contract.PodMutation, Writes: []contract.WriteRule{{Path: "/spec/hostname", Verbs: contract.Verbs()}},
		}}}
		return policytest.Native("module", manifest, map[contract.Point]func(contract.Request) (contract.Response, error){
			contract.PodMutation: func(contract.Request) (contract.Response, error) {
				if fails {
					return contract.Response{}, assert.AnError
				}
				return contract.Response{Operations: []contract.Operation{contract.Set("/spec/hostname", contract.String(version))}}, nil
			},
		})
	}
	good, bad := version("good", false), version("bad", true)
	binding := func(name string, p *policytest.Policy, failure chain.FailurePolicy, mode chain.Mode) chain.Binding {
		return chain.Binding{Name: name, Policy: p, Point: contract.PodMutation, FailurePolicy: failure, Mode: mode}
	}
	fallsBack := binding("falls-back", bad, chain.LastGood, chain.Enforce)
	previous := binding("falls-back", good, "", "")
	fallsBack.Fallback = &previous
	first, second := 1, 2
	fallsBack.Order = &first
	skipped := binding("skipped", bad, chain.Ignore, chain.Enforce)
	skipped.Order = &second
	chains := chain.New(chain.Options{})
	require.NoError(t, chains.Swap([]chain.Binding{
		fallsBack, skipped, binding("shadow", version("other", false), "", chain.Shadow), binding("failing-shadow", bad, "", chain.Shadow),
	}))
	result, err := view.AdmitPod(t.Context(), chains, view.AdmissionInput{Raw: []byte(`{"metadata":{"name":"web"},"spec":{}}`)})
	require.NoError(t, err)
	entries, err := view.DecodeDecisions(view.EncodeDecisions(result.Decisions, view.MaxDecisionsBytes))
	require.NoError(t, err)
	assert.Equal(t, []view.Entry{
		{Point: "PodMutation", Policy: "falls-back", Module: "module", Digest: chain.ShortDigest(good.Digest()), Operations: []string{"set /spec/hostname"}, FellBack: true},
		{Point: "PodMutation", Policy: "skipped", Module: "module", Digest: chain.ShortDigest(bad.Digest()), Ignored: true},
	}, entries, "shadows are not recorded")
	require.Len(t, result.Warnings, 2)
	assert.Contains(t, result.Warnings[0], "its previous version ("+chain.ShortDigest(good.Digest())+") was used instead")
}
