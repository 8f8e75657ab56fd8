package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

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
		"a provider that is no cluster":        {[]string{"create", "resourceslice", "a", "--remote-cluster-id", "-"}, output.CodeUsage, "invalid --remote-cluster-id"},
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
			root := command()
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
		root := command()
		nameAsCalled(root, executable)
		root.SetArgs([]string{"create", "slice"})
		_, message := output.ExitCode(root.ExecuteContext(t.Context()))
		assert.Contains(t, message, want+` has no command "slice"`)
	}
}
