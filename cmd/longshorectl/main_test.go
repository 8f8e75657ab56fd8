package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/host/policy/compiler"
	"github.com/longshore-dev/longshore/host/policy/encode"
)

// The test binary is longshorectl, also when it runs itself to compile.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == compiler.Argument {
		main()
	}
	os.Exit(m.Run())
}

// What a cluster refuses because it takes too much to compile, longshorectl refuses, too.
func TestModulesAreCompiledInTheOwnBinary(t *testing.T) {
	compiled := &encode.Module{}
	compiled.Export("describe", encode.Function, compiled.Func(nil, nil, nil, 0x00))
	// A loop with a table of branches to its head, and many local variables.
	var changes []byte
	for i := range uint64(400) {
		changes = append(changes, encode.Code(encode.Get(i), encode.Const64(1), 0x7c, encode.Set(i))...)
	}
	bomb := &encode.Module{}
	bomb.Export("describe", encode.Function, bomb.RawFunc(nil, nil, encode.Code(1, encode.Uleb(400), encode.I64,
		0x03, 0x40, changes, encode.Get(0), 0x50, 0x0e, encode.Uleb(3000), make([]byte, 3001), 0x0b, 0x0b)))
	for want, module := range map[string]*encode.Module{
		"describe: the module crashed: unreachable": compiled, "compiling the module takes too much": bomb,
	} {
		file := filepath.Join(t.TempDir(), "module.wasm")
		require.NoError(t, os.WriteFile(file, module.Bytes(), 0o600))
		root := command(compiler.Own())
		root.SetArgs([]string{"policy", "push", file})
		code, message := output.ExitCode(root.ExecuteContext(t.Context()))
		assert.Equal(t, output.CodeModule, code)
		assert.Contains(t, message, want)
	}
}

func TestExitCodes(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "kubeconfig")
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"an unknown command":                   {[]string{"frobnicate"}, output.CodeUsage, `longshorectl has no command "frobnicate"; longshorectl --help lists them`},
		"a misspelled command":                 {[]string{"polcy"}, output.CodeUsage, "did you mean policy?"},
		"an unknown command of policy":         {[]string{"policy", "frob"}, output.CodeUsage, `longshorectl policy has no command "frob"`},
		"an unknown flag":                      {[]string{"explain", "--frob"}, output.CodeUsage, "--frob"},
		"an unknown format":                    {[]string{"policy", "inspect", "x.wasm", "-o", "xml"}, output.CodeUsage, `"xml" is none of table, wide, json, yaml`},
		"an object that is not named":          {[]string{"explain"}, output.CodeUsage, ""},
		"a kubeconfig that is missing":         {[]string{"explain", "pod/web", "--kubeconfig", missing}, output.CodeFailed, "no such file"},
		"the same, for a policy":               {[]string{"policy", "inspect", "--policy", "p", "--kubeconfig", missing}, output.CodeFailed, "no such file"},
		"the same, and a context of it":        {[]string{"explain", "pod/web", "--kubeconfig", missing, "--context", "rome"}, output.CodeFailed, "no such file"},
		"a module that is missing":             {[]string{"policy", "inspect", missing}, output.CodeFailed, "no such file"},
		"peering with networking":              {[]string{"peer", "--networking-disabled=false"}, output.CodeUsage, "Longshore has no networking module"},
		"a quantity that is none":              {[]string{"peer", "--cpu", "many"}, output.CodeUsage, `invalid quantity "many" of resource cpu`},
		"a resource that is named twice":       {[]string{"peer", "--cpu", "1", "--resource", "cpu=2"}, output.CodeUsage, "--resource cpu and --cpu exclude each other"},
		"a peer that is not named":             {[]string{"peer"}, output.CodeUsage, "set --remote-kubeconfig or --remote-context"},
		"a command of a group":                 {[]string{"create", "slice"}, output.CodeUsage, `longshorectl create has no command "slice"`},
		"a slice without a provider":           {[]string{"create", "resourceslice", "a"}, output.CodeUsage, "set --remote-cluster-id"},
		"a slice without a name":               {[]string{"create", "resourceslice"}, output.CodeUsage, "accepts 1 arg(s)"},
		"a name that no Node can have":         {[]string{"create", "resourceslice", "A", "--remote-cluster-id", "milan"}, output.CodeUsage, "it becomes the name of a Node"},
		"a provider that is not a cluster":     {[]string{"create", "resourceslice", "a", "--remote-cluster-id", "-"}, output.CodeUsage, "invalid --remote-cluster-id"},
		"a virtual node without credentials":   {[]string{"create", "virtualnode", "a", "--remote-cluster-id", "milan"}, output.CodeUsage, "set either --resource-slice-name or --kubeconfig-secret-name"},
		"a virtual node with two of them":      {[]string{"create", "virtualnode", "a", "--remote-cluster-id", "milan", "--resource-slice-name", "a", "--kubeconfig-secret-name", "b"}, output.CodeUsage, "set either"},
		"a format that is none":                {[]string{"get", "virtualnode", "-o", "xml"}, output.CodeUsage, `"xml" is none of table, wide, json, yaml`},
		"a Tenant without a nonce":             {[]string{"generate", "tenant", "--remote-cluster-id", "milan"}, output.CodeUsage, "set --nonce"},
		"no namespace to offload":              {[]string{"offload", "namespace"}, output.CodeUsage, "name namespaces, or set --ns-selector"},
		"a selector that is none":              {[]string{"offload", "namespace", "shop", "-l", "a in"}, output.CodeUsage, "invalid --selector"},
		"the namespace flag of Liqo's scripts": {[]string{"generate", "identity", "--remote-cluster-id", "milan", "--liqo-namespace", "liqo", "--kubeconfig", missing}, output.CodeFailed, "no such file"},
		"a provider that is not named":         {[]string{"conform", "cluster", "--consumer", missing}, output.CodeUsage, "set --provider"},
		"a timeout that is none":               {[]string{"conform", "cluster", "--timeout", "0s"}, output.CodeUsage, "invalid --timeout 0s"},
		"a consumer that cannot be read":       {[]string{"conform", "cluster", "--consumer", missing, "--provider", missing}, output.CodeFailed, "the consumer: "},
		"--settings and --spec at one time":    {[]string{"policy", "run", "m", "-i", "i", "--settings", "a", "--spec", "b"}, output.CodeUsage, "exclude each other"},
	} {
		t.Run(name, func(t *testing.T) {
			root := command(nil)
			root.SetArgs(tc.args)
			code, message := output.ExitCode(root.ExecuteContext(t.Context()))
			assert.Equal(t, tc.code, code, message)
			assert.NotEmpty(t, message)
			assert.Contains(t, message, tc.want)
		})
	}
}

func TestThePluginOfKubectlIsCalledByItsName(t *testing.T) {
	for executable, want := range map[string]string{
		"/usr/bin/kubectl-longshore": "kubectl longshore create", "kubectl-longshore": "kubectl longshore create", "/usr/bin/longshorectl": "longshorectl create",
	} {
		root := command(nil)
		nameAsCalled(root, executable)
		root.SetArgs([]string{"create", "slice"})
		_, message := output.ExitCode(root.ExecuteContext(t.Context()))
		assert.Contains(t, message, want+` has no command "slice"`)
	}
}
