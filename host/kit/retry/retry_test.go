package retry_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/kit/retry"
)

func TestBackoffDoublesUpToMax(t *testing.T) {
	l := retry.Limiter[string]()
	assert.Equal(t, retry.Base, l.When("web"))
	assert.Equal(t, 2*retry.Base, l.When("web"))
	for range 30 {
		l.When("web")
	}
	assert.Equal(t, 30*time.Second, l.When("web"))
	assert.Equal(t, retry.Base, l.When("db"), "each key has its own backoff")
	l.Forget("web")
	assert.Equal(t, retry.Base, l.When("web"))
}

func TestPauseEndsWithTheContext(t *testing.T) {
	assert.True(t, retry.Pause(t.Context(), time.Millisecond))
	ended, end := context.WithCancel(t.Context())
	end()
	assert.False(t, retry.Pause(ended, time.Hour))
}

// TestEveryQueueUsesTheLimiter finds controllers with the backoff of controller-runtime, and
// queues with their own.
func TestEveryQueueUsesTheLimiter(t *testing.T) {
	controllers := 0
	host := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(host, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			calls := selectors(declaration)
			if calls["NewControllerManagedBy"] {
				controllers++
				assert.True(t, (calls["Limiter"] || calls["GetClient"] && calls["Options"]) && calls["WithOptions"], "%s: the controller needs fair.Options, or controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}", path)
			}
			if filepath.Dir(path) != filepath.Join(host, "kit", "retry") {
				assert.False(t, calls["NewTypedItemExponentialFailureRateLimiter"] || calls["DefaultTypedControllerRateLimiter"], "%s: retry.Limiter is for all queues", path)
			}
		}
		return nil
	}))
	assert.Greater(t, controllers, 5, "controllers are found")
}

// selectors returns the names of selectors in a declaration: Name of x.Name.
func selectors(declaration ast.Decl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(declaration, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			names[selector.Sel.Name] = true
		}
		return true
	})
	return names
}
