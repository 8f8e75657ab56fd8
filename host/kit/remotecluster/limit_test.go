package remotecluster_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// read returns what a guarded client reads of a response.
func read(t *testing.T, limits remotecluster.Limits, path string, handle http.HandlerFunc) ([]byte, error) {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	config, err := remotecluster.Guard(&rest.Config{Host: server.URL}, limits)
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		_, again := response.Body.Read(make([]byte, 1))
		assert.ErrorAs(t, again, new(*remotecluster.TooLargeError), "nothing can be read behind the limit")
	}
	return content, err
}

func TestResponsesAreLimited(t *testing.T) {
	const mib = 1 << 20
	send := func(size int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", size)) }
	}
	tests := map[string]struct {
		path   string
		handle http.HandlerFunc
		want   int // bytes that are read
		err    string
	}{
		"empty":              {handle: send(0)},
		"as large as it may": {handle: send(2 * mib), want: 2 * mib},
		"a byte more":        {handle: send(2*mib + 1), want: 2 * mib, err: "the answer is larger than 2 MiB"},
		"much more":          {handle: send(9 * mib), want: 2 * mib, err: "the answer is larger than 2 MiB"},
		"compressed": {handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/plain")
			bomb := gzip.NewWriter(w)
			_, _ = bomb.Write(make([]byte, 9*mib))
			_ = bomb.Close()
		}, want: 2 * mib, err: "the answer is larger than 2 MiB"},
		"a watch": {path: "/api/v1/pods?watch=true", handle: send(9 * mib), want: 2 * mib, err: "the answer is larger than 2 MiB"},
		"an error": {handle: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			send(9*mib)(w, r)
		}, want: mib, err: "the answer is larger than 1 MiB"},
		"the error of a log": {path: "/api/v1/namespaces/n/pods/p/log", handle: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			send(9*mib)(w, r)
		}, want: mib, err: "the answer is larger than 1 MiB"},
		"a log, which is not kept": {path: "/api/v1/namespaces/n/pods/p/log", handle: send(9 * mib), want: 9 * mib},
		"headers": {handle: func(w http.ResponseWriter, _ *http.Request) {
			for range 11 {
				w.Header().Add("X", strings.Repeat("x", mib))
			}
		}, err: "response headers exceeded"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			content, err := read(t, remotecluster.Limits{Response: 2 * mib}, tc.path, tc.handle)
			assert.Len(t, content, tc.want)
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.err)
		})
	}
}

// Pages have no end.
func TestAListIsWhole(t *testing.T) {
	list, options := &corev1.PodList{}, &metav1.ListOptions{Limit: 500}
	remotecluster.AskWhole(options)
	require.Zero(t, options.Limit)
	require.NoError(t, remotecluster.CheckWhole(options, list))
	list.Continue = "next"
	require.ErrorContains(t, remotecluster.CheckWhole(options, list), "a further page")
	one := &metav1.ListOptions{Limit: 1}
	remotecluster.AskWhole(one)
	require.NoError(t, remotecluster.CheckWhole(one, list), "which has others")
}

// Two bytes of JSON become an object of hundreds.
func TestValuesAreCounted(t *testing.T) {
	many := strings.Repeat("{},", 60)
	for name, tc := range map[string]struct {
		path, body string
		isErr      bool
	}{
		"few values":                     {body: `{"items":[{"a":1,"b":[2,3]}]}`},
		"too many objects":               {body: `{"items":[` + many + `{}]}`, isErr: true},
		"too many lists":                 {body: strings.Repeat("[", 101) + strings.Repeat("]", 101), isErr: true},
		"too many numbers":               {body: `[` + strings.Repeat("1,", 101) + `1]`, isErr: true},
		"a text with signs":              {body: `{"text":"` + many + many + `\"` + many + `"}`},
		"a text that ends in an escape":  {body: `{"text":"\\","items":[` + many + `{}]}`, isErr: true},
		"the events of a watch":          {path: "/api/v1/pods?watch=true", body: strings.Repeat(`{"type":"ADDED","object":{}}`+"\n", 200)},
		"an event of a watch":            {path: "/api/v1/pods?watch=true", body: `{"items":[` + many + `{}]}`, isErr: true},
		"a line break in another answer": {body: strings.Repeat("[\n", 101), isErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := read(t, remotecluster.Limits{Values: 100}, tc.path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tc.body) })
			if tc.isErr {
				require.ErrorContains(t, err, "more than 100 values")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.body, string(content))
		})
	}
}

// A line of a watch is an event: its limits begin anew with each, and a client reads on until the event ends.
func TestAnEventOfAWatchIsALine(t *testing.T) {
	const event = `{"type":"ADDED","object":{"kind":"Pod"}}`
	part := strings.Repeat("{},", 60)
	for name, tc := range map[string]struct{ body, want, err string }{
		"events":                       {body: event + "\n" + event + "\n", want: event + "\n" + event + "\n"},
		"empty lines":                  {body: "\n" + event + "\r\n\n", want: "\n" + event + "\r\n\n"},
		"no line break at the end":     {body: event + "\n" + event, want: event + "\n" + event},
		"a connection that ends early": {body: event + "\n" + event[:20], want: event + "\n", err: "unexpected EOF"},
		"line breaks in an event": {
			body: event + "\n" + `{"type":"ADDED","object":{"items":[` + strings.Repeat(part+"\n", 100) + `{}]}}` + "\n", want: event + "\n", err: "a line of it is not an event in JSON",
		},
		"two events in a line": {body: event + event + "\n", err: "a line of it is not an event in JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, tc.body)
			}))
			t.Cleanup(server.Close)
			config, err := remotecluster.Guard(&rest.Config{Host: server.URL}, remotecluster.Limits{Values: 100})
			require.NoError(t, err)
			client, err := rest.HTTPClientFor(config)
			require.NoError(t, err)
			response, err := client.Get(server.URL + "/api/v1/pods?watch=true")
			require.NoError(t, err)
			defer response.Body.Close()
			content, err := io.ReadAll(response.Body)
			assert.Equal(t, tc.want, string(content))
			if tc.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.err)
			}
		})
	}
}

// The answer to a request has the smaller limit of the request and its client.
func TestRequestsHaveTheirOwnLimits(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "[0,0,0,0]"+strings.Repeat(" ", 91))
	}))
	t.Cleanup(server.Close)
	for name, tc := range map[string]struct {
		client remotecluster.Limits
		size   int64
		values int
		err    string
	}{
		"room":                           {remotecluster.Limits{Values: remotecluster.AnyNumber}, 100, 4, ""},
		"fewer bytes":                    {remotecluster.Limits{Values: remotecluster.AnyNumber}, 99, 4, "the answer is larger than 0 KiB"},
		"fewer values":                   {remotecluster.Limits{Values: remotecluster.AnyNumber}, 100, 3, "the answer has more than 3 values"},
		"the client has smaller ones":    {remotecluster.Limits{Response: 99}, 100, 4, "the answer is larger than 0 KiB"},
		"the client has a smaller count": {remotecluster.Limits{Values: 2}, 100, 4, "the answer has more than 2 values"},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := remotecluster.Guard(&rest.Config{Host: server.URL}, tc.client)
			require.NoError(t, err)
			client, err := rest.HTTPClientFor(config)
			require.NoError(t, err)
			request, err := http.NewRequestWithContext(remotecluster.WithLimits(t.Context(), tc.size, tc.values), http.MethodGet, server.URL, http.NoBody)
			require.NoError(t, err)
			response, err := client.Do(request)
			require.NoError(t, err)
			defer response.Body.Close()
			_, err = io.ReadAll(response.Body)
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.err)
		})
	}
}

func TestAnEventOfAWatchIsLimited(t *testing.T) {
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		lines []int
		err   string
	}{
		"many events":                  {lines: []int{mib, 2 * mib, 3 * mib, 4*mib - 1, 10}},
		"one that does not end":        {lines: []int{5 * mib}, err: "the answer is larger than 4 MiB"},
		"one behind others is too big": {lines: []int{mib, mib, 5 * mib}, err: "the answer is larger than 4 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, remotecluster.Limits{}, "/api/v1/pods?watch=true", func(w http.ResponseWriter, _ *http.Request) {
				for _, length := range tc.lines {
					_, _ = io.WriteString(w, strings.Repeat("x", length)+"\n")
				}
			})
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			assert.EqualError(t, err, tc.err)
		})
	}
}
