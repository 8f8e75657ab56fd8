package reflection_test

import (
	"net/http"
	"strings"
	"sync"
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
		if r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1" {
			verb = "WATCH"
		}
		c.mu.Lock()
		c.counts[verb+" "+strings.Join(parts, "/")]++
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
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
