package guests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

var cache string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if cache, err = os.MkdirTemp("", "guests-test-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(cache)
		return m.Run()
	}())
}

// each runs a test with every small guest for which a compiler is installed.
func each(t *testing.T, test func(t *testing.T, g *guests.Guest, wasm []byte)) {
	t.Helper()
	for _, g := range guests.All() {
		if g.Small {
			t.Run(g.Name, func(t *testing.T) { test(t, &g, g.Wasm(t)) })
		}
	}
}

// Guests with a language's runtime are compiled for seconds, again and again.
func TestLongGuestsWithARuntime(t *testing.T) {
	for _, g := range guests.All() {
		if g.Small {
			continue
		}
		wasm := g.Wasm(t)
		for name, test := range map[string]func(*testing.T, *guests.Guest, []byte){
			"answer alike": answersAlike, "refuse half a pair of surrogates": refusesHalfAPairOfSurrogates, "answer like in Extism": answersLikeInExtism,
			"answer the same with metering": answersTheSameWithMetering, "are frugal": isFrugal, "are damaged": damagedNothingChanges,
		} {
			t.Run(g.Name+"/"+name, func(t *testing.T) { test(t, &g, wasm) })
		}
	}
}

func longshore(tb testing.TB, wasm []byte) *suite.Longshore {
	tb.Helper()
	host, err := suite.NewLongshore(tb.Context(), wasm, suite.Options{CacheDir: cache})
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, host.Close(context.WithoutCancel(tb.Context()))) })
	return host
}

func oracle(tb testing.TB, wasm []byte) *suite.Oracle {
	tb.Helper()
	host, err := suite.NewOracle(tb.Context(), wasm)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, host.Close(context.WithoutCancel(tb.Context()))) })
	return host
}

// request is what the host sends for a pod with this spec.
func request(spec string) string {
	return `{"version":"v1alpha1","point":"PodMutation","moment":"Admission","facts":{"object":{"metadata":{},"spec":` + spec + `}}}`
}

const nothing = `{"version":"v1alpha1"}`

func tolerates(kind string) string {
	return `{"version":"v1alpha1","operations":[{"op":"ensure","path":"/spec/tolerations",` +
		`"value":[{"key":"accelerator","operator":"Equal","value":` + kind + `,"effect":"NoSchedule"}]}]}`
}

// questions are requests, and the answer, which is empty where all refuse them.
var questions = map[string]struct{ request, want string }{
	"no selector":                   {request(`{}`), nothing},
	"another selector":              {request(`{"nodeSelector":{"disk":"fast"}}`), nothing},
	"the selector":                  {request(`{"nodeSelector":{"accelerator":"tpu"}}`), tolerates(`"tpu"`)},
	"the selector among others":     {request(`{"nodeSelector":{"a":"b","accelerator":"tpu","z":"accelerator"}}`), tolerates(`"tpu"`)},
	"an escaped value":              {request(`{"nodeSelector":{"accelerator":"a\"\\\u00e9b"}}`), tolerates(`"a\"\\éb"`)},
	"escapes of all kinds":          {request(`{"nodeSelector":{"accelerator":"\b\f\n\r\t\/\"\u20ac\u007f"}}`), tolerates(`"\b\f\n\r\t/\"€\u007f"`)},
	"a pair of surrogates":          {request(`{"nodeSelector":{"accelerator":"\ud83d\ude00"}}`), tolerates(`"😀"`)},
	"a name that comes twice":       {request(`{"nodeSelector":{"accelerator":"first","accelerator":"last"}}`), tolerates(`"last"`)},
	"text beyond ASCII":             {request(`{"nodeSelector":{"accelerator":"größe"}}`), tolerates(`"größe"`)},
	"white space everywhere":        {" {\"version\" : \"v1alpha1\" ,\n\t\"point\":\"PodMutation\",\"moment\":\"Admission\",\r\n\"facts\": { \"object\" : { \"spec\" : { \"nodeSelector\" : { \"accelerator\" : \"tpu\" } } } } } ", tolerates(`"tpu"`)},
	"the name at another place":     {request(`{"accelerator":"tpu","tolerations":[{"key":"accelerator"}],"nodeSelector":{}}`), nothing},
	"a name that begins alike":      {request(`{"nodeSelector":{"accelerators":"x","acceler":"y"}}`), nothing},
	"other members of all kinds":    {request(`{"x":[1,-2.5e+3,0,true,false,null,{"y":[[]],"z":{}}],"nodeSelector":{"accelerator":"tpu"}}`), tolerates(`"tpu"`)},
	"a large pod":                   {request(`{"containers":[` + strings.Repeat(`{"name":"c","env":[{"name":"A","value":"`+strings.Repeat("x", 300)+`"}]},`, 20) + `{"name":"l"}],"nodeSelector":{"accelerator":"tpu"}}`), tolerates(`"tpu"`)},
	"nothing at all":                {" ", ""},
	"cut in half":                   {request(`{"nodeSelector":{"accel`)[:120], ""},
	"more behind it":                {request(`{}`) + "{}", ""},
	"a comma too many":              {request(`{"a":1,}`), ""},
	"a value without name":          {request(`{1:2}`), ""},
	"a word that is none":           {request(`{"a":nul}`), ""},
	"a number that begins with 0":   {request(`{"a":012}`), ""},
	"a number without digits":       {request(`{"a":-}`), ""},
	"a string that does not end":    {request(`{}`) + `"`, ""},
	"a control character":           {request("{\"a\":\"\x01\"}"), ""},
	"a string cut by the escape":    {request(`{"a":"\`), ""},
	"an unknown escape":             {request(`{"a":"\x"}`), ""},
	"an escape that is cut":         {request(`{"a":"\u00g0"}`), ""},
	"nested too deep":               {request(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)), ""},
	"the selector is a number":      {request(`{"nodeSelector":{"accelerator":1}}`), ""},
	"the selector is an object":     {request(`{"nodeSelector":{"accelerator":{}}}`), ""},
	"a tail of one byte behind 8":   {request(`{"nodeSelector":{"accelerator":"1"}}`), tolerates(`"1"`)},
	"a tail of two bytes behind 8":  {request(`{"nodeSelector":{"accelerator":"12"}}`), tolerates(`"12"`)},
	"a tail of four bytes behind 8": {request(`{"nodeSelector":{"accelerator":"1234"}}`), tolerates(`"1234"`)},
}

// Every guest answers as the others do, in our host; a bad request is its error.
func TestGuestsAnswerAlike(t *testing.T) { each(t, answersAlike) }

func answersAlike(t *testing.T, _ *guests.Guest, wasm []byte) {
	t.Helper()
	host := longshore(t, wasm)
	assert.Equal(t, "accelerator", host.Manifest().Name)
	for name, tc := range questions {
		t.Run(name, func(t *testing.T) {
			output, err := host.Call(t.Context(), contract.PodMutation.Export(), []byte(tc.request))
			if tc.want == "" {
				require.ErrorIs(t, err, engine.Guest)
				return
			}
			require.NoError(t, err)
			assert.JSONEq(t, tc.want, string(output))
			var response contract.Response
			require.NoError(t, json.Unmarshal(output, &response))
		})
	}
}

// The SDKs refuse text that is not Unicode, so that a policy never answers with it.
func TestSDKsRefuseHalfAPairOfSurrogates(t *testing.T) { each(t, refusesHalfAPairOfSurrogates) }

func refusesHalfAPairOfSurrogates(t *testing.T, g *guests.Guest, wasm []byte) {
	t.Helper()
	if g.Name == "text" {
		return // it has no SDK, and copies what it was sent
	}
	host := longshore(t, wasm)
	for _, half := range []string{`\ud83d`, `\ude00`, `\ud83d\u0041`, `\ud83d\ud83d`} {
		_, err := host.Call(t.Context(), contract.PodMutation.Export(), []byte(request(`{"nodeSelector":{"accelerator":"a`+half+`b"}}`)))
		assert.ErrorIs(t, err, engine.Guest, half)
	}
}

// Stock extism/go-sdk is the oracle: same module, same input, same bytes, the same
// words when the module refuses.
func TestGuestsAnswerLikeInExtism(t *testing.T) { each(t, answersLikeInExtism) }

func answersLikeInExtism(t *testing.T, g *guests.Guest, wasm []byte) {
	t.Helper()
	ours, stock := longshore(t, wasm), oracle(t, wasm)
	output, err := stock.Call(t.Context(), contract.ExportDescribe, nil)
	require.NoError(t, err)
	var manifest contract.Manifest
	require.NoError(t, json.Unmarshal(output, &manifest))
	assert.Equal(t, ours.Manifest(), &manifest)
	for name, tc := range questions {
		t.Run(name, func(t *testing.T) {
			stock := stock
			if g.Small {
				// A fresh one for each question, as ours is: these keep what they found.
				stock = oracle(t, wasm)
			}
			got, gotErr := ours.Call(t.Context(), contract.PodMutation.Export(), []byte(tc.request))
			want, wantErr := stock.Call(t.Context(), contract.PodMutation.Export(), []byte(tc.request))
			if wantErr != nil {
				require.Error(t, gotErr)
				words := wantErr.Error()
				words = words[strings.LastIndex(words, ": ")+2:]
				assert.ErrorContains(t, gotErr, words)
				return
			}
			require.NoError(t, gotErr)
			assert.Equal(t, string(want), string(got))
		})
	}
}

var names = fuel.Names{Fuel: engine.FuelExport, Stack: engine.StackExport, RefuelModule: engine.RefuelModule, Refuel: engine.RefuelFunction, Globals: engine.GlobalExports, Memory: engine.MemoryExport, Start: engine.StartExport}

// With charges and without, the same module answers with the same bytes; with charges,
// a question costs the same whenever and wherever it is asked.
func TestMeteringChangesNothing(t *testing.T) { each(t, answersTheSameWithMetering) }

func answersTheSameWithMetering(t *testing.T, _ *guests.Guest, wasm []byte) {
	t.Helper()
	parsed, err := fuel.Parse(wasm)
	require.NoError(t, err)
	metered, err := parsed.Meter(names)
	require.NoError(t, err)
	exposed, err := parsed.Expose(names)
	require.NoError(t, err)
	var modules []*engine.Module
	for n, rewritten := range []*fuel.Rewritten{metered, exposed, metered} {
		e, err := engine.New(t.Context(), engine.Options{CacheDir: cache})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
		m, err := e.Compile(t.Context(), fmt.Sprint("module", n), rewritten.Wasm, engine.Limits{})
		require.NoError(t, err)
		modules = append(modules, m)
	}
	for name, tc := range questions {
		t.Run(name, func(t *testing.T) {
			want, _, wantErr := modules[1].Call(t.Context(), contract.PodMutation.Export(), []byte(tc.request))
			var ticks uint64
			for _, m := range []*engine.Module{modules[0], modules[2], modules[0]} {
				got, stats, gotErr := m.Call(t.Context(), contract.PodMutation.Export(), []byte(tc.request))
				assert.Equal(t, string(want), string(got))
				assert.Equal(t, wantErr == nil, gotErr == nil)
				if ticks == 0 {
					ticks = stats.Ticks
				}
				assert.Positive(t, stats.Ticks)
				assert.Equal(t, ticks, stats.Ticks)
			}
		})
	}
}

// A guest of a kilobyte answers with kilobytes of fuel: what limits are measured by.
func TestGuestsAreFrugal(t *testing.T) { each(t, isFrugal) }

func isFrugal(t *testing.T, _ *guests.Guest, wasm []byte) {
	t.Helper()
	e, err := engine.New(t.Context(), engine.Options{CacheDir: cache})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
	m, err := module.Load(t.Context(), e, wasm, module.Options{Name: "guest"})
	require.NoError(t, err)
	_, stats, err := m.Call(t.Context(), contract.PodMutation.Export(), []byte(questions["a large pod"].request))
	require.NoError(t, err)
	assert.Less(t, stats.Ticks, uint64(contract.DefaultFuel/10), "a pod of 7 KB takes a small part of the fuel")
	for range 10 {
		for _, tc := range questions {
			_, _, _ = m.Call(t.Context(), contract.PodMutation.Export(), []byte(tc.request))
		}
	}
	// The two largest requests may grow a memory, which costs the instance.
	assert.LessOrEqual(t, m.Pool().Dropped, uint64(20), "an ordinary call, or an error that is reported, leaves an instance that can be used again")
}
