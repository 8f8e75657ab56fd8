package processnode

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestTallyFollowsThresholds(t *testing.T) {
	type answer struct {
		ok    bool
		after time.Duration
		want  verdict
	}
	cases := map[string]struct {
		probe   corev1.Probe
		answers []answer
	}{
		"one success is enough by default": {corev1.Probe{}, []answer{{true, 0, succeeded}}},
		"successes in a row": {corev1.Probe{SuccessThreshold: 2, FailureThreshold: 3}, []answer{
			{true, 0, undecided}, {false, time.Second, undecided}, {true, time.Second, undecided}, {true, time.Second, succeeded}}},
		"failures in a row": {corev1.Probe{PeriodSeconds: 2, FailureThreshold: 2}, []answer{
			{false, 0, undecided}, {true, 2 * time.Second, succeeded}, {false, 2 * time.Second, undecided}, {false, 2 * time.Second, failed}}},
		"eager questions count once a period": {corev1.Probe{PeriodSeconds: 1, FailureThreshold: 2}, []answer{
			{false, 0, undecided}, {false, 200 * time.Millisecond, undecided}, {false, 700 * time.Millisecond, undecided}, {false, 100 * time.Millisecond, failed}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			counts, now := &tally{probe: &tc.probe}, time.Unix(1000, 0)
			for i, a := range tc.answers {
				now = now.Add(a.after)
				assert.Equal(t, a.want, counts.record(a.ok, now), "answer %d", i)
			}
		})
	}
}

func TestProbes(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/fine" || r.Header.Get("X-Who") == "bad" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	port := func(server *httptest.Server) int {
		u, err := url.Parse(server.URL)
		require.NoError(t, err)
		number, err := strconv.Atoi(u.Port())
		require.NoError(t, err)
		return number
	}
	container := &corev1.Container{Name: "c", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(port(plain))}}}
	get := func(path, scheme string, p intstr.IntOrString) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: p, Scheme: corev1.URIScheme(scheme)}}
	}
	bad := get("/fine", "", intstr.FromString("web"))
	bad.HTTPGet.HTTPHeaders = []corev1.HTTPHeader{{Name: "X-Who", Value: "bad"}}
	cases := map[string]struct {
		handler corev1.ProbeHandler
		want    string
	}{
		"http by a port's name":     {get("/fine", "", intstr.FromString("web")), ""},
		"http by number":            {get("/fine", "HTTP", intstr.FromInt(port(plain))), ""},
		"https without a known CA":  {get("/fine", "HTTPS", intstr.FromInt(port(secure))), ""},
		"an answer with an error":   {get("/other", "", intstr.FromString("web")), "418"},
		"headers are sent":          {bad, "418"},
		"a name that is not there":  {get("/fine", "", intstr.FromString("other")), `no port named "other"`},
		"a port that listens":       {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("web")}}, ""},
		"a port that is not served": {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(1)}}, "connecting"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := probeOnce(t.Context(), &corev1.Probe{ProbeHandler: tc.handler}, container, "127.0.0.1")
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
