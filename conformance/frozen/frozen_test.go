package frozen_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// digests are those of the modules. A change of a frozen module is a broken promise: add
// another module instead.
var digests = map[string]string{
	"all": "a4ce60fb7b383453ae020f203d1d2aa1cbd9b621a6eea6a8aa792709bd8e079e", "current": "94dd58a023a385cca8e2b59504c286767d6c18c5b197c1aae75488308abf69be", "next": "0a56fbe99509c93a474b854deb04bcb5e6cf756d68b9bb2b847608192c66b459", "next-answer": "cb153e4ff8dad74671af928d3dbfa1560f02daf38e5c9c941c722b0a9d616355",
	"next-import": "658eb0754e305a45b33afe67f5fe60bdf935e1fdd59b4a78cf906bb831b2988a", "next-manifest": "8899bca12a48c4946c0925cad873c168f01babea933ed181012b152fce6d2f4c", "next-point": "b4a46582e4f754793901ed099da5bbe61ab77fdf3b79bd63234ae80b5cf959b6",
	"next-version": "fa68d7c61285854216df2ce467dd72639ea5abeb75acf53efcb6d254596fc161", "previous": "ff4ecf260c5ee969563ab057f6b06b2f3ace79a7b3fc3b3c69b552f6aea58a06",
}

// outcomes are why this host refuses each module, or "". docs/reference/abi.md has them, word by word.
var outcomes = map[string]string{
	"current":       "",
	"all":           "",
	"previous":      "the module implements contract [v1alpha0] and this host [v1alpha1]; its author must rebuild it with a matching SDK, or the operator must run a matching host",
	"next":          "the module implements contract [v1alpha2] and this host [v1alpha1]; its author must rebuild it with a matching SDK, or the operator must run a matching host",
	"next-point":    `point "NodeMutation" is unknown to this host`,
	"next-manifest": `unknown field "budget"`,
	"next-import":   "object_digest",
	"next-answer":   `unknown field "confidence"`,
	"next-version":  `v1alpha2`,
}

func TestModulesOfOtherContracts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("modules", "*.wasm"))
	require.NoError(t, err)
	require.Len(t, files, len(outcomes))
	runtime, err := engine.New(t.Context(), engine.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, runtime.Close(context.WithoutCancel(t.Context()))) })
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".wasm")
		t.Run(name, func(t *testing.T) {
			wasm, err := os.ReadFile(file)
			require.NoError(t, err)
			sum := sha256.Sum256(wasm)
			assert.Equal(t, digests[name], hex.EncodeToString(sum[:]), "the module is frozen")
			assert.Less(t, len(wasm), 100_000)
			refusal := outcomes[name]
			loaded, err := module.Load(t.Context(), runtime, wasm, module.Options{Name: name})
			if refusal != "" {
				require.ErrorContains(t, err, refusal)
				assert.True(t, module.AtFault(err), "components do not load it again")
				return
			}
			require.NoError(t, err)
			defer func() { assert.NoError(t, loaded.Close(t.Context())) }()
			object, err := evaluate(t, loaded)
			require.NoError(t, err)
			assert.Equal(t, map[string]any{"app": "web", "frozen": "yes"}, object["metadata"].(map[string]any)["labels"])
		})
	}
}

// evaluate asks a module about an object with fields of a Kubernetes and facts of a contract that its
// author did not know.
func evaluate(t *testing.T, loaded chain.Policy) (map[string]any, error) {
	t.Helper()
	chains := chain.New(chain.Options{MemoEntries: -1})
	require.NoError(t, chains.Swap([]chain.Binding{{Name: "frozen", Policy: loaded, Point: contract.PodMutation}}))
	result, err := chains.Evaluate(t.Context(), chain.Input{
		Point: contract.PodMutation, Moment: contract.MomentAdmission, Facts: map[string]any{"weather": "rain"},
		Object: map[string]any{"metadata": map[string]any{"name": "web", "labels": map[string]any{"app": "web"}}, "spec": map[string]any{"futureField": true}},
	})
	if err != nil {
		return nil, err
	}
	return result.Object, nil
}

// A later host serves its own contract and this one: the version that both know is used.
func TestALaterHostServesTheOlderContract(t *testing.T) {
	later := []string{"v1alpha2", contract.Version}
	for name, tc := range map[string]struct {
		module []string
		want   string
	}{
		"a module of this contract":   {[]string{contract.Version}, contract.Version},
		"a module of both":            {[]string{contract.Version, "v1alpha2"}, "v1alpha2"},
		"a module of the later one":   {[]string{"v1alpha2"}, "v1alpha2"},
		"a module of an earlier one":  {[]string{"v1alpha0"}, ""},
		"a module after the next one": {[]string{"v1alpha3"}, ""},
	} {
		got, ok := contract.Negotiate(later, tc.module)
		assert.Equal(t, tc.want, got, name)
		assert.Equal(t, tc.want != "", ok, name)
	}
}

func TestThePageOfTheABISaysSo(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "abi.md"))
	require.NoError(t, err)
	for name, outcome := range outcomes {
		assert.Contains(t, string(page), "`"+name+".wat`")
		assert.Contains(t, string(page), outcome, name)
	}
}
