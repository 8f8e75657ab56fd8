package undecodable_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/kit/undecodable"
)

// long takes 7 s or more to decode: the test would not end in time without the check.
const long = "1e-2000000000"

func podWith(amount string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"commit":"7e1234567"}},"status":{"allocatedResources":{"cpu":` + amount + `}}}`
}

func podList(pods ...string) string {
	return `{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"1"},"items":[` + strings.Join(pods, ",") + `]}`
}

// answering returns a client of a server with one answer.
func answering(t *testing.T, types *runtime.Scheme, status int, contentType, answer string) kubernetes.Interface {
	t.Helper()
	return asking(t, types, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, err := fmt.Fprint(w, answer)
		assert.NoError(t, err)
	})
}

// asking returns a client of a server that prefers Protocol Buffers.
func asking(t *testing.T, types *runtime.Scheme, handle http.HandlerFunc) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
		ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
	}}
	config.Wrap(undecodable.CheckAnswers(types))
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// An answer of another cluster with an amount that would take long is refused before it is decoded.
func TestLongAmountsAreRefused(t *testing.T) {
	const json = "application/json"
	yaml := "apiVersion: v1\nkind: PodList\nitems:\n- status: {allocatedResources: {cpu: " + long + "}}\n"
	for name, tc := range map[string]struct{ contentType, answer, want string }{
		"common amounts":               {json, podList(podWith(`"1500m"`), podWith(`"1e3"`), podWith(`"12E"`), podWith("4")), ""},
		"a long negative exponent":     {json, podList(podWith(`"1"`), podWith(`"`+long+`"`)), "items[1].status.allocatedResources.cpu has more than"},
		"a long positive exponent":     {json, podList(podWith(`"1E+30000000"`), podWith(`"1e30000000"`)), ""},
		"many digits, decoded at once": {json, podList(podWith(`"` + strings.Repeat("9", 1000) + `"`)), ""},
		"with another space":           {json, podList(podWith("\"\u00a01e-30000000\u2003\"")), "items[0].status.allocatedResources.cpu has more than"},
		"with spaces":                  {json, podList(podWith(`" 1e-30000000 "`)), "items[0].status.allocatedResources.cpu has more than"},
		"a number":                     {json, podList(podWith("-1.5e-30000000")), "items[0].status.allocatedResources.cpu has more than"},
		"many digits":                  {json, podList(podWith(`"` + strings.Repeat("9", 1<<20) + `Ki"`)), "items[0].status.allocatedResources.cpu has more than"},
		"many digits behind a point":   {json, podList(podWith(`"0.` + strings.Repeat("9", 1<<20) + `"`)), "items[0].status.allocatedResources.cpu has more than"},
		"twice":                        {json, podList(podWith(`"` + long + `","cpu":"1"`)), "is no valid JSON"},
		"an object without a kind":     {json, `{"items":[` + podWith(`"`+long+`"`) + `]}`, "does not say of which kind it is"},
		"a kind in capitals":           {json, strings.Replace(podList(podWith(`"`+long+`"`)), `"metadata"`, `"KIND":"ConfigMapList","metadata"`, 1), "allocatedResources.cpu has more than"},
		"with a parameter":             {"application/json; charset=utf-8", podList(podWith(`"` + long + `"`)), "allocatedResources.cpu has more than"},
		"in YAML":                      {"application/yaml", yaml, `it is of the type "application/yaml", which was not asked for`},
		"of no type":                   {"", podList(podWith(`"` + long + `"`)), `it is of the type "", which was not asked for`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := answering(t, clientgoscheme.Scheme, http.StatusOK, tc.contentType, tc.answer).CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			assert.ErrorAs(t, err, new(*undecodable.AmountError))
		})
	}
}

// Text that is no amount is decoded, whatever it looks like: a user of the consumer writes it.
func TestTextThatLooksLikeAnAmountStays(t *testing.T) {
	configMap := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"1e1234567"},"data":{"limit":"` + long + `","digits":"` + strings.Repeat("9", 100) + `"}}`
	found, err := answering(t, clientgoscheme.Scheme, http.StatusOK, "application/json", configMap).CoreV1().ConfigMaps("shop").Get(t.Context(), "1e1234567", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, long, found.Data["limit"])
	_, err = answering(t, nil, http.StatusOK, "application/json", configMap).CoreV1().ConfigMaps("shop").Get(t.Context(), "1e1234567", metav1.GetOptions{})
	require.ErrorAs(t, err, new(*undecodable.AmountError), "without types nobody knows")
}

// client-go decodes the answer that says why a request failed as what that says that it is.
func TestALongAmountInAnErrorIsRefused(t *testing.T) {
	client := answering(t, clientgoscheme.Scheme, http.StatusNotFound, "application/json", podWith(`"`+long+`"`))
	_, err := client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	require.ErrorAs(t, err, new(*undecodable.AmountError))
	_, err = client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
	require.ErrorAs(t, err, new(*undecodable.AmountError))
}

func TestEventsBeforeALongAmountArrive(t *testing.T) {
	event := func(pod string) string { return `{"type":"MODIFIED","object":` + pod + "}\n" }
	client := answering(t, clientgoscheme.Scheme, http.StatusOK, "application/json", event(podWith(`"1"`))+event(podWith(`"2"`))+event(podWith(`"`+long+`"`))+event(podWith(`"3"`)))
	events, err := client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer events.Stop()
	assert.Equal(t, []string{"1", "2"}, cpusOf(t, events))
}

// cpusOf returns the amounts in the events of a watch until it ends.
func cpusOf(t *testing.T, events watch.Interface) (cpus []string) {
	t.Helper()
	for event := range events.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			assert.Equal(t, watch.Modified, event.Type)
			cpu := pod.Status.AllocatedResources[corev1.ResourceCPU]
			cpus = append(cpus, cpu.String())
		}
	}
	return cpus
}

// A burst of pods in many namespaces is read at once.
func TestEventsHaveARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endless := undecodable.CheckAnswers(clientgoscheme.Scheme)(respond(func(*http.Request) *http.Response {
			return &http.Response{
				StatusCode: http.StatusOK, ContentLength: -1, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(lines{}),
			}
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://milan/api/v1/pods?watch=true", http.NoBody)
		require.NoError(t, err)
		response, err := endless.RoundTrip(request)
		require.NoError(t, err)
		began := time.Now()
		read, err := io.CopyN(io.Discard, response.Body, 40_000)
		require.NoError(t, err)
		assert.EqualValues(t, 40_000, read)
		assert.InDelta(t, 20, time.Since(began).Seconds(), 1)
		_, err = io.Copy(io.Discard, response.Body)
		require.Error(t, err, "it ends with its request")
	})
}

type respond func(*http.Request) *http.Response

// RoundTrip implements http.RoundTripper.
func (r respond) RoundTrip(request *http.Request) (*http.Response, error) { return r(request), nil }

// lines is endless.
type lines struct{}

// Read implements io.Reader.
func (lines) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}
