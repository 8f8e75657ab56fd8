package policysource_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// conditions makes a policy depend on expressions, the first of which is named c.
func conditions(expressions ...string) func(*policyv1alpha1.OffloadingPolicySpec) {
	return func(s *policyv1alpha1.OffloadingPolicySpec) {
		fromConfigMap(s)
		s.Match = &policyv1alpha1.Match{}
		for i, expression := range expressions {
			s.Match.MatchConditions = append(s.Match.MatchConditions, policyv1alpha1.MatchCondition{Name: string(rune('c' + i)), Expression: expression})
		}
	}
}

func TestMatchConditions(t *testing.T) {
	// As callers leave it: JSON-like at the top, Go values below.
	pod := map[string]any{
		"metadata": map[string]any{"name": "web", "labels": map[string]any{"app": "web"}},
		"spec":     &corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "shop.example/web:1"}}, Priority: new(int32(7))},
	}
	for name, tc := range map[string]struct {
		expressions []string
		want        bool
		wantError   string
	}{
		"a field of the object":             {expressions: []string{"object.metadata.labels.app == 'web'"}, want: true},
		"another value":                     {expressions: []string{"object.metadata.labels.app == 'db'"}},
		"a field that is a Go value":        {expressions: []string{"object.spec.containers.all(c, c.image.startsWith('shop.example/'))"}, want: true},
		"a number":                          {expressions: []string{"object.spec.priority > 5"}, want: true},
		"the virtual node":                  {expressions: []string{"virtualNode == 'milan'"}, want: true},
		"the namespace":                     {expressions: []string{"namespaceObject.metadata.name == 'a' && namespaceObject.metadata.labels['team'] == 'x'"}, want: true},
		"all must be true":                  {expressions: []string{"true", "virtualNode == 'rome'"}},
		"a field that is not there":         {expressions: []string{"object.spec.nodeName == 'n'"}, wantError: `evaluating spec.match.matchConditions["c"]: no such key: nodeName`},
		"has() asks before":                 {expressions: []string{"has(object.spec.nodeName) && object.spec.nodeName == 'n'"}},
		"optional chaining":                 {expressions: []string{"object.spec.?nodeName.orValue('') == ''"}, want: true},
		"an error beside one that is false": {expressions: []string{"object.spec.nodeName == 'n'", "false"}},
		"an expression that costs too much": {expressions: []string{"object.spec.containers.all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, b+c+d+e+f < 100))))))"}, wantError: "actual cost limit exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, configMap("v1"), object("mine", conditions(tc.expressions...)),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"team": "x"}}})
			r.mustPass()
			require.Equal(t, "True Bound", r.reason("mine"))
			result, err := r.source.Chains().Evaluate(t.Context(), chain.Input{
				Point: contract.PodMutation, Object: pod, Match: chain.Attributes{Namespace: "a", VirtualNode: "milan"},
			})
			if tc.wantError != "" {
				var failure *chain.PolicyError
				require.ErrorAs(t, err, &failure)
				assert.Equal(t, "mine", failure.Binding)
				assert.Equal(t, chain.Host, failure.Class)
				require.ErrorContains(t, failure.Err, tc.wantError)
				return
			}
			require.NoError(t, err)
			want := []string{"default-podplacement"}
			if tc.want {
				want = append(want, "mine")
			}
			assert.Equal(t, want, names(result))
		})
	}
}

func TestANamespaceThatCannotBeReadIsNoMatch(t *testing.T) {
	r := newRig(t, configMap("v1"), object("mine", conditions("namespaceObject.metadata.labels.size() > 0")))
	r.mustPass()
	require.Equal(t, "True Bound", r.reason("mine"))
	r.fail = func(string, any) error { return errNoConnection }
	_, err := r.source.Chains().Evaluate(t.Context(), chain.Input{Point: contract.PodMutation, Match: chain.Attributes{Namespace: "a"}})
	require.ErrorIs(t, err, chain.Host)
	require.ErrorIs(t, err, errNoConnection)

	ignoring := newRig(t, configMap("v1"), object("mine", func(s *policyv1alpha1.OffloadingPolicySpec) {
		conditions("object.spec.nodeName == 'n'")(s)
		s.FailurePolicy = policyv1alpha1.FailurePolicyIgnore
	}))
	ignoring.mustPass()
	result := ignoring.evaluate(contract.PodMutation, chain.Attributes{})
	require.Len(t, result.Warnings, 1)
	require.Len(t, result.Decisions, 2)
	assert.Contains(t, result.Decisions[1].Ignored, "no such key")
}
