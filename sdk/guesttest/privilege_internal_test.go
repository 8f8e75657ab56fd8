//go:build !wasip1

package guesttest

import (
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// The rows are those of the host's own tests (host/policy/operation).
func TestAllowedIsAsTheHostSays(t *testing.T) {
	rules := []contract.WriteRule{
		{Path: "/metadata/labels", Verbs: []contract.Verb{contract.VerbMerge, contract.VerbRemove}, Keys: []string{"a", "b"}},
		{Path: "/spec/containers[*]/image", Verbs: []contract.Verb{contract.VerbSet}},
		{Path: "/spec/tolerations", Verbs: []contract.Verb{contract.VerbEnsure}},
	}
	for name, tc := range map[string]struct {
		op   contract.Operation
		want bool
	}{
		"a declared key":              {contract.Remove("/metadata/labels", "a"), true},
		"merge of declared keys":      {contract.Merge("/metadata/labels", contract.StringMap{"a": "1", "b": "2"}), true},
		"one item of all":             {contract.Set("/spec/containers[name=web]/image", contract.String("x")), true},
		"a list":                      {contract.Ensure("/spec/tolerations", contract.Toleration{Key: "a"}), true},
		"a field below":               {contract.Ensure("/spec/tolerations/x", contract.String("y")), true},
		"an undeclared key":           {contract.Remove("/metadata/labels", "a", "c"), false},
		"the whole map of some keys":  {contract.Remove("/metadata/labels"), false},
		"another verb":                {contract.Set("/spec/tolerations", contract.Raw("[]")), false},
		"a parent of what is allowed": {contract.Set("/spec", contract.Raw("{}")), false},
		"items that are not selected": {contract.Ensure("/spec/tolerations[*]/x", contract.String("y")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := allowed(tc.op, rules); got != tc.want {
				t.Fatalf("got %v", got)
			}
		})
	}
}

func TestRenamesIsAsTheHostSays(t *testing.T) {
	for name, tc := range map[string]struct {
		op   contract.Operation
		want bool
	}{
		"the member itself":        {contract.Set("/l[name=x]/name", contract.String("y")), true},
		"an item of another name":  {contract.Set("/l[name=x]", contract.Raw(`{"name":"y"}`)), true},
		"an item without name":     {contract.Set("/l[name=x]", contract.Raw(`{"v":1}`)), true},
		"no item":                  {contract.Set("/l[name=x]", contract.String("x")), true},
		"a merge of another name":  {contract.Merge("/l[name=x]", contract.StringMap{"name": "y"}), true},
		"a removal of the name":    {contract.Remove("/l[name=x]", "name"), true},
		"an item of the same name": {contract.Set("/l[name=x]", contract.Raw(`{"name":"x"}`)), false},
		"a merge of others":        {contract.Merge("/l[name=x]", contract.StringMap{"v": "y"}), false},
		"a removal of the item":    {contract.Remove("/l[name=x]"), false},
		"any name":                 {contract.Set("/l[*]/name", contract.String("y")), false},
		"another member":           {contract.Set("/l[name=x]/v", contract.String("y")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := renames(tc.op); got != tc.want {
				t.Fatalf("got %v", got)
			}
		})
	}
}
