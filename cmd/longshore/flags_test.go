package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/app/kubelet"
)

// option is a field of the options of one of the apps.
type option struct{ app, field string }

// apps are the packages of host/app whose options the flags are.
var apps = []string{"manager", "webhook", "replicator", "kubelet"}

// sources parses the Go files of a folder, tests aside.
func sources(t *testing.T, folder string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		files = append(files, file)
	}
	require.NotEmpty(t, files)
	return files
}

// bound returns which option each flag sets, by reading how it is declared:
// f.StringVar(&o.NodeIP, "node-ip", …).
func bound(t *testing.T) map[string]map[string]option {
	t.Helper()
	flags := map[string]map[string]option{}
	for _, file := range sources(t, ".") {
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			app := appOf(function)
			ast.Inspect(function, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok || app == "" {
					return true
				}
				if field, flag := binding(call); field != "" {
					if flags[app] == nil {
						flags[app] = map[string]option{}
					}
					flags[app][flag] = option{app, field}
				}
				return true
			})
		}
	}
	return flags
}

// appOf is the first app that a function names.
func appOf(function *ast.FuncDecl) string {
	app := ""
	ast.Inspect(function, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok && app == "" {
			if x, ok := selector.X.(*ast.Ident); ok && slices.Contains(apps, x.Name) {
				app = x.Name
			}
		}
		return true
	})
	return app
}

// binding reads a call that declares a flag: what it sets, and its name.
func binding(call *ast.CallExpr) (field, flag string) {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasSuffix(function.Sel.Name, "Var") || len(call.Args) < 2 {
		return "", ""
	}
	literal, ok := call.Args[1].(*ast.BasicLit)
	if !ok {
		return "", ""
	}
	ast.Inspect(call.Args[0], func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			field = selector.Sel.Name
		}
		return true
	})
	flag, err := strconv.Unquote(literal.Value)
	if err != nil {
		return "", ""
	}
	return field, flag
}

// readers are the fields of options that the code of an app reads. Checking a value, or
// setting its default, is no use of it.
func readers(t *testing.T, app string) map[string]bool {
	t.Helper()
	read := map[string]bool{}
	for _, file := range sources(t, filepath.Join("..", "..", "host", "app", app)) {
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok &&
				(strings.HasPrefix(strings.ToLower(function.Name.Name), "validate") || function.Name.Name == "DefaultOptions") {
				continue
			}
			ast.Inspect(declaration, func(node ast.Node) bool {
				if selector, ok := node.(*ast.SelectorExpr); ok && isOptions(selector.X) {
					read[selector.Sel.Name] = true
				}
				return true
			})
		}
	}
	return read
}

func isOptions(of ast.Expr) bool {
	switch x := of.(type) {
	case *ast.Ident:
		return x.Name == "o" || x.Name == "options"
	case *ast.SelectorExpr:
		return x.Sel.Name == "options"
	default:
		return false
	}
}

// reflected are the resources that virtual kubelets have a definition for.
func reflected(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, file := range sources(t, filepath.Join("..", "..", "host", "app", "kubelet")) {
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Name.Name != "definitions" {
				continue
			}
			ast.Inspect(function, func(node ast.Node) bool {
				if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					name, err := strconv.Unquote(literal.Value)
					require.NoError(t, err)
					names = append(names, name)
				}
				return true
			})
		}
	}
	require.NotEmpty(t, names)
	return names
}

func TestEveryFlagHasAnEffectOrSaysThatItHasNone(t *testing.T) {
	declared, resources := bound(t), reflected(t)
	for _, cmd := range command([]string{"longshore"}).Commands() {
		if !slices.Contains(apps, cmd.Name()) {
			continue
		}
		read := readers(t, cmd.Name())
		cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
			t.Run(cmd.Name()+" --"+flag.Name, func(t *testing.T) {
				effective := false
				resource, _, ofResource := strings.Cut(flag.Name, "-reflection-")
				set, isOption := declared[cmd.Name()][flag.Name]
				switch {
				case flag.Name == "home-kubeconfig":
					effective = true
				case strings.HasPrefix(flag.Name, "klog."):
					effective = flag.Name == "klog.v" || flag.Name == "klog.vmodule"
				case ofResource:
					effective = slices.Contains(resources, resource)
				default:
					require.True(t, isOption, "this test does not see what the flag sets")
					effective = read[set.field]
				}
				// What it is handed to may have none.
				handedOn := cmd.Name() == "webhook" && flag.Name == "podcidr"
				assert.Equal(t, !effective || handedOn, strings.Contains(flag.Usage, "(no effect: "),
					"effective: %t; a flag that nothing reads belongs into host/kit/vkflag, one that is read does not", effective)
				if cmd.Name() == "kubelet" && !strings.HasPrefix(flag.Name, "klog.") {
					assert.Equal(t, !effective, kubelet.WithoutEffect(flag.Name) != "")
				}
			})
		})
	}
}

func TestArgumentsWithoutEffectAreListed(t *testing.T) {
	var given []string
	cmd := kubeletCommand()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		given = withoutEffect(cmd.Flags())
		return nil
	}
	cmd.SetArgs([]string{"--nodename=milan", "--local-podcidr=10.0.0.0/16", "--enable-storage", "--resync-period=1h"})
	require.NoError(t, cmd.Execute())
	assert.ElementsMatch(t, []string{"--enable-storage", "--local-podcidr"}, given)
}
