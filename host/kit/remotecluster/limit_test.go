package remotecluster_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

func TestResponsesAreLimited(t *testing.T) {
	for name, test := range map[string]struct {
		size    int
		refused bool
	}{
		"empty":              {size: 0},
		"as large as it may": {size: 1 << 20},
		"a byte more":        {size: 1<<20 + 1, refused: true},
		"much more":          {size: 5 << 20, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat("x", test.size))
			}))
			defer server.Close()
			client, err := rest.HTTPClientFor(remotecluster.LimitResponses(&rest.Config{Host: server.URL}, 1<<20))
			require.NoError(t, err)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
			require.NoError(t, err)
			response, err := client.Do(request)
			require.NoError(t, err)
			defer response.Body.Close()
			content, err := io.ReadAll(response.Body)
			require.Len(t, content, min(test.size, 1<<20))
			if !test.refused {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, "the answer is larger than 1 MiB")
			_, err = response.Body.Read(make([]byte, 1))
			require.ErrorAs(t, err, new(*remotecluster.TooLargeError))
		})
	}
}
