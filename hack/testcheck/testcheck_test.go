// Package testcheck keeps a rule of our tests that no linter knows: a condition that
// is polled tries again.
//
// testify runs the condition of Eventually in a goroutine of its own. A require in it, or
// a t.Fatal, ends that goroutine: nothing is tried again, the answer never comes, and what
// a busy machine shows once in a thousand looks (an object without status, a refused
// connection) fails the test after the whole wait, with "Condition never satisfied". Such a
// condition returns false, or is one of planetest.Until or EventuallyWithT and asks with
// the t that it is given.
package testcheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var polling = []string{"Eventually", "Eventuallyf", "EventuallyWithT", "EventuallyWithTf", "Never", "Neverf", "planetest.Until"}

// A source is the parsed tests (and their helpers) of one folder.
type source struct {
	fset  *token.FileSet
	files []*ast.File
}

func TestPolledConditionsTryAgain(t *testing.T) {
	root := filepath.Join("..", "..")
	folders := map[string]*source{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		folder := folders[filepath.Dir(path)]
		if folder == nil {
			folder = &source{fset: token.NewFileSet()}
			folders[filepath.Dir(path)] = folder
		}
		file, err := parser.ParseFile(folder.fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parsing: %w", err)
		}
		if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` }) {
			return nil
		}
		folder.files = append(folder.files, file)
		return nil
	}))
	for _, folder := range folders {
		for _, finding := range folder.conditionsThatEndTheTest() {
			assert.Fail(t, finding)
		}
	}
}

// A rule that finds nothing proves nothing: these are what it is for.
func TestWhatIsFound(t *testing.T) {
	const head = `package x
func read(t *testing.T) int { t.Helper(); require.NoError(t, ask()); return 1 }
func (w *world) read() int { require.NoError(w.t, ask()); return 1 }
func (w *world) reads() int { return w.read() }
func collected(t require.TestingT) int { require.NoError(t, ask()); return 1 }
func looked(t planetest.T) bool { require.NoError(t, ask()); return true }
func eventually(t *testing.T, what string, ok func() bool) { require.Eventually(t, ok, wait, poll, what) }
func harmless() int { return 1 }
func TestIt(t *testing.T) {
`
	for name, row := range map[string]struct {
		body string
		want int
	}{
		"a require in the condition":      {`require.Eventually(t, func() bool { require.NoError(t, ask()); return true }, wait, poll)`, 1},
		"an assert fails at the first":    {`assert.Eventually(t, func() bool { return assert.NoError(t, ask()) }, wait, poll)`, 1},
		"a helper that takes t":           {`require.Eventually(t, func() bool { return read(t) == 1 }, wait, poll)`, 1},
		"a helper of another package":     {`require.Eventually(t, func() bool { return kit.Read(t) == 1 }, wait, poll)`, 1},
		"a method whose owner has t":      {`require.Eventually(t, func() bool { return w.read() == 1 }, wait, poll)`, 1},
		"a method that calls such":        {`require.Eventually(t, func() bool { return w.reads() == 1 }, wait, poll)`, 1},
		"a named condition":               {`require.Eventually(t, w.reads, wait, poll)`, 1},
		"a local closure":                 {`ready := func() bool { require.NoError(t, ask()); return true }; require.Eventually(t, ready, wait, poll)`, 1},
		"a local closure that is called":  {`count := func() int { return read(t) }; require.Eventually(t, func() bool { return count() == 1 }, wait, poll)`, 1},
		"the outer t in EventuallyWithT":  {`require.EventuallyWithT(t, func(c *assert.CollectT) { assert.NoError(t, ask()) }, wait, poll)`, 1},
		"t.Fatal":                         {`require.Eventually(t, func() bool { t.Fatal("no"); return true }, wait, poll)`, 1},
		"the collecting t":                {`require.EventuallyWithT(t, func(c *assert.CollectT) { require.NoError(c, ask()) }, wait, poll)`, 0},
		"the collecting t under its name": {`require.EventuallyWithT(t, func(t *assert.CollectT) { require.NoError(t, ask()) }, wait, poll)`, 0},
		"a helper for any t":              {`require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, 1, collected(c)) }, wait, poll)`, 0},
		"a helper that polls":             {`eventually(t, "", func() bool { require.NoError(t, ask()); return true })`, 1},
		"a named condition of a helper":   {`eventually(t, "", w.reads)`, 1},
		"the t that Until gives":          {`planetest.Until(t, func(t planetest.T) bool { require.NoError(t, ask()); return looked(t) }, wait, poll)`, 0},
		"another t in Until":              {`planetest.Until(t, func(planetest.T) bool { require.NoError(t, ask()); return true }, wait, poll)`, 1},
		"a helper for any t, outer t":     {`require.Eventually(t, func() bool { return collected(t) == 1 }, wait, poll)`, 1},
		"the context of t":                {`require.Eventually(t, func() bool { return ask(t.Context()) == nil }, wait, poll)`, 0},
		"what fails nothing":              {`require.Eventually(t, func() bool { return harmless() == 1 }, wait, poll)`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "x_test.go", head+row.body+"\n}", parser.SkipObjectResolution)
			require.NoError(t, err)
			folder := &source{fset: fset, files: []*ast.File{file}}
			assert.Len(t, folder.conditionsThatEndTheTest(), row.want, "%v", folder.conditionsThatEndTheTest())
		})
	}
}

// conditionsThatEndTheTest names each polled condition that may end the test at its first look.
func (s *source) conditionsThatEndTheTest() []string {
	ending, polls := s.endingFunctions(), s.pollingFunctions()
	var findings []string
	for _, file := range s.files {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || !slices.Contains(polls, polled(call.Fun)) {
				return true
			}
			for _, argument := range call.Args {
				if name := endsTheTest(argument, ending); name != "" {
					findings = append(findings, fmt.Sprintf("%s: the condition ends the test at %s instead of trying again", s.fset.Position(call.Pos()), name))
				}
			}
			return true
		})
	}
	return findings
}

// pollingFunctions are testify's, and those of the folder that hand a condition on to them.
func (s *source) pollingFunctions() []string {
	polls := slices.Clone(polling)
	for _, file := range s.files {
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			conditions := map[string]bool{}
			for _, field := range fn.Type.Params.List {
				if _, ok := field.Type.(*ast.FuncType); ok {
					for _, name := range field.Names {
						conditions[name.Name] = true
					}
				}
			}
			ast.Inspect(fn.Body, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if ok && slices.Contains(polling, polled(call.Fun)) && len(call.Args) > 1 && mentions(call.Args[1], conditions) {
					polls = append(polls, fn.Name.Name)
				}
				return true
			})
		}
	}
	return polls
}

func mentions(e ast.Expr, names map[string]bool) bool {
	found := false
	ast.Inspect(e, func(node ast.Node) bool {
		if name, ok := node.(*ast.Ident); ok && names[name.Name] {
			found = true
		}
		return !found
	})
	return found
}

// endingFunctions are the functions and local closures by name, and the methods by a dot and
// their name, that may end a test with a t that is not one of their parameters' to choose.
// Methods of different types fall together: better one rename too many.
func (s *source) endingFunctions() map[string]bool {
	bodies := map[string][]ast.Expr{}
	for _, file := range s.files {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				name := node.Name.Name
				if node.Recv != nil {
					name = "." + name
				}
				if node.Body != nil {
					bodies[name] = append(bodies[name], &ast.FuncLit{Type: node.Type, Body: node.Body})
				}
			case *ast.AssignStmt:
				for i, right := range node.Rhs {
					if lit, ok := right.(*ast.FuncLit); ok && i < len(node.Lhs) {
						name := called(node.Lhs[i])
						bodies[name] = append(bodies[name], lit)
					}
				}
			}
			return true
		})
	}
	ending := map[string]bool{}
	for {
		before := len(ending)
		for name, nodes := range bodies {
			for _, node := range nodes {
				if !ending[name] && endsTheTest(node, ending) != "" {
					ending[name] = true
				}
			}
		}
		if len(ending) == before {
			return ending
		}
	}
}

// endsTheTest names the first thing in a condition or function that may end the test, with
// a t it was not given as one that collects.
func endsTheTest(condition ast.Expr, ending map[string]bool) string {
	lit, ok := condition.(*ast.FuncLit)
	if !ok {
		if ending[called(condition)] {
			return lastName(condition)
		}
		return ""
	}
	collecting := map[string]bool{}
	for _, field := range lit.Type.Params.List {
		if takesAnyT(field.Type) {
			for _, name := range field.Names {
				collecting[name.Name] = true
			}
		}
	}
	found := ""
	ast.Inspect(lit.Body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || found != "" {
			return found == ""
		}
		found = endingCall(call, collecting, ending)
		return found == ""
	})
	return found
}

func endingCall(call *ast.CallExpr, collecting, ending map[string]bool) string {
	name := lastName(call.Fun)
	if len(call.Args) > 0 {
		if first, ok := call.Args[0].(*ast.Ident); ok && collecting[first.Name] {
			return ""
		}
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if ok {
		switch owner := lastName(selector.X); {
		case name == "ObjectsAreEqual":
			return ""
		case owner == "require" || owner == "assert":
			return owner + "." + name
		case isT(selector.X) && slices.Contains([]string{"Fatal", "Fatalf", "FailNow", "Fail", "Error", "Errorf"}, name):
			return owner + "." + name
		}
	}
	if ending[called(call.Fun)] || slices.ContainsFunc(call.Args, isT) {
		return name
	}
	return ""
}

// takesAnyT reports whether a parameter may be a t that collects: CollectT, TestingT, planetest.T.
func takesAnyT(e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		return lastName(star.X) == "CollectT"
	}
	return slices.Contains([]string{"TestingT", "T"}, lastName(e))
}

// isT reports whether an expression is a test's t by its name: t, tb, or a field of that name.
func isT(e ast.Expr) bool {
	name := lastName(e)
	return name == "t" || name == "tb"
}

// called is the name under which endingFunctions knows what is called.
func called(e ast.Expr) string {
	if selector, ok := e.(*ast.SelectorExpr); ok {
		return "." + selector.Sel.Name
	}
	return lastName(e)
}

// polled is the name of a function by which polling functions are known.
func polled(e ast.Expr) string {
	if selector, ok := e.(*ast.SelectorExpr); ok && selector.Sel.Name == "Until" {
		return lastName(selector.X) + ".Until"
	}
	return lastName(e)
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return lastName(e.X)
	}
	return ""
}
