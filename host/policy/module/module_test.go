package module_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel/wasmtest"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const good = `{"name":"guest","version":"1.0.0","contracts":["v1alpha1"],"points":[{"point":"PodMutation","moments":["Offload"],` +
	`"reads":["/object/spec/containers[*]/image"],"writes":[{"path":"/spec/containers[*]/image","verbs":["set"]}]}]}`

// describing is a module with a manifest and an empty answer at PodMutation.
func describing(manifest string) []byte {
	return policytest.NewGuest().Answers("describe", manifest).Answers("pod_mutation", `{"version":"v1alpha1"}`).Bytes()
}

func newEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.New(t.Context(), engine.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close(context.Background())) })
	return e
}

func load(t *testing.T, raw []byte) (*module.Module, error) {
	t.Helper()
	return module.Load(t.Context(), newEngine(t), raw, module.Options{Name: "mine"})
}

func packGzip(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(data)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func packZstd(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return z.EncodeAll(data, nil)
}

func TestLoad(t *testing.T) {
	wasm := describing(good)
	want := module.Digest(wasm)
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, want)
	for name, raw := range map[string][]byte{"raw": wasm, "gzip": packGzip(t, wasm), "zstd": packZstd(t, wasm)} {
		t.Run(name, func(t *testing.T) {
			m, err := load(t, raw)
			require.NoError(t, err)
			assert.Equal(t, "guest", m.Name())
			assert.Equal(t, want, m.Digest(), "the digest is that of the unpacked bytes")
			var manifest contract.Manifest
			require.NoError(t, json.Unmarshal([]byte(good), &manifest))
			assert.Equal(t, &manifest, m.Manifest())
			output, stats, err := m.Call(t.Context(), "pod_mutation", []byte("{}"))
			require.NoError(t, err)
			assert.JSONEq(t, `{"version":"v1alpha1"}`, string(output))
			assert.Positive(t, stats.Ticks)
			require.NoError(t, m.ValidateSettings(t.Context(), json.RawMessage(`{"any":"thing"}`)), "no validate_settings, no opinion")
			require.NoError(t, m.Close(t.Context()))
			_, _, err = m.Call(t.Context(), "pod_mutation", []byte("{}"))
			require.ErrorIs(t, err, engine.ErrClosed)
		})
	}
}

func TestLoadRefusesBytes(t *testing.T) {
	wasm := describing(good)
	gz, zs := packGzip(t, wasm), packZstd(t, wasm)
	bomb := make([]byte, contract.MaxModuleBytes+1)
	damaged := bytes.Clone(gz)
	damaged[len(damaged)-6] ^= 0xff
	tests := map[string]struct {
		raw  []byte
		want string
	}{
		"nothing":                    {nil, "is empty; the operator must supply its bytes"},
		"text":                       {[]byte("apiVersion: v1"), "not a WebAssembly module"},
		"a shell script":             {[]byte("#!/bin/sh"), "its author must rebuild it"},
		"a module cut in half":       {wasm[:len(wasm)/2], "ends too early"},
		"gzip cut in half":           {gz[:len(gz)/2], "the gzip data is damaged or cut off; the operator must upload"},
		"gzip with a wrong byte":     {damaged, "the gzip data is damaged"},
		"zstd cut in half":           {zs[:len(zs)/2], "the zstd data is damaged or cut off"},
		"gzip of nothing":            {packGzip(t, nil), "the gzip data is empty"},
		"gzip of text":               {packGzip(t, []byte("text")), "not a WebAssembly module"},
		"a write to the fuel":        {writesFuel(), "global 0 does not exist"},
		"a module that is too large": {append([]byte("\x00asm"), bomb...), "larger than 16 MiB"},
		"a gzip bomb":                {packGzip(t, bomb), "larger than 16 MiB"},
		"a zstd bomb":                {packZstd(t, bomb), "larger than 16 MiB"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := load(t, tc.raw)
			var refused *module.Refusal
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, refused.Err, tc.want)
			require.EqualError(t, err, "loading policy module mine: "+refused.Error())
			assert.Nil(t, m)
		})
	}
}

// nothing is the answer of a policy that changes nothing.
const nothing = `{"version":"v1alpha1"}`

func answering(answer string) []byte {
	return policytest.NewGuest().Answers("describe", good).Answers("pod_mutation", answer).Bytes()
}

func TestLoadRefusesModules(t *testing.T) {
	with := func(f func(g *policytest.Guest)) []byte {
		g := policytest.NewGuest()
		f(g)
		return g.Answers("describe", good).Answers("pod_mutation", nothing).Bytes()
	}
	imports := func(f func(m *encode.Module)) []byte {
		m := &encode.Module{}
		f(m)
		return m.Bytes()
	}
	tests := map[string]struct {
		wasm []byte
		// call is the class of a call that fails; empty for a module that is refused without one.
		call engine.Class
		// want is what the author reads.
		want string
	}{
		"the network":       {imports(func(m *encode.Module) { m.Import("wasi:sockets/tcp", "connect", nil, nil) }), "", "imports wasi:sockets/tcp.connect"},
		"an unknown import": {imports(func(m *encode.Module) { m.Import("env", "emscripten_sleep", nil, nil) }), "", "imports env.emscripten_sleep"},
		"an imported global": {imports(func(m *encode.Module) {
			m.ImportRaw("extism:host/env", "global.top", encode.Global, []byte{0x7e, 1})
		}), "", "imports global extism:host/env.global.top"},
		"an imported memory": {imports(func(m *encode.Module) { m.ImportRaw("extism:host/env", "memory", encode.Memory, []byte{0, 1}) }), "", "imports memory extism:host/env.memory"},
		"an imported table":  {imports(func(m *encode.Module) { m.ImportRaw("env", "t", encode.Table, []byte{0x70, 0, 1}) }), "", "imports table env.t"},
		"threads":            {with(func(g *policytest.Guest) { g.Func(nil, nil, nil, 0xfe, 3, 0) }), "", "uses threads"},
		"writing a table": {with(func(g *policytest.Guest) {
			g.Table(1, 1)
			g.Func(nil, nil, nil, encode.Const32(0), 0xd0, 0x70, 0x26, 0)
		}), "", "cannot be reset between calls (table.set in function 3)"},
		"a reserved export": {with(func(g *policytest.Guest) { g.Export("longshore:fuel", encode.Memory, 0) }), "", `exports "longshore:fuel"`},
		"wrong types":       {with(func(g *policytest.Guest) { g.Func(nil, []byte{encode.I32}, nil) }), "", "not valid; its author must rebuild it"},
		"no describe":       {policytest.NewGuest().Answers("pod_mutation", nothing).Bytes(), "", "does not export describe"},
		"describe takes a parameter": {func() []byte {
			g := policytest.NewGuest()
			g.Export("describe", encode.Function, g.Func([]byte{encode.I32}, nil, nil))
			return g.Bytes()
		}(), "", "does not export describe"},
		"describe answers nothing": {func() []byte {
			g := policytest.NewGuest()
			g.Export("describe", encode.Function, g.Func(nil, nil, nil))
			return g.Bytes()
		}(), engine.BadOutput, "describe: "},
		"describe loops": {func() []byte {
			g := policytest.NewGuest()
			g.Export("describe", encode.Function, g.Func(nil, nil, nil, 0x03, 0x40, 0x0c, 0, 0x0b))
			return g.Bytes()
		}(), engine.Timeout, "describe: "},
		"a point without export":          {policytest.NewGuest().Answers("describe", good).Bytes(), "", "declares PodMutation, but the module does not export pod_mutation"},
		"an answer that is not JSON":      {answering("hello"), engine.BadOutput, "warming up: pod_mutation: checking the answer: decoding it: "},
		"an answer of another contract":   {answering(`{"version":"v7"}`), engine.BadOutput, `the contract version is "v7", want "v1alpha1"; the module's author must correct it`},
		"an answer with an unknown field": {answering(`{"version":"v1alpha1","allowed":true}`), engine.BadOutput, `unknown field "allowed"`},
		"an operation without a path":     {answering(`{"version":"v1alpha1","operations":[{"op":"set","value":1}]}`), engine.BadOutput, "checking the answer: reading its operations: "},
		"a warm-up that traps": {func() []byte {
			g := policytest.NewGuest()
			g.Answers("describe", good)
			g.Export("pod_mutation", encode.Function, g.Func(nil, nil, nil, 0x00))
			return g.Bytes()
		}(), engine.Trap, "warming up: pod_mutation: "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tc.wasm)
			if call, called := errors.AsType[*engine.CallError](err); called {
				assert.Equal(t, tc.call, call.Class)
			} else {
				assert.Empty(t, tc.call)
			}
			require.ErrorContains(t, err, "policy module mine: ")
			require.ErrorContains(t, err, tc.want)
			assert.Regexp(t, "author must|author should", err.Error(), "the message names the role that must act")
			assert.Equal(t, 1, strings.Count(err.Error(), "mine"), "the culprit is named once: %s", err)
			assert.True(t, module.AtFault(err), "it would be the same again")
		})
	}
}

func TestLoadRefusesManifests(t *testing.T) {
	edit := func(old, replacement string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, replacement, 1)
	}
	tests := map[string]struct{ manifest, want string }{
		"no JSON":                      {"hello", "decoding JSON"},
		"more than one value":          {good + "{}", "data after the JSON value"},
		"an unknown member":            {edit(`"name"`, `"privileged":true,"name"`), `unknown field "privileged"`},
		"no name":                      {edit(`"guest"`, `""`), "not a DNS label"},
		"a name with capitals":         {edit(`"guest"`, `"Guest"`), "not a DNS label"},
		"a name that is too long":      {edit(`guest`, strings.Repeat("a", 64)), "not a DNS label"},
		"a version that lies":          {edit(`"1.0.0"`, `"1\n2"`), "not printable"},
		"no contract":                  {edit(`["v1alpha1"]`, `[]`), "contracts is empty"},
		"another contract":             {edit(`["v1alpha1"]`, `["v7"]`), "implements contract [v7] and this host [v1alpha1]"},
		"no points":                    {`{"name":"a","version":"1","contracts":["v1alpha1"],"points":[]}`, "points is empty"},
		"an unknown point":             {edit("PodMutation", "Everything"), `point "Everything" is unknown to this host`},
		"a point twice":                {edit(`"points":[`, `"points":[{"point":"PodMutation","reads":[]},`), "declared twice"},
		"an unknown moment":            {edit("Offload", "Lunch"), `moment "Lunch" is unknown`},
		"a moment twice":               {edit(`["Offload"]`, `["Offload","Offload"]`), "listed twice"},
		"a moment at another point":    {edit("PodMutation", "MetadataFilter"), "it has no moments"},
		"a read that is not a pointer": {edit("/object/spec/containers[*]/image", "spec"), "reads: "},
		"a read with an index":         {edit("/object/spec/containers[*]/image", "/object/spec/containers/0"), "index"},
		"a read of everything":         {edit("/object/spec/containers[*]/image", ""), "reads: "},
		"a write with an index":        {edit(`"/spec/containers[*]/image"`, `"/spec/containers/0/image"`), "writes: "},
		"a write without verbs":        {edit(`["set"]`, `[]`), "writes: "},
		"a write with an unknown verb": {edit(`["set"]`, `["copy"]`), `"copy"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, describing(tc.manifest))
			var refused *module.Refusal
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "author must")
		})
	}
}

func TestAWrongSignatureOfValidateSettingsIsRefused(t *testing.T) {
	g := policytest.NewGuest().Answers("describe", good).Answers("pod_mutation", nothing)
	g.Export("validate_settings", encode.Function, g.Func([]byte{encode.I32}, []byte{encode.I32}, nil, encode.Const32(0)))
	_, err := load(t, g.Bytes())
	var refused *module.Refusal
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "the module exports validate_settings, but not as a function without parameters")
}

func TestSettingsThatAreTooDeepAreTheOperatorsError(t *testing.T) {
	m, err := load(t, policytest.NewGuest().Answers("describe", good).Answers("pod_mutation", nothing).Answers("validate_settings", `{"version":"v1alpha1","valid":true}`).Bytes())
	require.NoError(t, err)
	assert.True(t, m.ChecksSettings())
	err = m.ValidateSettings(t.Context(), json.RawMessage(`{"a":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)+`}`))
	var refused *module.SettingsError
	require.ErrorAs(t, err, &refused)
	assert.ErrorContains(t, err, "nested 1001 deep")
}

func TestAModuleWithoutValidateSettingsAcceptsAnySettings(t *testing.T) {
	m, err := load(t, policytest.NewGuest().Answers("describe", good).Answers("pod_mutation", nothing).Bytes())
	require.NoError(t, err)
	assert.False(t, m.ChecksSettings())
	require.NoError(t, m.ValidateSettings(t.Context(), json.RawMessage(`{"a":1}`)))
}

func TestValidateSettings(t *testing.T) {
	tests := map[string]struct {
		answer string
		// settings is why the module refuses the settings.
		settings string
		// refused is why its answer is refused.
		refused string
	}{
		"accepted":                 {answer: `{"version":"v1alpha1","valid":true}`},
		"refused":                  {answer: `{"version":"v1alpha1","valid":false,"message":"registry is required"}`, settings: "registry is required"},
		"refused without a reason": {answer: `{"version":"v1alpha1","valid":false}`, settings: "the module reports no reason, which its author should correct"},
		"another version":          {answer: `{"version":"v9","valid":true}`, refused: `answers in contract "v9"`},
		"an unknown member":        {answer: `{"version":"v1alpha1","valid":true,"also":1}`, refused: `unknown field "also"`},
		"no JSON":                  {answer: `yes`, refused: "is not valid, its author must correct it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := load(t, policytest.NewGuest().Answers("describe", good).Answers("pod_mutation", nothing).Answers("validate_settings", tc.answer).Bytes())
			require.NoError(t, err)
			for _, settings := range []json.RawMessage{nil, json.RawMessage(`{"a":1}`)} {
				err = m.ValidateSettings(t.Context(), settings)
				switch {
				case tc.settings != "":
					assert.Equal(t, &module.SettingsError{Module: "guest", Message: tc.settings}, err)
				case tc.refused != "":
					var refused *module.Refusal
					require.ErrorAs(t, err, &refused)
					require.ErrorContains(t, err, tc.refused)
				default:
					require.NoError(t, err)
				}
			}
		})
	}
	require.EqualError(t, &module.SettingsError{Module: "guest", Message: "registry is required"},
		"policy module guest refuses its settings, the operator must correct them: registry is required")
}

func TestSettingsThatAreNotJSONAreTheOperatorsError(t *testing.T) {
	m, err := load(t, policytest.NewGuest().Answers("describe", good).Answers("pod_mutation", nothing).Answers("validate_settings", `{"version":"v1alpha1","valid":true}`).Bytes())
	require.NoError(t, err)
	var refused *module.SettingsError
	require.ErrorAs(t, m.ValidateSettings(t.Context(), json.RawMessage(`{`)), &refused)
	assert.Contains(t, refused.Message, "not JSON")
}

// An example policy, built as its author builds it, with the SDK only.
func TestExamplePolicy(t *testing.T) {
	wasm := wasmtest.BuildGo(t, "../../../plugins/registryrewrite")
	m, err := load(t, packGzip(t, wasm))
	require.NoError(t, err)
	point := m.Manifest().Points[0].Point
	moment := contract.MomentOffload
	request, err := json.Marshal(contract.Request{
		Version: contract.Version, Point: point, Moment: moment, Settings: json.RawMessage(`{}`),
		Facts: json.RawMessage(`{"object":{"spec":{"containers":[{"name":"web","image":"docker.io/library/nginx:1"}]}}}`),
	})
	require.NoError(t, err)
	first, stats, firstErr := m.Call(t.Context(), point.Export(), request)
	for range 3 {
		output, again, err := m.Call(t.Context(), point.Export(), request)
		assert.Equal(t, firstErr == nil, err == nil)
		assert.Equal(t, string(first), string(output))
		assert.Equal(t, stats.Ticks, again.Ticks)
	}
}

func TestBuiltins(t *testing.T) {
	raw, err := os.ReadFile("../../../builtin-policies/dist/builtin.wasm.gz")
	if os.IsNotExist(err) {
		t.Skip("the built-in module is not compiled: run make builtins")
	}
	require.NoError(t, err)
	m, err := load(t, raw)
	require.NoError(t, err)
	for _, point := range contract.CorePoints() {
		assert.NotNil(t, m.Manifest().For(point), point)
	}
}

// writesFuel is a module that sets a global which only metering adds.
func writesFuel() []byte {
	g := policytest.NewGuest()
	g.Func(nil, nil, nil, encode.Const64(1<<60), encode.GlobalSet(0))
	return g.Answers("describe", good).Bytes()
}
