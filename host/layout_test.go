package host_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	maxFileLines     = 500
	maxFunctionLines = 80
)

var (
	stageRow = regexp.MustCompile(`^\t(\d) [A-Z]`)
	packages = regexp.MustCompile(`host/[a-z/]+(\{[a-z,]+\})?`)
)

// stages reads the table of host/doc.go: the packages of the pod flow, and the first stage
// at which each one works.
func stages(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	first := map[string]string{}
	stage := ""
	for line := range strings.Lines(file.Doc.Text()) {
		if !strings.HasPrefix(line, "\t") {
			stage = ""
			continue
		}
		if row := stageRow.FindStringSubmatch(line); row != nil {
			stage = "stage " + row[1]
		}
		for _, name := range packages.FindAllString(line, -1) {
			folder, several, _ := strings.Cut(name, "{")
			for each := range strings.SplitSeq(strings.TrimSuffix(several, "}"), ",") {
				if _, known := first[folder+each]; !known {
					first[folder+each] = stage
				}
			}
		}
	}
	return first
}

var folderName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

// The required top-level names and commands may differ from their package name.
var folderExceptions = map[string]bool{"builtin-policies": true}

func goFiles(t *testing.T, visit func(path string, file *ast.File, fset *token.FileSet, src []byte)) {
	t.Helper()
	root := ".."
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "zz_generated") {
			return nil
		}
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, src, parser.ParseComments)
		require.NoError(t, err)
		rel, err := filepath.Rel(root, path)
		require.NoError(t, err)
		visit(filepath.ToSlash(rel), file, fset, src)
		return nil
	})
	require.NoError(t, err)
}

func TestEveryPackageOfThePodFlowNamesItsStage(t *testing.T) {
	docs := map[string]string{}
	goFiles(t, func(path string, file *ast.File, _ *token.FileSet, _ []byte) {
		if file.Doc != nil && !strings.HasSuffix(path, "_test.go") {
			docs[filepath.Dir(path)] += file.Doc.Text()
		}
	})
	flow := stages(t)
	require.Greater(t, len(flow), 8, "the table of host/doc.go: %v", flow)
	for pkg, stage := range flow {
		first, _, _ := strings.Cut(docs[pkg], "\n\n")
		assert.Contains(t, first, "Pod flow, "+stage+":", "%s: the first paragraph of the package comment names the stage", pkg)
	}
}

func TestFoldersAreNamedLikeTheirPackages(t *testing.T) {
	goFiles(t, func(path string, file *ast.File, _ *token.FileSet, _ []byte) {
		dir := filepath.Base(filepath.Dir(path))
		pkg := strings.TrimSuffix(file.Name.Name, "_test")
		if folderExceptions[dir] || dir == "." || filepath.Dir(path) == "." {
			return
		}
		assert.Regexp(t, folderName, dir, "%s: folders are one lower-case word", path)
		if pkg == "main" {
			return
		}
		assert.Equal(t, dir, pkg, "%s: package name and folder name", path)
	})
}

func TestFilesAndFunctionsStayReadable(t *testing.T) {
	goFiles(t, func(path string, file *ast.File, fset *token.FileSet, src []byte) {
		lines := bytes.Count(src, []byte("\n"))
		assert.LessOrEqual(t, lines, maxFileLines, "%s is too long", path)
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			length := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
			assert.LessOrEqual(t, length, maxFunctionLines, "%s: function %s is too long", path, fn.Name.Name)
		}
	})
}

// client-go's recorders drop what an event says if another says something else about the
// same; host/kit/events keeps both, so no package takes a recorder past it.
func TestEventsAreRecordedThroughTheKit(t *testing.T) {
	goFiles(t, func(path string, file *ast.File, fset *token.FileSet, _ []byte) {
		if strings.HasPrefix(path, "host/kit/events/") {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok {
				name := selector.Sel.Name
				assert.NotContains(t, []string{"GetEventRecorder", "GetEventRecorderFor"}, name,
					"%s: host/kit/events.New gives out recorders", fset.Position(node.Pos()))
			}
			return true
		})
	})
}
