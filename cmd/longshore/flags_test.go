package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
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
	"github.com/longshore-dev/longshore/host/consumer/reflection/mirror"
	"github.com/longshore-dev/longshore/host/kit/vkflag"
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

// shared are the functions that declare flags of several apps, by name: of each flag, the field that
// it sets of what is passed, or the parameter that it sets.
func shared(t *testing.T) map[string]map[string]target {
	t.Helper()
	functions := map[string]map[string]target{}
	for _, file := range sources(t, ".") {
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || appOf(function) != "" {
				continue
			}
			flags := map[string]target{}
			ast.Inspect(function, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok {
					if set, flag := binding(call); flag != "" {
						set.parameter = slices.Index(parameters(function), set.parameterName)
						flags[flag] = set
					}
				}
				return true
			})
			if len(flags) > 0 {
				functions[function.Name.Name] = flags
			}
		}
	}
	return functions
}

// target is what a flag sets: a field, or else a parameter of the function that declares it.
type target struct {
	field, parameterName string
	parameter            int
}

func parameters(function *ast.FuncDecl) []string {
	var names []string
	for _, list := range function.Type.Params.List {
		for _, name := range list.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// bound returns which option each flag sets, by reading how it is declared:
// f.StringVar(&o.NodeIP, "node-ip", …), maybe in a function for several apps.
func bound(t *testing.T) map[string]map[string]option {
	t.Helper()
	functions, flags := shared(t), map[string]map[string]option{}
	for _, name := range apps {
		flags[name] = map[string]option{}
	}
	for _, file := range sources(t, ".") {
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || appOf(function) == "" {
				continue
			}
			name := appOf(function)
			ast.Inspect(function, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok {
					return true
				}
				if set, flag := binding(call); set.field != "" {
					flags[name][flag] = option{name, set.field}
				}
				for flag, set := range functions[calledName(call)] {
					if set.field == "" && set.parameter >= 0 {
						set.field = lastField(call.Args[set.parameter])
					}
					flags[name][flag] = option{name, set.field}
				}
				return true
			})
		}
	}
	return flags
}

// calledName is the name of the function that is called, without its package.
func calledName(call *ast.CallExpr) string {
	switch called := call.Fun.(type) {
	case *ast.Ident:
		return called.Name
	case *ast.SelectorExpr:
		return called.Sel.Name
	default:
		return ""
	}
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
func binding(call *ast.CallExpr) (set target, flag string) {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasSuffix(function.Sel.Name, "Var") || len(call.Args) < 2 {
		return target{}, ""
	}
	literal, ok := call.Args[1].(*ast.BasicLit)
	if !ok {
		return target{}, ""
	}
	if variable, ok := call.Args[0].(*ast.Ident); ok {
		set.parameterName = variable.Name
	}
	set.field = lastField(call.Args[0])
	flag, err := strconv.Unquote(literal.Value)
	if err != nil {
		return target{}, ""
	}
	return set, flag
}

// lastField is the last field that an expression names: X of &o.X.
func lastField(expression ast.Expr) string {
	field := ""
	ast.Inspect(expression, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			field = selector.Sel.Name
		}
		return true
	})
	return field
}

// readers returns the fields of options that the code of an app reads. Validating a value
// and setting its default do not count.
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
func reflected() []string {
	names := []string{"pod", "event", "serviceaccount", "persistentvolumeclaim"}
	for _, kind := range mirror.Kinds() {
		names = append(names, kind.Name)
	}
	return names
}

func TestEveryFlagHasAnEffectOrIsMarked(t *testing.T) {
	declared, resources := bound(t), reflected()
	for _, cmd := range command([]string{"longshore"}).Commands() {
		if !slices.Contains(apps, cmd.Name()) {
			continue
		}
		read := readers(t, cmd.Name())
		if cmd.Name() != "kubelet" {
			maps.Copy(read, readers(t, "process"))
		}
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
					require.True(t, isOption, "this test does not find the option that the flag sets")
					effective = read[set.field]
				}
				assert.Equal(t, !effective, strings.Contains(flag.Usage, "(no effect: "),
					"effective: %t; exactly the flags without effect belong into host/kit/vkflag", effective)
				if cmd.Name() == "kubelet" && !strings.HasPrefix(flag.Name, "klog.") {
					assert.Equal(t, !effective, kubelet.WithoutEffect(flag.Name) != "")
					assert.Equal(t, flag.Value.Type() == "bool", vkflag.IsBoolean(flag.Name))
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
	cmd.SetArgs([]string{"--nodename=milan", "--remote-pod-cidr=10.0.0.0/16", "--virtual-storage-class-name=remote", "--enable-storage", "--resync-period=1h"})
	require.NoError(t, cmd.Execute())
	assert.ElementsMatch(t, []string{"--remote-pod-cidr"}, given)
}
