package operation

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// MaxKeys bounds the keys of one remove.
const MaxKeys = 1024

// Operation is a parsed and checked operation of the contract. It is immutable and
// safe for concurrent use.
type Operation struct {
	// Verb of the operation.
	Verb contract.Verb
	// Path of the field that it changes.
	Path Path
	// Keys of a remove, as sent.
	Keys []string

	// value is decoded: an object for merge, a list for ensure.
	value any
	// terms of a require, without empty ones.
	terms []term
}

// Effect is a change that an operation made to a document. It has no values.
type Effect struct {
	Verb contract.Verb
	Path string
	// Keys of the map at Path that were set or removed, sorted; empty when the field itself
	// was.
	Keys []string
}

// DecodeResponse decodes the answer of a policy. It does not compile the operations.
func DecodeResponse(data []byte) (*contract.Response, error) {
	response := &contract.Response{}
	if err := jsonvalue.DecodeStrictly(data, response); err != nil {
		return nil, err
	}
	if response.Version != contract.Version {
		return nil, fmt.Errorf("the contract version is %q, want %q", response.Version, contract.Version)
	}
	return response, nil
}

// Compile parses and checks the operations of one answer. Errors name the operation by
// position, verb and path; the policy's author must fix them.
func Compile(operations []contract.Operation) ([]Operation, error) {
	if len(operations) > contract.MaxOperations {
		return nil, fmt.Errorf("%d operations, more than the allowed %d", len(operations), contract.MaxOperations)
	}
	if len(operations) == 0 {
		return nil, nil
	}
	compiled := make([]Operation, len(operations))
	for i := range operations {
		if err := compiled[i].compile(operations[i]); err != nil {
			return nil, fmt.Errorf("operation %d (%s %s): %w", i, operations[i].Op, operations[i].Path, err)
		}
	}
	return compiled, nil
}

func (o *Operation) compile(source contract.Operation) error {
	path, err := ParsePath(source.Path)
	if err != nil {
		return err
	}
	o.Verb, o.Path = source.Op, path
	if err := o.compileValue(source); err != nil {
		return err
	}
	return o.checkSelectors()
}

// checkSelectors returns an error if the operation changes the member by which its path
// selects items: applying an operation twice must select the same items.
func (o *Operation) checkSelectors() error {
	for i, step := range o.Path.steps {
		if step.Kind != StepMatch {
			continue
		}
		changes := false
		switch last := i == len(o.Path.steps)-1; {
		case !last:
			changes = o.Path.steps[i+1] == Step{Kind: StepKey, Key: step.Key}
		case o.Verb == contract.VerbSet:
			members, _ := o.value.(map[string]any)
			changes = members[step.Key] != step.Value
		case o.Verb == contract.VerbMerge:
			members, _ := o.value.(map[string]any)
			value, has := members[step.Key]
			changes = has && value != step.Value
		case o.Verb == contract.VerbRemove:
			changes = slices.Contains(o.Keys, step.Key)
		}
		if changes {
			return fmt.Errorf("the operation changes %q, by which its path selects items: select them by another member, or by [*]", step.Key)
		}
	}
	return nil
}

func (o *Operation) compileValue(source contract.Operation) error {
	if source.Op == contract.VerbRemove {
		return o.compileRemove(source)
	}
	if len(source.Keys) > 0 {
		return errors.New("keys are allowed for remove only")
	}
	if !slices.Contains(contract.Verbs(), source.Op) {
		return fmt.Errorf("unknown verb %q, want one of %v", source.Op, contract.Verbs())
	}
	if len(source.Value) == 0 {
		return errors.New("value is missing")
	}
	if d := jsonvalue.Depth(source.Value); d > contract.MaxValueDepth {
		return fmt.Errorf("value is nested %d deep, more than %d", d, contract.MaxValueDepth)
	}
	var err error
	if o.value, err = jsonvalue.Decode(source.Value); err != nil {
		return err
	}
	switch source.Op {
	case contract.VerbMerge:
		return o.checkMerge()
	case contract.VerbEnsure:
		return o.checkEnsure()
	case contract.VerbRequire:
		o.terms, err = parseTerms(o.value)
		return err
	default:
		if o.value == nil {
			return errors.New("value is null: use remove to remove a field")
		}
		return nil
	}
}

func (o *Operation) compileRemove(source contract.Operation) error {
	if len(source.Value) > 0 {
		return errors.New("remove takes no value")
	}
	if len(source.Keys) > MaxKeys {
		return fmt.Errorf("%d keys, more than the allowed %d", len(source.Keys), MaxKeys)
	}
	if slices.Contains(source.Keys, "") {
		return errors.New("a key is empty")
	}
	o.Keys = slices.Compact(slices.Sorted(slices.Values(source.Keys)))
	return nil
}

func (o *Operation) checkMerge() error {
	members, ok := o.value.(map[string]any)
	if !ok {
		return errors.New("the value of a merge must be an object")
	}
	for key, value := range members {
		if key == "" {
			return errors.New("a key is empty")
		}
		if value == nil {
			return fmt.Errorf("the value of key %q is null: use remove to remove a key", key)
		}
	}
	return nil
}

func (o *Operation) checkEnsure() error {
	items, ok := o.value.([]any)
	if !ok {
		return errors.New("the value of an ensure must be a list")
	}
	if slices.Contains(items, nil) {
		return errors.New("an item is null")
	}
	return nil
}

// mergeKeys returns the keys that a merge sets, sorted.
func (o *Operation) mergeKeys() []string {
	members, _ := o.value.(map[string]any)
	return slices.Sorted(maps.Keys(members))
}
