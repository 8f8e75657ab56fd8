// Package policies holds files that take the place of files of host/app/policies in
// servers which only the benchmark builds and runs: `go build -overlay` puts them there,
// so nothing of this is in the product (ADR 1).
package policies

import (
	"context"

	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/native"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/policytest"
)

// loadBuiltIn takes the same decisions as Go functions, without a sandbox. They are given
// the encoded request and encode their answer, as a module is and does.
func loadBuiltIn(context.Context, *engine.Engine) (chain.Policy, error) {
	return policytest.Native(policyv1alpha1.BuiltInDefault, defaults.Manifest(), native.Functions()), nil
}

// Precompile does nothing: native functions need no compilation.
func Precompile(context.Context, string) error { return nil }
