package depcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// constructors make a client configuration, or a connection that does not keep to one. A configuration for
// another cluster is one of remotecluster.Guard: it follows no redirection and limits what it reads.
var constructors = map[string][]string{
	"k8s.io/client-go/tools/clientcmd": {
		"BuildConfigFromFlags", "BuildConfigFromKubeconfigGetter", "NewClientConfigFromBytes", "NewDefaultClientConfig", "NewInteractiveClientConfig",
		"NewNonInteractiveClientConfig", "NewNonInteractiveDeferredLoadingClientConfig", "RESTConfigFromKubeConfig",
	},
	"k8s.io/client-go/rest":                {"Config", "InClusterConfig"},
	"k8s.io/client-go/tools/remotecommand": {"NewSPDYExecutor", "NewSPDYExecutorForTransports", "NewWebSocketExecutor"},
	"k8s.io/client-go/transport/spdy":      {"RoundTripperFor", "NewDialer", "Negotiate"},
	"net/http":                             {"Transport", "DefaultTransport", "DefaultClient", "Client", "Get", "Post"},
}

// makers are the packages that may use some of them, with what they are for.
var makers = map[string]string{
	"host/kit/remotecluster":   "configurations for other clusters",
	"cmd/longshore":            "the configuration for the own cluster",
	"cmd/longshorectl/cluster": "configurations of the user, which are guarded",
}

func TestClientsOfOtherClustersAreGuarded(t *testing.T) {
	root := filepath.Join("..", "..")
	var found []string
	for _, dir := range []string{"host", "cmd"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil || strings.HasPrefix(name, "host/internal/testkit") || makers[filepath.Dir(name)] != "" {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err == nil {
				for _, used := range constructed(file) {
					found = append(found, name+": "+used)
				}
			}
			return err
		}))
	}
	assert.Empty(t, found, "make these clients with host/kit/remotecluster")
}

// constructed returns the constructors that a file uses.
func constructed(file *ast.File) (used []string) {
	packages := map[string]string{}
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		packages[name] = path
	}
	pointed := map[ast.Node]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if star, ok := node.(*ast.StarExpr); ok {
			pointed[star.X] = true // *rest.Config as a type makes none
		}
		selector, ok := node.(*ast.SelectorExpr)
		if !ok || pointed[selector] {
			return true
		}
		from, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		for _, name := range constructors[packages[from.Name]] {
			if name == selector.Sel.Name {
				used = append(used, packages[from.Name]+"."+name)
			}
		}
		return true
	})
	return used
}

func TestConstructorsAreFound(t *testing.T) {
	for source, want := range map[string][]string{
		`import "k8s.io/client-go/rest"; func f(c *rest.Config) *rest.Config { return rest.CopyConfig(c) }`: nil,
		`import "k8s.io/client-go/rest"; var c = rest.Config{}`:                                             {"k8s.io/client-go/rest.Config"},
		`import r "k8s.io/client-go/rest"; var c = &r.Config{}`:                                             {"k8s.io/client-go/rest.Config"},
		`import "net/http"; var c = http.Client{}`:                                                          {"net/http.Client"},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "f.go", "package f; "+source, 0)
		require.NoError(t, err)
		assert.Equal(t, want, constructed(file), source)
	}
}
