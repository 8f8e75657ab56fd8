package reflection_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// counter counts the requests of one client by verb and resource.
type counter struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		for i, part := range parts {
			if part == "namespaces" && len(parts) > i+2 {
				parts = append([]string{parts[i+2]}, parts[min(i+4, len(parts)):]...)
				break
			}
		}
		verb := r.Method
		if verb == http.MethodGet && isCollection(r.URL.Path) {
			verb = "LIST"
		}
		if r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1" {
			verb = "WATCH"
		}
		c.mu.Lock()
		c.counts[verb+" "+strings.Join(parts, "/")]++
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// isCollection reports whether a path is that of all objects of a resource, in a namespace or not.
func isCollection(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "apis" {
		parts = parts[1:]
	}
	if len(parts) > 4 && parts[2] == "namespaces" {
		parts = parts[2:]
	}
	return len(parts) == 3
}

func (c *counter) snapshot() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for key, n := range c.counts {
		out[key] = n
	}
	return out
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// since returns the requests after a snapshot, without lists and watches that are fewer than one
// for every second pod: the API server may end a watch at any time, which then begins again.
func (c *counter) since(before map[string]int, pods int) map[string]int {
	now := c.snapshot()
	for key := range now {
		now[key] -= before[key]
		isRead := strings.HasPrefix(key, "LIST ") || strings.HasPrefix(key, "WATCH ")
		if now[key] == 0 || isRead && now[key] < pods/2 {
			delete(now, key)
		}
	}
	return now
}

func TestIsCollection(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/namespaces/shop/pods":                                    true,
		"/api/v1/namespaces/shop/pods/web":                                false,
		"/api/v1/namespaces/shop/pods/web/status":                         false,
		"/api/v1/pods":                                                    true,
		"/api/v1/nodes/milan":                                             false,
		"/apis/offloading.liqo.io/v1beta1/namespaces/shop/shadowpods":     true,
		"/apis/offloading.liqo.io/v1beta1/namespaces/shop/shadowpods/web": false,
		"/apis/networking.k8s.io/v1/ingresses":                            true,
	} {
		assert.Equal(t, want, isCollection(path), path)
	}
}
