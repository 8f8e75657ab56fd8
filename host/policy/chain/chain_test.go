package chain_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

type answerFunc = func(contract.Request) (contract.Response, error)

func answers(operations ...contract.Operation) answerFunc {
	return func(contract.Request) (contract.Response, error) {
		return contract.Response{Operations: operations}, nil
	}
}

func fails(message string) answerFunc {
	return func(contract.Request) (contract.Response, error) { return contract.Response{}, errors.New(message) }
}

func writes(path string, verbs ...contract.Verb) []contract.WriteRule {
	return []contract.WriteRule{{Path: path, Verbs: verbs}}
}

// policy answers PodMutation.
func policy(name string, reads []string, rules []contract.WriteRule, answer answerFunc) *policytest.Policy {
	return at(contract.PodMutation, name, reads, rules, answer)
}

func at(point contract.Point, name string, reads []string, rules []contract.WriteRule, answer answerFunc) *policytest.Policy {
	return policytest.Native(name, contract.Manifest{Points: []contract.PointManifest{{Point: point, Reads: reads, Writes: rules}}},
		map[contract.Point]func(contract.Request) (contract.Response, error){point: answer})
}

func bind(p chain.Policy) chain.Binding {
	return chain.Binding{Name: p.Name(), Policy: p, Point: p.Manifest().Points[0].Point}
}

func order(n int) *int { return &n }

func podInput(object string) chain.Input {
	value, err := jsonvalue.Decode([]byte(object))
	if err != nil {
		panic(err)
	}
	doc, _ := value.(map[string]any)
	return chain.Input{Point: contract.PodMutation, Moment: contract.MomentOffload, Object: doc}
}

func swapped(t *testing.T, options chain.Options, bindings ...chain.Binding) *chain.Chains {
	t.Helper()
	chains := chain.New(options)
	require.NoError(t, chains.Swap(bindings))
	return chains
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	require.NoError(t, err)
	return string(data)
}

func TestEvaluateFailsBeforeTheFirstSwap(t *testing.T) {
	chains := chain.New(chain.Options{})
	_, err := chains.Evaluate(t.Context(), podInput(`{}`))
	require.ErrorIs(t, err, chain.ErrNotLoaded)

	require.NoError(t, chains.Swap(nil))
	result, err := chains.Evaluate(t.Context(), podInput(`{"a":1}`))
	require.NoError(t, err)
	assert.False(t, result.Changed)
	assert.Empty(t, result.Decisions)
}

func TestEachPolicyGetsThePreviousResult(t *testing.T) {
	reader := policy("reader", []string{"/object/spec/nodeSelector"}, writes("/metadata/labels", "merge"), func(r contract.Request) (contract.Response, error) {
		return contract.Response{Operations: []contract.Operation{contract.Merge("/metadata/labels", contract.StringMap{"seen": string(r.Facts)})}}, nil
	})
	writer := policy("writer", nil, writes("/spec/nodeSelector", "merge"), answers(contract.Merge("/spec/nodeSelector", contract.StringMap{"pool": "gpu"})))
	first, last := bind(writer), bind(reader)
	first.Order, last.Order = order(1), order(2)
	chains := swapped(t, chain.Options{}, last, first)

	input := podInput(`{"spec":{"hostname":"h"}}`)
	result, err := chains.Evaluate(t.Context(), input)
	require.NoError(t, err)
	assert.True(t, result.Changed)
	assert.JSONEq(t, `{"spec":{"hostname":"h"}}`, encoded(t, input.Object), "the input is not altered")
	assert.JSONEq(t, `{"metadata":{"labels":{"seen":"{\"object\":{\"spec\":{\"nodeSelector\":{\"pool\":\"gpu\"}}}}"}},"spec":{"hostname":"h","nodeSelector":{"pool":"gpu"}}}`, encoded(t, result.Object))
	assert.Equal(t, []chain.Decision{
		{Point: contract.PodMutation, Moment: contract.MomentOffload, Binding: "writer", Module: "writer", Digest: writer.Digest(), Effects: []operation.Effect{{Verb: "merge", Path: "/spec/nodeSelector", Keys: []string{"pool"}}}},
		{Point: contract.PodMutation, Moment: contract.MomentOffload, Binding: "reader", Module: "reader", Digest: reader.Digest(), Effects: []operation.Effect{{Verb: "merge", Path: "/metadata/labels", Keys: []string{"seen"}}}},
	}, result.Decisions)
}

func TestRequestsAreCanonicalAndHaveDeclaredFactsOnly(t *testing.T) {
	var got string
	p := policy("reader", []string{"/object/spec/containers[*]/image", "/object/spec/containers[name=b]/command", "/object/metadata/annotations/liqo.io~1x", "/local/spec/tolerations", "/runtimeClassName", "/object/spec/absent"},
		nil, func(r contract.Request) (contract.Response, error) {
			got = encoded(t, r)
			return contract.Response{}, nil
		})
	b := bind(p)
	b.Settings = json.RawMessage(`{ "z": 1, "a": "<>" }`)
	chains := swapped(t, chain.Options{}, b)
	input := podInput(`{"metadata":{"name":"secret","annotations":{"liqo.io/x":"1","y":"2"}},"spec":{"containers":[{"name":"a","image":"i"},{"name":"b","command":["c"],"env":[1]},{}]}}`)
	input.Facts = map[string]any{"local": map[string]any{"spec": map[string]any{"tolerations": []any{map[string]any{"key": "k", "effect": nil}}}}, "runtimeClassName": "liqo", "other": 1}
	_, err := chains.Evaluate(t.Context(), input)
	require.NoError(t, err)
	assert.JSONEq(t, `{"version":"v1alpha1","point":"PodMutation","moment":"Offload","settings":{"a":"<>","z":1},"facts":{"local":{"spec":{"tolerations":[{"key":"k"}]}},"object":{"metadata":{"annotations":{"liqo.io/x":"1"}},"spec":{"containers":[{"image":"i"},{"command":["c"]},{}]}},"runtimeClassName":"liqo"}}`, got)
}

func TestInvalidAnswersAreErrors(t *testing.T) {
	many := make([]contract.Operation, contract.MaxOperations+1)
	for name, tc := range map[string]struct {
		raw    string
		answer answerFunc
		// class is BadOutput when empty; wantErr tells the problem of the answer to its author.
		class   engine.Class
		wantErr string
	}{
		"empty output":              {raw: "-", wantErr: "the answer is empty"},
		"text that is not JSON":     {raw: "hello", wantErr: "invalid character"},
		"an unknown field":          {raw: `{"version":"v1alpha1","patch":[]}`, wantErr: `unknown field "patch"`},
		"an unknown operand":        {raw: `{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/a","value":1,"from":"/b"}]}`, wantErr: `unknown field "from"`},
		"text after the answer":     {raw: `{"version":"v1alpha1"}{}`, wantErr: "data after the JSON value"},
		"another version":           {raw: `{"version":"v2"}`, wantErr: `the contract version is "v2"`},
		"no version":                {raw: `{}`, wantErr: `the contract version is ""`},
		"an undeclared path":        {answer: answers(contract.Remove("/spec/b")), class: chain.Undeclared, wantErr: "operation 0 is outside of what the module declares and the binding allows: remove /spec/b is not allowed, only set|remove /spec/a"},
		"an undeclared verb":        {answer: answers(contract.Merge("/spec/a", contract.StringMap{})), class: chain.Undeclared, wantErr: "merge /spec/a is not allowed"},
		"too many operations":       {answer: answers(many...), wantErr: "257 operations"},
		"a shape that does not fit": {answer: answers(contract.Set("/spec/a/b", contract.Int(1))), wantErr: "found a string, want an object"},
		"a denial without reason":   {raw: `{"version":"v1alpha1","deny":{"message":"no"}}`, wantErr: "needs a reason"},
		"too many warnings":         {raw: `{"version":"v1alpha1","warnings":["","","","","","","","",""]}`, wantErr: "9 warnings"},
		"a long warning":            {raw: `{"version":"v1alpha1","warnings":["` + strings.Repeat("x", 300) + `"]}`, wantErr: "300 bytes"},
		"a long answer":             {raw: `{"version":"v1alpha1"` + strings.Repeat(" ", contract.MaxResponseBytes) + `}`, wantErr: "more than 262144"},
		"the policy's own error":    {answer: fails("no clue"), class: engine.Guest, wantErr: "no clue"},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy("bad", []string{"/object"}, writes("/spec/a", "set", "remove"), tc.answer)
			var asked chain.Policy = p
			if tc.raw != "" {
				asked = &rawPolicy{Policy: p, answer: strings.TrimPrefix(tc.raw, "-")}
			}
			chains := swapped(t, chain.Options{}, bind(asked))
			for range 2 { // errors are not cached
				_, err := chains.Evaluate(t.Context(), podInput(`{"spec":{"a":"text"}}`))
				var failure *chain.PolicyError
				require.ErrorAs(t, err, &failure)
				assert.Equal(t, "bad", failure.Binding)
				assert.Equal(t, "bad", failure.Module)
				assert.Equal(t, cmp.Or(tc.class, engine.BadOutput), failure.Class)
				require.ErrorContains(t, err, tc.wantErr)
			}

			ignored := bind(asked)
			ignored.FailurePolicy = chain.Ignore
			result, err := swapped(t, chain.Options{}, ignored).Evaluate(t.Context(), podInput(`{"spec":{"a":"text"}}`))
			require.NoError(t, err)
			assert.False(t, result.Changed)
			require.Len(t, result.Decisions, 1)
			assert.Contains(t, result.Decisions[0].Ignored, tc.wantErr)
			require.Len(t, result.Warnings, 1)
			assert.Contains(t, result.Warnings[0], tc.wantErr)
		})
	}
}

// rawPolicy answers with fixed bytes.
type rawPolicy struct {
	chain.Policy
	answer string
}

func (p *rawPolicy) Call(context.Context, string, []byte) ([]byte, engine.Stats, error) {
	return []byte(p.answer), engine.Stats{}, nil
}

func TestADenialEndsTheChain(t *testing.T) {
	denies := func(contract.Request) (contract.Response, error) {
		return contract.Response{Deny: &contract.Denial{Reason: "TooBig", Message: "use less"}, Warnings: []string{"look"}}, nil
	}
	second := policy("second", nil, nil, answers())
	one, two := bind(policy("first", nil, nil, denies)), bind(second)
	result, err := swapped(t, chain.Options{}, one, two).Evaluate(t.Context(), podInput(`{}`))
	require.NoError(t, err)
	assert.Equal(t, &chain.Denied{Policy: "first", Module: "first", Digest: one.Policy.Digest(), Reason: "TooBig", Message: "use less"}, result.Denial)
	assert.Equal(t, []string{`policy "first": look`}, result.Warnings)
	assert.Zero(t, second.Calls())

	filter := at(contract.MetadataFilter, "filter", nil, nil, denies)
	_, err = swapped(t, chain.Options{}, bind(filter)).Evaluate(t.Context(), chain.Input{Point: contract.MetadataFilter})
	require.ErrorIs(t, err, engine.BadOutput)
	require.ErrorContains(t, err, "policies cannot deny at MetadataFilter")
}

func TestSwapRejectsInvalidBindings(t *testing.T) {
	good := policy("good", nil, writes("/spec/a", "set"), answers())
	for name, tc := range map[string]struct {
		binding func(*chain.Binding)
		policy  *policytest.Policy
		// refused is the write of a manifest that its point does not allow.
		refused *operation.NotAllowedError
		wantErr string
	}{
		"a read of another point's fact":  {policy: policy("p", []string{"/patch/x"}, nil, nil), wantErr: `path "/patch/x": the extension point has no such fact, only object, local`},
		"a bad read":                      {policy: policy("p", []string{"object"}, nil, nil), wantErr: "must begin with a slash"},
		"a bad write rule":                {policy: policy("p", nil, writes("/spec/a"), nil), wantErr: "allows no verb"},
		"a write beyond the point":        {policy: policy("p", nil, writes("/status", "set"), nil), refused: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/status", Allowed: anyVerb("/metadata/labels", "/metadata/annotations", "/spec")}},
		"a preset writing node affinity":  {policy: at(contract.AntiAffinityPreset, "p", nil, writes("/spec/affinity", "set"), nil), refused: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec/affinity", Allowed: anyVerb("/spec/affinity/podAntiAffinity")}},
		"a filter writing a spec":         {policy: at(contract.MetadataFilter, "p", nil, writes("/spec", "set"), nil), refused: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec", Allowed: anyVerb("/metadata/labels", "/metadata/annotations")}},
		"a patch writing containers":      {policy: at(contract.OffloadingPatch, "p", nil, writes("/spec/containers", "set"), nil), refused: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec/containers", Allowed: anyVerb("/spec/nodeSelector", "/spec/tolerations", "/spec/affinity", "/spec/runtimeClassName")}},
		"a point that is not implemented": {binding: func(b *chain.Binding) { b.Point = contract.MetadataFilter }, wantErr: `module "good" does not implement this extension point`},
		"an unknown point":                {binding: func(b *chain.Binding) { b.Point = "Later" }, wantErr: "unknown extension point"},
		"a moment that is not implemented": {
			policy:  policytest.Native("p", contract.Manifest{Points: []contract.PointManifest{{Point: contract.PodMutation, Moments: []contract.Moment{contract.MomentAdmission}}}}, nil),
			binding: func(b *chain.Binding) { b.Moments = []contract.Moment{contract.MomentOffload} }, wantErr: "does not implement the moment Offload"},
		"another contract":           {policy: policytest.Native("p", contract.Manifest{Contracts: []string{"v9"}, Points: []contract.PointManifest{{Point: contract.PodMutation}}}, nil), wantErr: "supports the contract versions [v9]"},
		"settings that are not JSON": {binding: func(b *chain.Binding) { b.Settings = []byte("{") }, wantErr: "settings: decoding JSON"},
		"settings that are a list":   {binding: func(b *chain.Binding) { b.Settings = []byte("[]") }, wantErr: "settings must be a JSON object"},
		"an unknown mode":            {binding: func(b *chain.Binding) { b.Mode = "Later" }, wantErr: `unknown mode "Later"`},
		"an unknown failure policy":  {binding: func(b *chain.Binding) { b.FailurePolicy = "Maybe" }, wantErr: `unknown failure policy "Maybe"`},
		"no policy":                  {binding: func(b *chain.Binding) { b.Policy = nil }, wantErr: "needs a name and a policy"},
		"a bad allow list":           {binding: func(b *chain.Binding) { b.Allow.Reads = []string{"x"} }, wantErr: "spec.allow.reads"},
	} {
		t.Run(name, func(t *testing.T) {
			p := tc.policy
			if p == nil {
				p = good
			}
			b := bind(p)
			if tc.binding != nil {
				tc.binding(&b)
			}
			chains := swapped(t, chain.Options{}, bind(good))
			err := chains.Swap([]chain.Binding{b})
			var refused *chain.BindingError
			require.ErrorAs(t, err, &refused)
			if tc.refused != nil {
				assert.Equal(t, tc.refused, notAllowed(t, err))
			}
			require.ErrorContains(t, err, tc.wantErr)
			result, err := chains.Evaluate(t.Context(), podInput(`{}`))
			require.NoError(t, err)
			assert.Len(t, result.Decisions, 1, "the bindings are unchanged")
		})
	}
	b := bind(good)
	var twice *chain.BindingError
	require.ErrorAs(t, chain.New(chain.Options{}).Swap([]chain.Binding{b, b}), &twice)
	require.EqualError(t, twice.Err, "the name is bound twice")
	b.Mode, b.Policy = chain.Disabled, nil
	require.NoError(t, chain.New(chain.Options{}).Swap([]chain.Binding{b, b}), "disabled bindings are not checked")
}

func TestConflictingWritesNeedAnOrder(t *testing.T) {
	a := bind(policy("a", nil, writes("/spec/nodeSelector", "merge"), answers(contract.Merge("/spec/nodeSelector", contract.StringMap{"k": "a"}))))
	b := bind(policy("b", nil, writes("/spec", "merge", "set"), answers(contract.Set("/spec/nodeSelector", contract.StringMap{"k": "b"}))))
	err := chain.New(chain.Options{}).Swap([]chain.Binding{a, b})
	var conflict *chain.ConflictError
	require.ErrorAs(t, err, &conflict)
	assert.Equal(t, &chain.ConflictError{Point: contract.PodMutation, Path: "/spec/nodeSelector", First: "a", Second: "b"}, conflict)

	a.Order = order(1)
	require.Error(t, chain.New(chain.Options{}).Swap([]chain.Binding{a, b}), "both need an order")
	b.Order = order(1)
	require.Error(t, chain.New(chain.Options{}).Swap([]chain.Binding{a, b}), "the orders must differ")
	for _, tc := range []struct {
		order int
		want  string
	}{{order: 0, want: "a"}, {order: 2, want: "b"}} {
		b.Order = order(tc.order)
		result, err := swapped(t, chain.Options{}, a, b).Evaluate(t.Context(), podInput(`{}`))
		require.NoError(t, err)
		assert.Equal(t, `{"spec":{"nodeSelector":{"k":"`+tc.want+`"}}}`, encoded(t, result.Object))
	}

	b.Order = nil
	b.Allow.Writes = writes("/spec/tolerations", "set")
	require.NoError(t, chain.New(chain.Options{}).Swap([]chain.Binding{a, b}), "allow makes them disjoint")
	b.Allow.Writes = nil
	a.Moments, b.Moments = []contract.Moment{contract.MomentAdmission}, []contract.Moment{contract.MomentOffload}
	require.NoError(t, chain.New(chain.Options{}).Swap([]chain.Binding{a, b}), "they are never called together")
}

func TestABindingNarrowsReadsAndWrites(t *testing.T) {
	p := policy("p", []string{"/object/spec", "/local"}, writes("/spec", "set"), func(r contract.Request) (contract.Response, error) {
		return contract.Response{Operations: []contract.Operation{contract.Set("/spec/hostname", contract.Raw(r.Facts))}}, nil
	})
	b := bind(p)
	b.Allow = chain.Allow{Reads: []string{"/object/spec/x", "/local/metadata/name"}, Writes: writes("/spec/hostname", "set", "remove")}
	input := podInput(`{"spec":{"x":1,"y":2}}`)
	input.Facts = map[string]any{"local": map[string]any{"metadata": map[string]any{"name": "n", "uid": "u"}}}
	result, err := swapped(t, chain.Options{}, b).Evaluate(t.Context(), input)
	require.NoError(t, err)
	assert.JSONEq(t, `{"spec":{"hostname":{"local":{"metadata":{"name":"n"}},"object":{"spec":{"x":1}}},"x":1,"y":2}}`, encoded(t, result.Object))

	b.Allow.Writes = writes("/spec/other", "set")
	_, err = swapped(t, chain.Options{}, b).Evaluate(t.Context(), input)
	assert.Equal(t, &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec/hostname", Allowed: "set /spec/other"}, notAllowed(t, err))
}

func TestReservedKeysAreRestored(t *testing.T) {
	reserved := func(key string) bool { return strings.HasPrefix(key, "reserved/") }
	for name, tc := range map[string]struct {
		op          contract.Operation
		want        string
		wantKept    []string
		wantChanged bool
	}{
		"removing one among others":   {op: contract.Remove("/metadata/labels", "reserved/a", "b"), want: `{"metadata":{"labels":{"reserved/a":"1"}}}`, wantKept: []string{"/metadata/labels/reserved~1a"}, wantChanged: true},
		"removing only reserved ones": {op: contract.Remove("/metadata/labels", "reserved/a"), want: `{"metadata":{"labels":{"b":"2","reserved/a":"1"}}}`, wantKept: []string{"/metadata/labels/reserved~1a"}},
		"removing all labels":         {op: contract.Remove("/metadata/labels"), want: `{"metadata":{"labels":{"reserved/a":"1"}}}`, wantKept: []string{"/metadata/labels/reserved~1a"}, wantChanged: true},
		"replacing all labels":        {op: contract.Set("/metadata/labels", contract.StringMap{"c": "3", "reserved/z": "9"}), want: `{"metadata":{"labels":{"c":"3","reserved/a":"1"}}}`, wantKept: []string{"/metadata/labels/reserved~1a", "/metadata/labels/reserved~1z"}, wantChanged: true},
		"adding one":                  {op: contract.Merge("/metadata/annotations", contract.StringMap{"reserved/z": "9", "x": "y"}), want: `{"metadata":{"annotations":{"x":"y"},"labels":{"b":"2","reserved/a":"1"}}}`, wantKept: []string{"/metadata/annotations/reserved~1z"}, wantChanged: true},
	} {
		t.Run(name, func(t *testing.T) {
			rules := append(writes("/metadata/labels", contract.Verbs()...), writes("/metadata/annotations", contract.Verbs()...)...)
			p := at(contract.MetadataFilter, "filter", nil, rules, answers(tc.op))
			input := podInput(`{}`)
			input.Point, input.Moment = contract.MetadataFilter, ""
			input.Object = map[string]any{"metadata": map[string]any{"labels": map[string]string{"reserved/a": "1", "b": "2"}}}
			result, err := swapped(t, chain.Options{ReservedKey: reserved}, bind(p)).Evaluate(t.Context(), input)
			require.NoError(t, err)
			assert.JSONEq(t, tc.want, encoded(t, result.Object))
			assert.Equal(t, tc.wantKept, result.Decisions[0].Kept)
			assert.Equal(t, tc.wantChanged, result.Changed)
			assert.Len(t, result.Warnings, len(tc.wantKept))
		})
	}
}

var errNoNamespace = errors.New("no namespace")

type matchNamespace string

func (m matchNamespace) Matches(_ context.Context, a chain.Attributes) (bool, error) {
	if a.Namespace == "" {
		return false, errNoNamespace
	}
	return a.Namespace == string(m), nil
}

func TestPoliciesAreCalledForMatchingObjectsOnly(t *testing.T) {
	p := policy("p", nil, nil, answers())
	b := bind(p)
	b.Match = matchNamespace("here")
	chains := swapped(t, chain.Options{}, b)
	for namespace, want := range map[string]int{"here": 1, "there": 0} {
		input := podInput(`{}`)
		input.Match.Namespace = namespace
		result, err := chains.Evaluate(t.Context(), input)
		require.NoError(t, err)
		assert.Len(t, result.Decisions, want, namespace)
	}
	_, err := chains.Evaluate(t.Context(), podInput(`{}`))
	require.ErrorIs(t, err, chain.Host, "an error does not skip the policy")
	require.ErrorIs(t, err, errNoNamespace)
}

type recorder struct {
	mu   sync.Mutex
	seen []string
	time time.Duration
}

func (r *recorder) Observe(o chain.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, fmt.Sprintf("%s %s changed=%v err=%v", o.Binding, o.Outcome, o.Changed, o.Err != nil))
	r.time += o.Duration
}

func TestObserversGetEveryEvaluation(t *testing.T) {
	observer := &recorder{}
	one := bind(policy("1", nil, writes("/spec/a", "set"), answers(contract.Set("/spec/a", contract.Int(1)))))
	two := bind(policy("2", nil, nil, fails("x")))
	two.FailurePolicy = chain.Ignore
	three := bind(policy("3", nil, nil, fails("x")))
	ticks := time.Time{}
	clock := func() time.Time { ticks = ticks.Add(time.Millisecond); return ticks }
	chains := swapped(t, chain.Options{Observer: observer, Clock: clock}, one, two, three)
	for range 2 {
		_, err := chains.Evaluate(t.Context(), podInput(`{}`))
		require.Error(t, err)
	}
	assert.Equal(t, []string{
		"1 answered changed=true err=false", "2 ignored changed=false err=true", "3 failed changed=false err=true",
		"1 remembered changed=true err=false", "2 ignored changed=false err=true", "3 failed changed=false err=true",
	}, observer.seen)
	assert.Equal(t, 6*time.Millisecond, observer.time)
}

// notAllowed returns the write that an error refuses.
func notAllowed(t *testing.T, err error) *operation.NotAllowedError {
	t.Helper()
	refused, ok := errors.AsType[*operation.NotAllowedError](err)
	require.True(t, ok, "%v", err)
	return refused
}

// anyVerb lists rules that allow all verbs, as [operation.NotAllowedError] does.
func anyVerb(paths ...string) string {
	var rules []contract.WriteRule
	for _, path := range paths {
		rules = append(rules, writes(path, contract.Verbs()...)...)
	}
	return operation.MustCompileRules(rules).String()
}
