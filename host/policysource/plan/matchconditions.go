package plan

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
	// conditionInterrupt is the number of steps of a comprehension between two checks of the
	// context.
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

// compileConditions compiles spec.match.matchConditions. It returns those that compile, and
// the problem of the first that does not.
func compileConditions(declared []policyv1alpha1.MatchCondition) ([]condition, *Problem) {
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
		return nil, Invalid("preparing CEL: %w; this is a bug of Longshore", err)
	}
	var out []condition
	var problem *Problem
	for i := range declared {
		program, invalid := compileCondition(env, &declared[i])
		if problem = cmp.Or(problem, invalid); invalid == nil {
			out = append(out, condition{name: declared[i].Name, program: program})
		}
	}
	return out, problem
}

func compileCondition(env *cel.Env, declared *policyv1alpha1.MatchCondition) (cel.Program, *Problem) {
	where := fmt.Sprintf("spec.match.matchConditions[%q]", declared.Name)
	ast, issues := env.Compile(declared.Expression)
	if err := issues.Err(); err != nil {
		return nil, Invalid("%s does not compile, the operator must correct it: %w", where, err)
	}
	if kind := ast.OutputType(); !kind.IsExactType(cel.BoolType) {
		return nil, Invalid("%s is of type %s: the operator must make it an expression of type bool", where, kind)
	}
	program, err := env.Program(ast, cel.CostLimit(maxConditionCost), cel.InterruptCheckFrequency(conditionInterrupt))
	if err != nil {
		return nil, Invalid("%s cannot be evaluated, the operator must correct it: %w", where, err)
	}
	return program, nil
}

// meetsConditions reports whether all conditions are true. A condition that cannot be
// evaluated is a failure of the policy, unless another one is false.
func (m *matcher) meetsConditions(ctx context.Context, a chain.Attributes) (bool, error) {
	if len(m.conditions) == 0 {
		return true, nil
	}
	object, err := jsonFields(a.Object)
	if err != nil {
		return false, err
	}
	var readErr error
	variables := map[string]any{
		conditionObject:      object,
		conditionVirtualNode: a.VirtualNode,
		conditionNamespace: func() any {
			var set map[string]string
			set, readErr = m.namespaceLabels(ctx, a)
			return map[string]any{"metadata": map[string]any{"name": a.Namespace, "labels": set}}
		},
	}
	var failed error
	for i := range m.conditions {
		value, _, err := m.conditions[i].program.ContextEval(ctx, variables)
		switch {
		case ctx.Err() != nil:
			return false, fmt.Errorf("evaluating spec.match.matchConditions[%q]: %w", m.conditions[i].name, ctx.Err())
		case readErr != nil:
			return false, readErr
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("evaluating spec.match.matchConditions[%q]: %w", m.conditions[i].name, err))
		case value.Value() == false:
			return false, nil
		}
	}
	return failed == nil, failed
}

// jsonFields returns an object in the types that CEL has for JSON. Callers may pass Go
// values.
func jsonFields(object map[string]any) (map[string]any, error) {
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
