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
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// askFor asks about an object of a namespace that was never seen before.
func (w *ward) askFor(namespace string) error {
	w.pods++
	in := podInput(fmt.Sprintf(`{"metadata":{"name":"%s-%d"}}`, namespace, w.pods))
	in.Match.Namespace = namespace
	_, err := w.chains.Evaluate(w.t.Context(), in)
	return err
}

// failingIn is a policy that fails on objects of some namespaces.
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

// newWardOfNamespaces has the default options of quarantine.
func newWardOfNamespaces(t *testing.T, binding chain.Binding) *ward {
	t.Helper()
	w := newWard(t)
	w.chains = swapped(t, chain.Options{
		Clock: func() time.Time { return w.now }, Observer: w, HealthChanged: func() { w.news++ },
	}, binding)
	return w
}

func TestObjectsOfFewNamespacesQuarantineNothing(t *testing.T) {
	w := newWardOfNamespaces(t, bind(failingIn("evil", "worse")))
	for range 20 {
		require.ErrorContains(t, w.askFor("evil"), "gave no valid answer")
		require.ErrorContains(t, w.askFor("worse"), "gave no valid answer")
	}
	assert.False(t, w.health().Quarantined())
	require.NoError(t, w.askFor("good"))
}

func TestObjectsOfSeveralNamespacesQuarantineAPolicy(t *testing.T) {
	w := newWardOfNamespaces(t, bind(failingIn("a", "b", "c", "d")))
	for _, namespace := range []string{"a", "b", "c", "a", "a"} {
		require.ErrorContains(t, w.askFor(namespace), "gave no valid answer")
	}
	assert.True(t, w.health().Quarantined())
	require.ErrorContains(t, w.askFor("a"), "is quarantined")

	// A namespace on whose objects it has not failed is asked about once, and what happens
	// then to the objects of others does not delay it.
	require.ErrorContains(t, w.askFor("d"), "gave no valid answer")
	require.ErrorContains(t, w.askFor("d"), "is quarantined")
	w.now = w.now.Add(10 * time.Second)
	require.ErrorContains(t, w.askFor("a"), "gave no valid answer")
	require.ErrorContains(t, w.askFor("a"), "is quarantined")
	assert.Equal(t, 1, w.news)
	require.NoError(t, w.askFor("good"))
	assert.False(t, w.health().Quarantined())
	assert.Equal(t, 2, w.news)
}

func TestABuiltInPolicyIsNeverQuarantined(t *testing.T) {
	binding := bind(failingIn("a", "b", "c", "d"))
	binding.BuiltIn = true
	w := newWardOfNamespaces(t, binding)
	for range 20 {
		for _, namespace := range []string{"a", "b", "c", "d"} {
			require.ErrorContains(t, w.askFor(namespace), "gave no valid answer")
		}
	}
	assert.False(t, w.health().Quarantined())
	assert.Zero(t, w.news)
	require.NoError(t, w.askFor("good"))
}

func TestAnObjectThatIsTooLargeIsItsAuthorsError(t *testing.T) {
	requirement := func(i int) string { return fmt.Sprintf(`{"matchExpressions":[{"key":"k%d","operator":"Exists"}]}`, i) }
	terms := make([]string, operation.MaxTerms+1)
	for i := range terms {
		terms[i] = requirement(i)
	}
	for name, tc := range map[string]struct {
		object string
		want   string
	}{
		"to be asked about": {
			object: `{"metadata":{"name":"` + strings.Repeat("n", contract.MaxRequestBytes) + `"}}`,
			want:   "what the policy reads of the object has 1048",
		},
		"for what is answered": {
			object: `{"metadata":{"name":"n"},"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + strings.Join(terms, ",") + `]}}}}}`,
			want:   "with the 257 node selector terms that it has it would get more than 256",
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
			w := newWard(t, bind(p))
			var failure *chain.PolicyError
			for range 10 {
				_, err := w.chains.Evaluate(t.Context(), podInput(tc.object))
				require.ErrorAs(t, err, &failure)
				assert.Equal(t, chain.TooLarge, failure.Class)
				assert.Contains(t, err.Error(), `the object is too large for policy "p" (module p, `)
				assert.Contains(t, err.Error(), tc.want)
				assert.Contains(t, err.Error(), "; its author must make it smaller")
			}
			assert.Zero(t, w.health().Failures)
		})
	}
}
