package policysource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

const (
	// maxConditionCost bounds one evaluation of a match condition, in the cost units of
	// CEL: about what the API server grants to an expression of admission.
	maxConditionCost = 1_000_000
	// conditionInterrupt is after how many steps of a comprehension the context is asked.
	conditionInterrupt = 100
)

// The variables of a match condition. "namespace" alone is a reserved word of CEL.
const (
	conditionObject      = "object"
	conditionNamespace   = "namespaceObject"
	conditionVirtualNode = "virtualNode"
)

// condition is a compiled match condition. It is safe for concurrent use.
type condition struct {
	name    string
	program cel.Program
}

// compileConditions compiles spec.match.matchConditions; without any, CEL is not even
// set up. It returns those that compile, and what is wrong with the first that does not.
func compileConditions(declared []policyv1alpha1.MatchCondition) ([]condition, *problem) {
	if len(declared) == 0 {
		return nil, nil
	}
	env, err := cel.NewEnv(
		cel.Variable(conditionObject, cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(conditionNamespace, cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(conditionVirtualNode, cel.StringType),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(),
	)
	if err != nil {
		return nil, &problem{reason: reasonInvalidSpec, err: fmt.Errorf("preparing CEL: %w; this is a bug of Longshore", err)}
	}
	var out []condition
	var bad *problem
	for i := range declared {
		program, wrong := compileCondition(env, &declared[i])
		if bad = cmp.Or(bad, wrong); wrong == nil {
			out = append(out, condition{name: declared[i].Name, program: program})
		}
	}
	return out, bad
}

func compileCondition(env *cel.Env, declared *policyv1alpha1.MatchCondition) (cel.Program, *problem) {
	where := fmt.Sprintf("spec.match.matchConditions[%q]", declared.Name)
	ast, issues := env.Compile(declared.Expression)
	if err := issues.Err(); err != nil {
		return nil, invalid("%s does not compile, the operator must correct it: %w", where, err)
	}
	if kind := ast.OutputType(); !kind.IsExactType(cel.BoolType) {
		return nil, invalid("%s is of type %s: the operator must make it an expression of type bool", where, kind)
	}
	program, err := env.Program(ast, cel.CostLimit(maxConditionCost), cel.InterruptCheckFrequency(conditionInterrupt))
	if err != nil {
		return nil, invalid("%s cannot be evaluated, the operator must correct it: %w", where, err)
	}
	return program, nil
}

// meetsConditions tells whether all conditions are true. One that cannot be evaluated
// counts as a failure of the policy, unless another one is false.
func (m *matcher) meetsConditions(ctx context.Context, a chain.Attributes) (bool, error) {
	if len(m.conditions) == 0 {
		return true, nil
	}
	object, err := plain(a.Object)
	if err != nil {
		return false, err
	}
	var reading error
	variables := map[string]any{
		conditionObject:      object,
		conditionVirtualNode: a.VirtualNode,
		// Read only when an expression asks for it.
		conditionNamespace: func() any {
			var known map[string]string
			known, reading = m.namespaceLabels(ctx, a)
			return map[string]any{"metadata": map[string]any{"name": a.Namespace, "labels": known}}
		},
	}
	var failed error
	for i := range m.conditions {
		value, _, err := m.conditions[i].program.ContextEval(ctx, variables)
		switch {
		case ctx.Err() != nil:
			return false, fmt.Errorf("evaluating spec.match.matchConditions[%q]: %w", m.conditions[i].name, ctx.Err())
		case reading != nil:
			return false, reading
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("evaluating spec.match.matchConditions[%q]: %w", m.conditions[i].name, err))
		case value.Value() == false:
			return false, nil
		}
	}
	return failed == nil, failed
}

// plain returns an object in the types that CEL takes for JSON's: what callers leave as Go
// values is encoded first.
func plain(object map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the object for match conditions: %w", err)
	}
	decoded, err := jsonvalue.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("decoding the object for match conditions: %w", err)
	}
	fields, _ := decoded.(map[string]any)
	if fields == nil {
		fields = map[string]any{}
	}
	return fields, nil
}
