package remotecluster

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// answers is a transport that answers each request at once.
type answers struct {
	status     int
	retryAfter string
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}
	if a.retryAfter != "" {
		response.Header.Set("Retry-After", a.retryAfter)
	}
	return response, nil
}

// guarded returns the transport of a client of another cluster, which answers so.
func guarded(t *testing.T, a answers) http.RoundTripper {
	t.Helper()
	config, err := Guard(&rest.Config{Host: "https://milan.example"}, Limits{})
	require.NoError(t, err)
	return transport.Wrappers(config.WrapTransport)(a)
}

func TestAnotherClusterDoesNotChooseHowLongAClientWaits(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		for asked, want := range map[string]string{
			"": "", "0": "0", "1": "1", "10": "10", "11": "10", "31536000": "10", "9223372036854775808": "10", "-1": "10",
			"Wed, 21 Oct 2099 07:28:00 GMT": "10",
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://milan.example/api/v1/pods?watch=true", nil)
			require.NoError(t, err)
			response, err := guarded(t, answers{status, asked}).RoundTrip(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			assert.Equal(t, want, response.Header.Get("Retry-After"), "%d, %s", status, asked)
		}
	}
}

func TestAnswersThatAreErrorsComeAtABoundedRate(t *testing.T) {
	for status, want := range map[int]time.Duration{
		http.StatusOK: 0, http.StatusGone: 25 * time.Second, http.StatusBadRequest: 25 * time.Second, http.StatusInternalServerError: 25 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			milan, start := guarded(t, answers{status: status}), time.Now()
			for range failuresBurst + 25*failuresPerSecond {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://milan.example/api/v1/pods", nil)
				require.NoError(t, err)
				response, err := milan.RoundTrip(request)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
			}
			assert.InDelta(t, want.Seconds(), time.Since(start).Seconds(), 1, "%d", status)
		})
	}
}
