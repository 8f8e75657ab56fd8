package chain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// evaluateIn evaluates a new object of a namespace.
func (w *fixture) evaluateIn(namespace string) error {
	w.pods++
	in := podInput(fmt.Sprintf(`{"metadata":{"name":"%s-%d"}}`, namespace, w.pods))
	in.Match.Namespace = namespace
	_, err := w.chains.Evaluate(w.t.Context(), in)
	return err
}

// failingIn is a policy that fails for objects of the namespaces.
func failingIn(namespaces ...string) *policytest.Policy {
	return policytest.Native("p", contract.Manifest{Points: []contract.PointManifest{{
		Point: contract.PodMutation, Reads: []string{"/object/metadata/name"},
	}}}, map[contract.Point]func(contract.Request) (contract.Response, error){
		contract.PodMutation: func(request contract.Request) (contract.Response, error) {
			for _, namespace := range namespaces {
				if strings.Contains(string(request.Facts), `"`+namespace+`-`) {
					return contract.Response{}, errors.New("boom")
				}
			}
			return contract.Response{Version: request.Version}, nil
		},
	})
}

// newFixtureWithDefaults uses the default options of quarantine.
func newFixtureWithDefaults(t *testing.T, binding chain.Binding) *fixture {
	t.Helper()
	w := newFixture(t)
	w.chains = swapped(t, chain.Options{
		Clock: func() time.Time { return w.now }, Observer: w, HealthChanged: func() { w.notified++ },
	}, binding)
	return w
}

func TestFailuresInFewNamespacesDoNotQuarantine(t *testing.T) {
	w := newFixtureWithDefaults(t, bind(failingIn("evil", "worse")))
	for range 20 {
		require.ErrorIs(t, w.evaluateIn("evil"), engine.Guest)
		require.ErrorIs(t, w.evaluateIn("worse"), engine.Guest)
	}
	assert.False(t, w.health().Quarantined())
	require.NoError(t, w.evaluateIn("good"))
}

func TestFailuresInSeveralNamespacesQuarantine(t *testing.T) {
	w := newFixtureWithDefaults(t, bind(failingIn("a", "b", "c", "d")))
	for _, namespace := range []string{"a", "b", "c", "a", "a"} {
		require.ErrorIs(t, w.evaluateIn(namespace), engine.Guest)
	}
	assert.True(t, w.health().Quarantined())
	require.ErrorIs(t, w.evaluateIn("a"), chain.Quarantined)

	// A new namespace gets one probe at once. Probes of other namespaces do not delay it.
	require.ErrorIs(t, w.evaluateIn("d"), engine.Guest)
	require.ErrorIs(t, w.evaluateIn("d"), chain.Quarantined)
	w.now = w.now.Add(10 * time.Second)
	require.ErrorIs(t, w.evaluateIn("a"), engine.Guest)
	require.ErrorIs(t, w.evaluateIn("a"), chain.Quarantined)
	assert.Equal(t, 1, w.notified)
	require.NoError(t, w.evaluateIn("good"))
	assert.False(t, w.health().Quarantined())
	assert.Equal(t, 2, w.notified)
}

func TestABuiltInPolicyIsNeverQuarantined(t *testing.T) {
	binding := bind(failingIn("a", "b", "c", "d"))
	binding.BuiltIn = true
	w := newFixtureWithDefaults(t, binding)
	for range 20 {
		for _, namespace := range []string{"a", "b", "c", "d"} {
			require.ErrorIs(t, w.evaluateIn(namespace), engine.Guest)
		}
	}
	assert.False(t, w.health().Quarantined())
	assert.Zero(t, w.notified)
	require.NoError(t, w.evaluateIn("good"))
}

func TestALargeObjectIsNotAFailureOfThePolicy(t *testing.T) {
	requirement := func(i int) string { return fmt.Sprintf(`{"matchExpressions":[{"key":"k%d","operator":"Exists"}]}`, i) }
	terms := make([]string, operation.MaxTerms+1)
	for i := range terms {
		terms[i] = requirement(i)
	}
	for name, tc := range map[string]struct {
		object string
		want   string
	}{
		"for the request": {
			object: `{"metadata":{"name":"` + strings.Repeat("n", contract.MaxRequestBytes) + `"}}`,
			want:   "the facts that the policy reads have 1048683 bytes as JSON, more than 1048576",
		},
		"for the answer": {
			object: `{"metadata":{"name":"n"},"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + strings.Join(terms, ",") + `]}}}}}`,
			want:   "applying the answer: operation 0 (require /spec/affinity/nodeAffinity): the object is too large: its 257 node selector terms would become more than 256",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := policytest.Native("p", contract.Manifest{Points: []contract.PointManifest{{
				Point: contract.PodMutation, Reads: []string{"/object/metadata/name"}, Writes: writes("/spec/affinity/nodeAffinity", "require"),
			}}}, map[contract.Point]func(contract.Request) (contract.Response, error){
				contract.PodMutation: answers(contract.Require("/spec/affinity/nodeAffinity", contract.NodeSelectorTerm{
					MatchExpressions: []contract.NodeSelectorRequirement{{Key: "a", Operator: "Exists"}},
				})),
			})
			w := newFixture(t, bind(p))
			var failure *chain.PolicyError
			for range 10 {
				_, err := w.chains.Evaluate(t.Context(), podInput(tc.object))
				require.ErrorAs(t, err, &failure)
				assert.Equal(t, chain.TooLarge, failure.Class)
				require.EqualError(t, err, `the object is too large for policy "p" (module p, `+chain.ShortDigest(p.Digest())+") at PodMutation/Offload: "+tc.want+"; the object's author must make it smaller")
			}
			assert.Zero(t, w.health().Failures)
		})
	}
}
