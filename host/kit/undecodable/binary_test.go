package undecodable_test

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/kit/undecodable"
)

const binaryType = "application/vnd.kubernetes.protobuf"

// field returns a field of a message in Protocol Buffers.
func field(number uint64, content []byte) []byte {
	const hasLength = 2
	tag := binary.AppendUvarint(nil, number<<3|hasLength)
	return append(binary.AppendUvarint(tag, uint64(len(content))), content...)
}

// binaryPod returns a pod in Protocol Buffers whose status has an amount. No encoder writes one as it is.
func binaryPod(amount string) []byte {
	entry := append(field(1, []byte("cpu")), field(2, field(1, []byte(amount)))...)
	return append(field(1, field(1, []byte("web"))), field(3, field(19, entry))...)
}

// enveloped returns an answer with an object.
func enveloped(t *testing.T, kind string, content []byte) []byte {
	t.Helper()
	answer, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: content}).Marshal()
	require.NoError(t, err)
	return append([]byte("k8s\x00"), answer...)
}

// binaryEvent returns an event of a watch.
func binaryEvent(t *testing.T, pod []byte) []byte {
	t.Helper()
	event := append(field(1, []byte("MODIFIED")), field(2, field(1, enveloped(t, "Pod", pod)))...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...) //nolint:gosec // It is short.
}

// The server of an honest provider may have what looks like a long amount: the client asks again in JSON, which
// shows what it is.
func TestWhatMayBeALongAmountIsAskedForInJSON(t *testing.T) {
	var accepted []string
	client := asking(t, clientgoscheme.Scheme, func(w http.ResponseWriter, r *http.Request) {
		accepted = append(accepted, r.Header.Get("Accept"))
		if strings.Contains(r.Header.Get("Accept"), binaryType) {
			w.Header().Set("Content-Type", binaryType)
			_, _ = w.Write(enveloped(t, "Pod", field(1, field(1, []byte("1e-300")))))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"1e-300"}}`))
	})
	_, err := client.CoreV1().Pods("shop").Get(t.Context(), "1e-300", metav1.GetOptions{})
	require.ErrorContains(t, err, "asked for in JSON from now on")
	for range 2 {
		found, err := client.CoreV1().Pods("shop").Get(t.Context(), "1e-300", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, "1e-300", found.Name)
	}
	const both = binaryType + ",application/json"
	assert.Equal(t, []string{both, "application/json", "application/json"}, accepted)
}

// A hostile provider answers in Protocol Buffers whatever it is asked for.
func TestLongAmountsInProtocolBuffersAreRefused(t *testing.T) {
	for name, amount := range map[string]string{
		"a long exponent": long, "with zeros": "1E-000000000000000000000000000000000000000000000000000030000000",
		"with a fraction": "-0.5e-30000000", "many digits": strings.Repeat("9", 1<<20) + "Ki",
		"as long as a letter says": strings.Repeat("1", 'e'-11) + "e-0000001000", "as long as a digit says": strings.Repeat("1", '0'-11) + "e-0000001000",
	} {
		t.Run(name, func(t *testing.T) {
			client := answering(t, clientgoscheme.Scheme, http.StatusOK, binaryType, string(enveloped(t, "Pod", binaryPod(amount))))
			_, err := client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
			require.ErrorContains(t, err, "asked for in JSON from now on")
			_, err = client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
			require.ErrorAs(t, err, new(*undecodable.AmountError))
		})
	}
}

func TestEventsInProtocolBuffersBeforeALongAmountArrive(t *testing.T) {
	var answer []byte
	for _, amount := range []string{"1", "1500m", long, "3"} {
		answer = append(answer, binaryEvent(t, binaryPod(amount))...)
	}
	client := answering(t, clientgoscheme.Scheme, http.StatusOK, binaryType+";stream=watch", string(answer))
	events, err := client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer events.Stop()
	assert.Equal(t, []string{"1", "1500m"}, cpusOf(t, events))
}

// What an API server answers with is not asked for again.
func TestUsualProtocolBuffersAreDecoded(t *testing.T) {
	for _, amount := range []string{"1", "1e3", "1e-9", "12E", "1500m", "1e30000000", strings.Repeat("9", 1000)} {
		client := answering(t, clientgoscheme.Scheme, http.StatusOK, binaryType, string(enveloped(t, "Pod", binaryPod(amount))))
		_, err := client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err, amount)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web-1e-4123", UID: "3f25041e-4123-41d3-9a0c-0305e82c3301", Annotations: map[string]string{"commit": "a-7e-1234567", "date": "2026-11-29T20:00:00Z"},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1.2.3-1e-2000", Args: []string{"--tolerance=1e-100"}}}
	raw, err := pod.Marshal()
	require.NoError(t, err)
	client := answering(t, clientgoscheme.Scheme, http.StatusOK, binaryType, string(enveloped(t, "Pod", raw)))
	found, err := client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, pod.Spec, found.Spec)
}

// What limits an answer in JSON, such as the number of its values, does not limit one in Protocol Buffers.
func TestProtocolBuffersThatWereNotAskedForAreRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", binaryType)
		_, err := w.Write(enveloped(t, "Pod", binaryPod("1")))
		assert.NoError(t, err)
	}))
	t.Cleanup(server.Close)
	for name, tc := range map[string]struct{ accepted, want string }{
		"asked for":     {binaryType + ",application/json", ""},
		"not asked for": {"application/json", "which was not asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: tc.accepted}}
			config.Wrap(undecodable.CheckAnswers(clientgoscheme.Scheme))
			client, err := kubernetes.NewForConfig(config)
			require.NoError(t, err)
			pod, err := client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "web", pod.Name)
		})
	}
}

func TestLargeEventsInProtocolBuffersAreNotRead(t *testing.T) {
	client := answering(t, clientgoscheme.Scheme, http.StatusOK, binaryType+";stream=watch", "\xff\xff\xff\xff"+strings.Repeat("\n", 100))
	events, err := client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer events.Stop()
	event := <-events.ResultChan()
	assert.Equal(t, watch.Error, event.Type)
	assert.ErrorContains(t, apierrors.FromObject(event.Object), "an event has more than 4 MiB")
}
