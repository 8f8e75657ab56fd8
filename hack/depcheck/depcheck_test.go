// Package depcheck keeps the import rules that a linter cannot: the transitive
// ones. depguard sees direct imports only.
package depcheck

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/longshore-dev/longshore"

type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

// graph lists every package below the patterns, with all dependencies.
func graph(t *testing.T, dir string, patterns ...string) map[string]goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-json=ImportPath,Standard,Imports"}, patterns...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		require.NoError(t, err, string(exit.Stderr))
	}
	require.NoError(t, err)
	packages := map[string]goPackage{}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages[p.ImportPath] = p
	}
}

// pathTo returns an import chain from one of the roots to a package that the
// predicate refuses, or nil.
func pathTo(packages map[string]goPackage, roots []string, refused func(goPackage) bool) []string {
	seen := map[string]bool{}
	var visit func(name string, chain []string) []string
	visit = func(name string, chain []string) []string {
		if seen[name] {
			return nil
		}
		seen[name] = true
		p := packages[name]
		chain = append(chain, name)
		if refused(p) {
			return append([]string(nil), chain...)
		}
		for _, next := range p.Imports {
			if found := visit(next, chain); found != nil {
				return found
			}
		}
		return nil
	}
	sort.Strings(roots)
	for _, root := range roots {
		if found := visit(root, nil); found != nil {
			return found
		}
	}
	return nil
}

func below(packages map[string]goPackage, prefix string) []string {
	var names []string
	for name := range packages {
		if name == prefix || strings.HasPrefix(name, prefix+"/") {
			names = append(names, name)
		}
	}
	return names
}

// isKubernetes reports whether a package is Kubernetes'. Its JSON reader needs the standard library only.
func isKubernetes(p goPackage) bool {
	return !strings.HasPrefix(p.ImportPath, "sigs.k8s.io/json") && (strings.HasPrefix(p.ImportPath, "k8s.io/") || strings.HasPrefix(p.ImportPath, "sigs.k8s.io/"))
}

func TestTransitiveImports(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	packages := graph(t, root, "./...")
	own := func(p goPackage) bool { return strings.HasPrefix(p.ImportPath, modulePath) }
	cases := map[string]struct {
		roots   string
		refused func(goPackage) bool
	}{
		"the policy engine contains nothing of Kubernetes": {"/host/policy/engine", isKubernetes},
		"the module loader contains nothing of Kubernetes": {"/host/policy/module", isKubernetes},
		"the chain contains nothing of Kubernetes":         {"/host/policy/chain", isKubernetes},
		"fuel metering needs the standard library only": {"/host/policy/fuel", func(p goPackage) bool {
			return !p.Standard && !strings.HasPrefix(p.ImportPath, modulePath+"/host/policy/fuel")
		}},
		"the built-in policies contain nothing of Kubernetes": {"/builtin-policies", isKubernetes},
		"built-in policies need the contract and the standard library only": {"/builtin-policies", func(p goPackage) bool {
			return !p.Standard && !own(p)
		}},
		"the conformance suite validates objects and reaches no cluster": {"/conformance/suite", func(p goPackage) bool {
			return p.ImportPath == "k8s.io/client-go/kubernetes" || strings.HasPrefix(p.ImportPath, "sigs.k8s.io/controller-runtime")
		}},
		"host/apis never reaches a client": {"/host/apis", func(p goPackage) bool {
			return strings.HasPrefix(p.ImportPath, "k8s.io/client-go") || strings.HasPrefix(p.ImportPath, "sigs.k8s.io/controller-runtime")
		}},
		"the consumer never imports the provider": {"/host/consumer", func(p goPackage) bool {
			return strings.HasPrefix(p.ImportPath, modulePath+"/host/provider")
		}},
		"the provider never imports the consumer": {"/host/provider", func(p goPackage) bool {
			return strings.HasPrefix(p.ImportPath, modulePath+"/host/consumer")
		}},
		"the server binary does not contain the conformance launcher": {"/cmd/longshore", func(p goPackage) bool {
			return strings.HasPrefix(p.ImportPath, modulePath+"/conformance")
		}},
		"the server binary has no policies outside the sandbox": {"/cmd/longshore", func(p goPackage) bool {
			return p.ImportPath == modulePath+"/host/policy/policytest" || p.ImportPath == modulePath+"/builtin-policies/native"
		}},
		"the server binary does not contain extism/go-sdk": {"/cmd/longshore", func(p goPackage) bool {
			return strings.HasPrefix(p.ImportPath, "github.com/extism/")
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			roots := below(packages, modulePath+tc.roots)
			require.NotEmpty(t, roots, "no package below %s", tc.roots)
			chain := pathTo(packages, roots, tc.refused)
			assert.Empty(t, chain, "import path that breaks the rule:\n  %s", strings.Join(chain, "\n  → "))
		})
	}
}

// required returns the versions that the go.mod of a module requires.
func required(t *testing.T, dir string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err)
	var mod struct {
		Require []struct{ Path, Version string }
	}
	require.NoError(t, json.Unmarshal(out, &mod))
	versions := map[string]string{}
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
	}
	return versions
}

func TestTheProductRequiresNoModuleOfItsTooling(t *testing.T) {
	product := required(t, filepath.Join("..", ".."))
	for name := range product {
		assert.NotRegexp(t, `^(helm\.sh|github\.com/VictoriaMetrics|k8s\.io/(kubernetes|kubectl))/?`, name, "it belongs to hack/demo or conformance/testplane/kubernetes")
	}
}

// Packages of one version are compiled once for both modules.
func TestTheDemoRequiresTheVersionsOfTheProduct(t *testing.T) {
	product, demo := required(t, filepath.Join("..", "..")), required(t, filepath.Join("..", "demo"))
	require.Contains(t, demo, "k8s.io/client-go")
	for name, version := range product {
		if other, ok := demo[name]; ok {
			assert.Equal(t, version, other, name)
		}
	}
}

func TestForgingIsPure(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	packages := graph(t, root, "./host/forge/...")
	// Apply configurations are plain data, but one function beside them takes a discovery
	// client: what they import is not forge's doing.
	const data = "k8s.io/client-go/applyconfigurations/"
	for name, p := range packages {
		if strings.HasPrefix(name, data) {
			p.Imports = nil
			packages[name] = p
		}
	}
	chain := pathTo(packages, below(packages, modulePath+"/host/forge"), func(p goPackage) bool {
		client := strings.HasPrefix(p.ImportPath, "k8s.io/client-go/") && !strings.HasPrefix(p.ImportPath, data)
		return client || strings.HasPrefix(p.ImportPath, "sigs.k8s.io/controller-runtime")
	})
	assert.Empty(t, chain, "forging needs no client:\n  %s", strings.Join(chain, "\n  → "))
}

// testkit is where what tests share lives.
const testkit = "/host/internal/testkit"

func TestOnlyTheCompositionRootsImportTheBuiltins(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for name, p := range graph(t, root, "./host/...") {
		if !strings.HasPrefix(name, modulePath+"/host/") || strings.HasPrefix(name, modulePath+"/host/app/") {
			continue
		}
		for _, imported := range p.Imports {
			// What tests share may start clusters and processes, and tests alone import it.
			shared := strings.HasPrefix(name, modulePath+testkit)
			assert.False(t, strings.HasPrefix(imported, modulePath+"/builtin-policies") && !shared, "%s imports %s", name, imported)
			assert.False(t, strings.HasPrefix(imported, modulePath+"/host/app") && !shared, "%s imports %s", name, imported)
			plane := shared && strings.HasPrefix(imported, modulePath+"/conformance/testplane")
			assert.False(t, strings.HasPrefix(imported, modulePath+"/conformance") && !plane, "%s imports %s", name, imported)
			assert.False(t, strings.HasPrefix(imported, modulePath+testkit) && !shared, "%s imports %s", name, imported)
		}
	}
}

func TestTheSDKNeedsTheStandardLibraryOnly(t *testing.T) {
	root, err := filepath.Abs("../../sdk")
	require.NoError(t, err)
	for name, p := range graph(t, root, "./...") {
		assert.True(t, p.Standard || strings.HasPrefix(name, modulePath+"/sdk"), "sdk reaches %s", name)
	}
}
