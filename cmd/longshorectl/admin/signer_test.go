package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func TestAProviderThatSignsNoCertificatesIsKnownInAdvance(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		status  int
		err     string
	}{
		"EKS":                   {version: "v1.34.1-eks-113cf36", status: http.StatusOK, err: "is an EKS cluster (v1.34.1-eks-113cf36), which cannot be a provider"},
		"Kubernetes":            {version: "v1.34.1", status: http.StatusOK},
		"GKE":                   {version: "v1.34.1-gke.1829001", status: http.StatusOK},
		"it may not be read":    {status: http.StatusForbidden},
		"it does not answer so": {status: http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "/version", r.URL.Path)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.status)
				_, err := fmt.Fprintf(w, `{"major":"1","minor":"34","gitVersion":%q}`, tc.version)
				assert.NoError(t, err)
			}))
			defer server.Close()
			c, err := Open("provider", &rest.Config{Host: server.URL}, "longshore")
			require.NoError(t, err)
			if err := c.CheckSigner(); tc.err != "" {
				require.ErrorContains(t, err, tc.err)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
