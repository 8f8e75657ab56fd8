package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	"github.com/longshore-dev/longshore/host/policy/compiler"
	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
)

// The test binary is the component's binary, also when it runs itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == compiler.Argument {
		if command(os.Args).ExecuteContext(context.Background()) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestComponentsCompilePoliciesInTheirOwnBinary(t *testing.T) {
	e, err := engine.New(t.Context(), engine.Options{Compiler: compiler.Own()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
	raw, err := builtinpolicies.Module()
	require.NoError(t, err)
	loaded, err := module.Load(t.Context(), e, raw, module.Options{Name: "mine"})
	require.NoError(t, err)
	assert.Equal(t, "longshore-defaults", loaded.Name())

	// A function with many locals, and a table of branches into its loop.
	bomb := &encode.Module{}
	var changes []byte
	for i := range uint64(400) {
		changes = append(changes, encode.Code(encode.Get(i), encode.Const64(1), 0x7c, encode.Set(i))...)
	}
	bomb.Export("describe", encode.Function, bomb.RawFunc(nil, nil, encode.Code(1, encode.Uleb(400), encode.I64,
		0x03, 0x40, changes, encode.Get(0), 0x50, 0x0e, encode.Uleb(3000), make([]byte, 3001), 0x0b, 0x0b)))
	_, err = module.Load(t.Context(), e, bomb.Bytes(), module.Options{Name: "bomb"})
	require.ErrorIs(t, err, engine.ErrBudget)
	assert.True(t, module.AtFault(err))
}

// What the image ships is what a component with the flag's default loads.
func TestPrecompiledPoliciesAreLoaded(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, command([]string{"longshore", "precompile-policies", dir}).ExecuteContext(t.Context()))
	raw, err := builtinpolicies.Module()
	require.NoError(t, err)
	unused := t.TempDir()
	e, err := engine.New(t.Context(), engine.Options{PrecompiledDir: dir, CacheDir: unused})
	require.NoError(t, err)
	_, err = module.Load(t.Context(), e, raw, module.Options{Name: "default", Limits: engine.BuiltIn()})
	require.NoError(t, err)
	require.NoError(t, e.Close(t.Context()))
	entries, err := filepath.Glob(filepath.Join(unused, "*", "*"))
	require.NoError(t, err)
	assert.Empty(t, entries, "nothing was compiled into the cache")
}
