package feed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"

	"github.com/longshore-dev/longshore/host/kit/feed"
)

// Reader opens watches of a feed. client-go decodes those of built-in kinds, which are in Protocol Buffers if the
// feed has them. Those of custom resources are JSON, which client-go decodes three times, first for the type of the
// event, then for the kind of the object: the Reader knows the kind, and decodes each event once.
type Reader struct {
	builtIn, custom rest.Interface
	scheme          *runtime.Scheme
}

// NewReader returns a Reader of the provider's feed, for the kinds of a scheme.
func NewReader(config *rest.Config, scheme *runtime.Scheme) (*Reader, error) {
	builtIn, err := unversioned(config, feed.Protobuf)
	if err != nil {
		return nil, err
	}
	custom, err := unversioned(config, feed.JSON)
	if err != nil {
		return nil, err
	}
	return &Reader{builtIn: builtIn, custom: custom, scheme: scheme}, nil
}

func unversioned(config *rest.Config, preferred feed.Encoding) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, preferred.Accept()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the feed: %w", err)
	}
	return client, nil
}

// watch opens the watch of a kind. Its context ends it.
func (r *Reader) watch(ctx context.Context, kind schema.GroupVersionKind, options *metav1.ListOptions) (watch.Interface, error) {
	resource, _ := feed.ResourceOf(kind)
	watching := *options
	watching.Watch = true
	begin := func(client rest.Interface) *rest.Request {
		return client.Get().AbsPath(feed.Path, resource).
			SpecificallyVersionedParams(&watching, clientgoscheme.ParameterCodec, corev1.SchemeGroupVersion)
	}
	if clientgoscheme.Scheme.Recognizes(kind) {
		w, err := begin(r.builtIn).Watch(ctx)
		if err != nil {
			return nil, fmt.Errorf("watching the feed: %w", err)
		}
		return w, nil
	}
	body, err := begin(r.custom).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("watching the feed: %w", err)
	}
	events := &decoder{body: body, events: feed.JSON.Events(body), empty: func() (runtime.Object, error) { return r.scheme.New(kind) }}
	return watch.NewStreamWatcher(events, apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "ClientWatchDecoding")), nil
}

// decoder reads the events of one watch. It implements watch.Decoder.
type decoder struct {
	body   io.Closer
	events *bufio.Scanner
	// empty returns an object of the watched kind.
	empty func() (runtime.Object, error)
}

// Close implements watch.Decoder.
func (d *decoder) Close() { _ = d.body.Close() } // It is only read.

// Decode implements watch.Decoder. Its error is io.EOF at the end of the watch.
func (d *decoder) Decode() (watch.EventType, runtime.Object, error) {
	if !d.events.Scan() {
		if err := d.events.Err(); err != nil {
			return "", nil, err //nolint:wrapcheck // NewStreamWatcher compares it.
		}
		return "", nil, io.EOF
	}
	object, err := d.empty()
	if err != nil {
		return "", nil, fmt.Errorf("decoding an event of the feed: %w", err)
	}
	event := d.events.Bytes()
	if isError(event) {
		object = &metav1.Status{}
	}
	read := struct {
		Type   watch.EventType `json:"type"`
		Object any             `json:"object"`
	}{Object: object}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(event, &read); err != nil {
		return "", nil, fmt.Errorf("decoding an event of the feed: %w", err)
	}
	switch read.Type {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error:
	default:
		return "", nil, fmt.Errorf("decoding an event of the feed: unknown type %q", read.Type)
	}
	// As the decoders of client-go do.
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return read.Type, object, nil
}

// isError reports whether an event is of type ERROR, and its object a Status.
func isError(event []byte) bool {
	if !bytes.Contains(event, []byte(`"ERROR"`)) {
		return false
	}
	var read struct {
		Type watch.EventType `json:"type"`
	}
	return json.Unmarshal(event, &read) == nil && read.Type == watch.Error
}
