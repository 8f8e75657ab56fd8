package host_test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// pointsTable has the extension points and what the contract says about each.
const pointsTable = "sdk/contract/point.go"

// A new extension point is a row of the table, its facts, its part of the SDK and a caller. What else names one by
// hand is listed here: the enum of the CRD, the SDK for Rust, the project that `policy init` makes, and the built-in
// module and its oracle. It must not become more. Points with facts of their own also have samples of them.
func TestFewFilesNameAnExtensionPoint(t *testing.T) {
	for point, limit := range map[contract.Point]int{
		contract.AntiAffinityPreset: 5,
		contract.OffloadingPatch:    5,
		contract.ShadowPodAdmission: 8,
	} {
		files := filesThatName(t, string(point))
		assert.LessOrEqual(t, len(files), limit, "%s is named by %s", point, strings.Join(files, ", "))
		assert.NotEmpty(t, files)
	}
}

// filesThatName returns the files in which code names a point, without the table, tests, example policies, and what
// implements the point.
func filesThatName(t *testing.T, point string) []string {
	t.Helper()
	var files []string
	goFiles(t, func(path string, file *ast.File, _ *token.FileSet, _ []byte) {
		path, _ = strings.CutPrefix(filepath.ToSlash(path), "../")
		if path == pointsTable || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "plugins/") || implements(path, point) {
			return
		}
		named := false
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				named = named || ok && x.Name == "contract" && n.Sel.Name == point
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				named = named || err == nil && text == point
			}
			return true
		})
		if named {
			files = append(files, path)
		}
	})
	word := regexp.MustCompile(`(?m)^[^/\n]*\b` + point + `\b`)
	for _, pattern := range []string{"rust/*.rs", "c/*.h", "assemblyscript/*.ts"} {
		sources, err := filepath.Glob(filepath.Join("../sdk", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, sources)
		for _, source := range sources {
			text, err := os.ReadFile(source)
			require.NoError(t, err)
			if word.Match(text) {
				files = append(files, strings.TrimPrefix(source, "../"))
			}
		}
	}
	slices.Sort(files)
	return files
}

// implements reports whether a file belongs to a point: its facts, its part of the SDK, its policy, or its caller.
func implements(path, point string) bool {
	name := strings.ToLower(point)
	for _, suffix := range []string{"preset", "admission"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return strings.Contains(path, name)
}
