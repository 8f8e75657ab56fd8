package chain_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func resource(name string, rules []contract.WriteRule, response contract.Response) chain.Binding {
	return bind(at(contract.ResourceMutation, name, []string{"/object/kind"}, rules, func(contract.Request) (contract.Response, error) { return response, nil }))
}

func resourceInput(object string) chain.Input {
	in := podInput(object)
	in.Point, in.Moment = contract.ResourceMutation, ""
	return in
}

func skips(reason, message string) contract.Response {
	return contract.Response{Skip: &contract.Skip{Reason: reason, Message: message}}
}

func TestBoundsOfResourceMutation(t *testing.T) {
	for path, allowed := range map[string]bool{
		"/metadata/labels": true, "/metadata/annotations": true, "/data": true, "/binaryData": true, "/spec": true, "/spec/containers[*]/image": true,
		"/metadata": false, "/metadata/name": false, "/metadata/namespace": false, "/metadata/uid": false,
		"/metadata/ownerReferences": false, "/metadata/finalizers": false, "/metadata/managedFields": false,
		"/status": false, "/kind": false, "/apiVersion": false, "/type": false, "/immutable": false, "/stringData": false,
	} {
		t.Run(path, func(t *testing.T) {
			err := chain.Check([]chain.Binding{resource("p", writes(path, contract.VerbSet), contract.Response{})})
			if allowed {
				require.NoError(t, err)
				return
			}
			var unusable *chain.BindingError
			require.ErrorAs(t, err, &unusable)
			assert.Equal(t, path, notAllowed(t, err).Path)
		})
	}
}

func TestAResourceMutationPolicySkips(t *testing.T) {
	first, second := resource("first", nil, skips("LocalOnly", "only used locally")), resource("second", nil, contract.Response{})
	result, err := swapped(t, chain.Options{}, first, second).Evaluate(t.Context(), resourceInput(`{"kind":"Secret"}`))
	require.NoError(t, err)
	require.NotNil(t, result.Denial)
	assert.True(t, result.Denial.Skip)
	assert.Equal(t, "LocalOnly", result.Denial.Reason)
	require.EqualError(t, result.Denial, `policy "first" (module first, `+chain.ShortDigest(first.Policy.Digest())+") skips the object: LocalOnly: only used locally")
	require.Len(t, result.Decisions, 1, "later policies are not called")
	assert.True(t, result.Decisions[0].Denied)
	assert.JSONEq(t, `{"kind":"Secret"}`, encoded(t, result.Object))
}

func TestInvalidSkips(t *testing.T) {
	for name, tc := range map[string]struct {
		point    contract.Point
		response contract.Response
		want     string
	}{
		"without a reason":  {contract.ResourceMutation, skips("", "m"), "a skip needs a reason and a message"},
		"without a message": {contract.ResourceMutation, skips("R", ""), "a skip needs a reason and a message"},
		"of a pod that is being created": {
			contract.PodMutation, skips("R", "m"), "policies cannot skip at PodMutation",
		},
		"of labels":  {contract.MetadataFilter, skips("R", "m"), "policies cannot skip at MetadataFilter"},
		"as denials": {contract.ResourceMutation, contract.Response{Deny: &contract.Denial{Reason: "R", Message: "m"}}, "policies cannot deny at ResourceMutation"},
	} {
		t.Run(name, func(t *testing.T) {
			p := at(tc.point, "p", nil, nil, func(contract.Request) (contract.Response, error) { return tc.response, nil })
			in := resourceInput(`{}`)
			in.Point = tc.point
			_, err := swapped(t, chain.Options{}, bind(p)).Evaluate(t.Context(), in)
			require.ErrorIs(t, err, engine.BadOutput)
			require.ErrorContains(t, err, tc.want)
			ignoring := bind(p)
			ignoring.FailurePolicy = chain.Ignore
			result, err := swapped(t, chain.Options{}, ignoring).Evaluate(t.Context(), in)
			require.NoError(t, err)
			assert.Nil(t, result.Denial)
			assert.Contains(t, result.Decisions[0].Ignored, tc.want)
		})
	}
}

func TestWritesOfAnObjectNarrowTheBound(t *testing.T) {
	set := resource("p", writes("/data", contract.VerbMerge), contract.Response{Operations: []contract.Operation{contract.Merge("/data", contract.StringMap{"a": "b"})}})
	chains := swapped(t, chain.Options{}, set)
	in := resourceInput(`{"kind":"Service"}`)
	in.Writes = operation.MustCompileRules([]contract.WriteRule{{Path: "/spec", Verbs: contract.Verbs()}})
	for range 2 { // the second answer is cached
		_, err := chains.Evaluate(t.Context(), in)
		var refused *chain.PolicyError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, chain.Undeclared, refused.Class)
		assert.Equal(t, &operation.NotAllowedError{Verb: contract.VerbMerge, Path: "/data", Keys: []string{"a"}, Allowed: in.Writes.String()}, notAllowed(t, err))
	}
	in.Writes = nil
	result, err := chains.Evaluate(t.Context(), in)
	require.NoError(t, err)
	assert.JSONEq(t, `{"kind":"Service","data":{"a":"b"}}`, encoded(t, result.Object))
}

func TestAShadowReportsASkip(t *testing.T) {
	seen := &watcher{}
	shadow := resource("p", nil, skips("LocalOnly", "m"))
	shadow.Mode = chain.Shadow
	result, err := swapped(t, chain.Options{Observer: seen}, shadow).Evaluate(t.Context(), resourceInput(`{"kind":"Secret","metadata":{"name":"s"}}`))
	require.NoError(t, err)
	assert.Nil(t, result.Denial)
	require.Len(t, seen.seen, 1)
	assert.Equal(t, &chain.Difference{Kind: "Secret", Name: "s", Denied: "LocalOnly"}, seen.seen[0].Difference)
}

func TestConflictingResourceMutationsNeedAnOrder(t *testing.T) {
	a, b := resource("a", writes("/data", contract.VerbMerge), contract.Response{}), resource("b", writes("/data", contract.VerbMerge), contract.Response{})
	var conflict *chain.ConflictError
	require.ErrorAs(t, chain.Check([]chain.Binding{a, b}), &conflict)
	assert.Equal(t, &chain.ConflictError{Point: contract.ResourceMutation, Path: "/data", First: "a", Second: "b"}, conflict)
	a.Order, b.Order = order(1), order(2)
	require.NoError(t, chain.Check([]chain.Binding{a, b}))
}

func TestHasBindings(t *testing.T) {
	chains := chain.New(chain.Options{})
	assert.True(t, chains.HasBindings(contract.ResourceMutation), "no bindings are known before the first Swap")
	other := bind(policy("other", nil, nil, answers()))
	disabled, shadow := resource("p", nil, contract.Response{}), resource("p", nil, contract.Response{})
	disabled.Mode, shadow.Mode = chain.Disabled, chain.Shadow
	for want, bindings := range map[bool][][]chain.Binding{
		false: {nil, {other}, {disabled}},
		true:  {{resource("p", nil, contract.Response{})}, {shadow}, {other, shadow}},
	} {
		for _, each := range bindings {
			require.NoError(t, chains.Swap(each))
			assert.Equal(t, want, chains.HasBindings(contract.ResourceMutation))
			assert.Zero(t, testing.AllocsPerRun(100, func() { chains.HasBindings(contract.ResourceMutation) }))
		}
	}
}
