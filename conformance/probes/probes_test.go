package probes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

var update = flag.Bool("update", false, "write what happens to the golden files")

// golden holds a text against the file beside the probe.
func golden(t *testing.T, file, got string) {
	t.Helper()
	got += "\n"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run with -update to record")
	assert.Equal(t, string(want), got)
}

func newEngine(t *testing.T, cache string, log func(engine.Line)) *engine.Engine {
	t.Helper()
	e, err := engine.New(t.Context(), engine.Options{CacheDir: cache, Log: log})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
	return e
}

// question is a request of at least so many bytes about a pod with these labels.
func question(bytes int, labels string) []byte {
	return fmt.Appendf(nil, `{"version":"v1alpha1","point":"PodMutation","moment":"Admission","facts":{"object":{"metadata":{"name":%q,"labels":{%s}}}}}`,
		strings.Repeat("n", bytes), labels)
}

// onlyFuel ends calls after the same instructions on each machine, not for their time.
var onlyFuel = engine.Limits{Fuel: 1_000_000, Time: time.Hour}

// onlyTime ends calls for their time on each machine, also on one whose processor is fast with what
// is slow on others (subnormal numbers).
var onlyTime = engine.Limits{Fuel: 1 << 40}

// outcome is what the author of a module reads: why it does not load, why a call failed,
// what is wrong with its answer; or the answer, of a probe that looks around.
func outcome(t *testing.T, e *engine.Engine, wasm, request []byte) string {
	t.Helper()
	m, err := module.Load(t.Context(), e, wasm, module.Options{Name: "probe", Limits: onlyFuel})
	if err != nil {
		return "refused at load: " + err.Error()
	}
	defer func() { assert.NoError(t, m.Close(t.Context())) }()
	result := call(t, m, request)
	for range 3 {
		assert.Equal(t, result, call(t, m, request), "a call knows nothing of the calls before it")
		// The next request to another module is answered.
		output, _, err := m.Call(t.Context(), contract.PodMutation.Export(), question(0, ""))
		require.NoError(t, err)
		assert.JSONEq(t, `{"version":"v1alpha1"}`, string(output))
	}
	return result
}

func call(t *testing.T, m *module.Module, request []byte) string {
	t.Helper()
	output, _, err := m.Call(t.Context(), contract.PodMutation.Export(), request)
	var failed *engine.CallError
	switch {
	case errors.As(err, &failed):
		assert.NotContains(t, err.Error(), "\n", "an error is one sentence")
		return string(failed.Class) + ": " + err.Error()
	case err != nil:
		return "error: " + err.Error()
	case output[0] == '"':
		return "answers " + string(output)
	}
	chains := chain.New(chain.Options{MemoEntries: -1})
	require.NoError(t, chains.Swap([]chain.Binding{{Name: "probe", Policy: m, Point: contract.PodMutation}}))
	object := map[string]any{"metadata": map[string]any{"name": strings.Repeat("n", 2*LongQuestion)}, "spec": map[string]any{}}
	_, err = chains.Evaluate(t.Context(), chain.Input{Point: contract.PodMutation, Moment: contract.MomentAdmission, Object: object})
	require.Error(t, err, "the answer %s was taken", output)
	var refused *chain.PolicyError
	require.ErrorAs(t, err, &refused)
	return "bad answer: " + refused.Err.Error()
}

// Each probe ends exactly as in its want.txt, three times in a row, and the
// module goes on answering others.
func TestProbes(t *testing.T) {
	all, err := All()
	require.NoError(t, err)
	require.Greater(t, len(all), 60)
	e := newEngine(t, "", nil)
	for _, p := range all {
		t.Run(p.Name, func(t *testing.T) {
			assert.NotEmpty(t, p.About, "a probe has a description")
			golden(t, filepath.Join(p.Name, "want.txt"), outcome(t, e, p.Wasm, question(LongQuestion, "")))
		})
	}
}

// The message of a Go program that gives up reaches the author.
func TestGoReportsTheReason(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a Go runtime")
	}
	wasm, err := toolchain.Go(t.Context(), "golang")
	require.NoError(t, err)
	e := newEngine(t, t.TempDir(), nil)
	for _, way := range []string{"panic", "error", "nil", "index", "map", "deadlock", "exit", "exit0", "reported", "loop", "recurse", "memory"} {
		t.Run(way, func(t *testing.T) {
			golden(t, filepath.Join("golang", way+".txt"), outcome(t, e, wasm, question(LongQuestion, fmt.Sprintf(`"probe":%q`, way))))
		})
	}
}

func TestCReportsTheReason(t *testing.T) {
	source, err := files.ReadFile("ctrap/probe.c")
	require.NoError(t, err)
	wasm, err := toolchain.C(t.Context(), source)
	toolchain.Need(t, err)
	e := newEngine(t, "", nil)
	golden(t, filepath.Join("ctrap", "silent.txt"), outcome(t, e, wasm, question(LongQuestion, "")))
	golden(t, filepath.Join("ctrap", "reported.txt"), outcome(t, e, wasm, question(5000, "")))
}

func TestAssemblyScriptReportsTheReason(t *testing.T) {
	tree, err := fs.Sub(files, "asabort")
	require.NoError(t, err)
	wasm, err := toolchain.AssemblyScript(t.Context(), guests.Pinned{FS: tree}, "probe", "probe/stop")
	toolchain.Need(t, err)
	golden(t, filepath.Join("asabort", "want.txt"), outcome(t, newEngine(t, "", nil), wasm, question(LongQuestion, "")))
}

func TestRustReportsTheReason(t *testing.T) {
	source, err := files.ReadFile("rspanic/probe.rs")
	require.NoError(t, err)
	wasm, err := toolchain.Rust(t.Context(), source)
	toolchain.Need(t, err)
	e := newEngine(t, "", nil)
	golden(t, filepath.Join("rspanic", "reported.txt"), outcome(t, e, wasm, question(LongQuestion, "")))
	golden(t, filepath.Join("rspanic", "memory.txt"), outcome(t, e, wasm, question(5000, "")))
}

// What is too large is refused before it is unpacked, copied or called.
func TestTooLarge(t *testing.T) {
	all, err := All()
	require.NoError(t, err)
	e := newEngine(t, "", nil)
	for _, p := range all {
		if p.Name != "noanswer" {
			continue
		}
		m, err := module.Load(t.Context(), e, p.Wasm, module.Options{Name: "probe"})
		require.NoError(t, err)
		_, _, err = m.Call(t.Context(), contract.PodMutation.Export(), question(contract.MaxRequestBytes, ""))
		require.ErrorIs(t, err, engine.Memory)
		require.EqualError(t, err, "pod_mutation: the request is too large: it has 1048697 bytes, more than 1048576")
		require.NoError(t, m.Close(t.Context()))
	}
	// A jump to the outermost block in each of so many cases.
	table := func(cases int) []byte {
		return encode.Code(encode.Get(0), 0x0e, encode.Uleb(uint64(cases)), make([]byte, cases+1))
	}
	for name, body := range map[string][]byte{
		"many small jump tables": encode.Code(0x02, 0x40, slices.Repeat(table(19), 500), 0x0b), "one giant jump table": table(10_000),
	} {
		t.Run(name, func(t *testing.T) {
			m := &encode.Module{}
			m.Func([]byte{encode.I32}, nil, nil, body)
			_, err := module.Load(t.Context(), e, m.Bytes(), module.Options{Name: "probe"})
			require.ErrorContains(t, err, "the module; its author must rebuild it")
		})
	}
}
