package feed

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 2*firstBuffer)
	for name, test := range map[string]struct {
		encoding Encoding
		body     string
		want     []string
		err      error
	}{
		"no event":                                   {JSON, "", nil, nil},
		"two events":                                 {JSON, "{}\n[]\n", []string{"{}", "[]"}, nil},
		"an event longer than the buffer":            {JSON, long + "\n{}\n", []string{long, "{}"}, nil},
		"an event without an end":                    {JSON, "{}\n{\"ty", []string{"{}"}, io.ErrUnexpectedEOF},
		"an event of more than 16 MiB":               {JSON, "{}\n" + strings.Repeat("x", maxEvent) + "\n", []string{"{}"}, bufio.ErrTooLong},
		"no event with a length":                     {Protobuf, "", nil, nil},
		"two events with a length":                   {Protobuf, "\x00\x00\x00\x03one\x00\x00\x00\x04\ntwo", []string{"one", "\ntwo"}, nil},
		"a length of more than the buffer":           {Protobuf, "\x00\x02\x00\x00" + long + "\x00\x00\x00\x01.", []string{long, "."}, nil},
		"a length without its event":                 {Protobuf, "\x00\x00\x00\x01.\x00\x00\x00\x02.", []string{"."}, io.ErrUnexpectedEOF},
		"a part of a length":                         {Protobuf, "\x00\x00\x00\x01.\x00\x00", []string{"."}, io.ErrUnexpectedEOF},
		"a length of more than 16 MiB":               {Protobuf, "\x00\x00\x00\x01.\xff\xff\xff\xff" + strings.Repeat("x", maxEvent), []string{"."}, bufio.ErrTooLong},
		"JSON where the length of an event is meant": {Protobuf, "{}\n{}\n", nil, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			for how, body := range map[string]io.Reader{"at once": strings.NewReader(test.body), "in parts": iotest.HalfReader(strings.NewReader(test.body))} {
				var got []string
				events := test.encoding.Events(body)
				for events.Scan() {
					got = append(got, events.Text())
				}
				assert.Equal(t, test.want, got, how)
				assert.ErrorIs(t, events.Err(), test.err, how)
			}
		})
	}
}

func TestFramesAreReadAsTheEventsTheyWere(t *testing.T) {
	for _, encoding := range []Encoding{JSON, Protobuf} {
		body := string(encoding.Frame([]byte("fi"), []byte("rst"))) + string(encoding.Frame([]byte("second")))
		events := encoding.Events(strings.NewReader(body))
		for _, want := range []string{"first", "second"} {
			require.True(t, events.Scan())
			assert.Equal(t, want, events.Text())
		}
		assert.False(t, events.Scan())
		assert.NoError(t, events.Err())
	}
}

func TestTheEncodingOfAHeader(t *testing.T) {
	for header, want := range map[string]Encoding{
		"": JSON, "application/json": JSON, "text/html": JSON, "application/json;as=Table": JSON, ";;": JSON,
		"application/vnd.kubernetes.protobuf": Protobuf, "application/vnd.kubernetes.protobuf;stream=watch": Protobuf,
	} {
		assert.Equal(t, want, EncodingOf(header), header)
		assert.Equal(t, want, Accepted(header), header)
		assert.Equal(t, want, EncodingOf(want.ContentType()))
	}
	assert.Equal(t, Protobuf, Accepted("application/json, application/vnd.kubernetes.protobuf"))
	for _, encoding := range []Encoding{JSON, Protobuf} {
		assert.Equal(t, encoding, Accepted(encoding.Accept()))
	}
}

func TestABookmarkListsNamespaces(t *testing.T) {
	decode := map[Encoding]func(raw []byte) (kind string, object corev1.Pod){
		JSON: func(raw []byte) (string, corev1.Pod) {
			var e struct {
				Type   string
				Object corev1.Pod
			}
			require.NoError(t, json.Unmarshal(raw, &e))
			return e.Type, e.Object
		},
		Protobuf: func(raw []byte) (string, corev1.Pod) {
			var e metav1.WatchEvent
			require.NoError(t, e.Unmarshal(raw))
			var pod corev1.Pod
			_, kind, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(e.Object.Raw, nil, &pod)
			require.NoError(t, err)
			pod.SetGroupVersionKind(*kind)
			return e.Type, pod
		},
	}
	for encoding, decode := range decode {
		for _, namespaces := range [][]string{{"one", "two"}, nil} {
			raw, err := encoding.Bookmark(corev1.SchemeGroupVersion.WithKind("Pod"), "12", namespaces)
			require.NoError(t, err)
			events := encoding.Events(strings.NewReader(string(raw)))
			require.True(t, events.Scan())
			kind, pod := decode(events.Bytes())
			assert.Equal(t, "BOOKMARK", kind)
			assert.Equal(t, "12", pod.ResourceVersion)
			assert.Equal(t, "Pod", pod.Kind)
			got, ok := Namespaces(&pod)
			assert.True(t, ok)
			assert.Equal(t, namespaces, got)
		}
	}
}
