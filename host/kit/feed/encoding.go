package feed

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// firstBuffer and maxEvent bound the memory for one event. etcd refuses objects of more than 1.5 MiB.
	firstBuffer = 64 << 10
	maxEvent    = 16 << 20
	// lengthSize is how many bytes before an event in Protocol Buffers have its length.
	lengthSize = 4
)

// Encoding is the content type of a watch. Its events are framed as those of an API server.
type Encoding string

const (
	// JSON is the encoding of all kinds. An event is a line.
	JSON Encoding = "application/json"
	// Protobuf is the encoding of built-in kinds. An event is a metav1.WatchEvent after its length.
	Protobuf Encoding = "application/vnd.kubernetes.protobuf"
)

// Accepted returns the encoding to ask an API server for, by the header Accept of a caller.
func Accepted(header string) Encoding {
	for accepted := range strings.SplitSeq(header, ",") {
		if EncodingOf(accepted) == Protobuf {
			return Protobuf
		}
	}
	return JSON
}

// EncodingOf returns the encoding of a content type. Its parameters are ignored, and others are JSON.
func EncodingOf(contentType string) Encoding {
	if mediaType, _, err := mime.ParseMediaType(contentType); err == nil && mediaType == string(Protobuf) {
		return Protobuf
	}
	return JSON
}

// Accept returns the header Accept of a request that prefers the encoding. Custom resources are JSON only.
func (e Encoding) Accept() string {
	if e == Protobuf {
		return string(Protobuf) + "," + string(JSON)
	}
	return string(JSON)
}

// ContentType returns the header Content-Type of a watch.
func (e Encoding) ContentType() string {
	if e == Protobuf {
		return string(Protobuf) + ";stream=watch"
	}
	return string(JSON)
}

// Events returns a scanner of the events of a watch. Its error is io.ErrUnexpectedEOF if the last event is not
// whole.
func (e Encoding) Events(body io.Reader) *bufio.Scanner {
	events := bufio.NewScanner(body)
	events.Buffer(make([]byte, 0, firstBuffer), maxEvent)
	events.Split(func(data []byte, atEOF bool) (advance int, event []byte, err error) {
		start, end, size := e.next(data)
		switch {
		case size > 0 && size <= len(data):
			return size, data[start:end], nil
		case atEOF && len(data) > 0:
			return 0, nil, io.ErrUnexpectedEOF
		default:
			return 0, nil, nil
		}
	})
	return events
}

// next returns where the first event of data begins and ends, and the size of its frame, zero if that is not known
// yet.
func (e Encoding) next(data []byte) (start, end, size int) {
	if e == JSON {
		end = bytes.IndexByte(data, '\n')
		return 0, end, end + 1
	}
	if len(data) < lengthSize {
		return 0, 0, 0
	}
	size = lengthSize + int(binary.BigEndian.Uint32(data))
	return lengthSize, size, size
}

// Frame returns an event as it is written: in JSON a line, in Protocol Buffers its length and the event. The event
// is the concatenation of parts, to which Frame keeps no reference.
func (e Encoding) Frame(parts ...[]byte) []byte {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	framed := make([]byte, 0, size+lengthSize)
	if e == Protobuf {
		framed = binary.BigEndian.AppendUint32(framed, uint32(size))
	}
	for _, part := range parts {
		framed = append(framed, part...)
	}
	if e == JSON {
		framed = append(framed, '\n')
	}
	return framed
}

// Bookmark returns the frame of the watch event that lists the namespaces whose events follow a resource version.
func (e Encoding) Bookmark(kind schema.GroupVersionKind, version string, namespaces []string) ([]byte, error) {
	object := metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: version,
			Annotations:     map[string]string{NamespacesAnnotation: strings.Join(slices.Sorted(slices.Values(namespaces)), ",")},
		},
	}
	if e == Protobuf {
		return ProtobufEvent(watch.Bookmark, &object)
	}
	raw, err := json.Marshal(map[string]any{"type": watch.Bookmark, "object": object})
	if err != nil {
		return nil, fmt.Errorf("encoding a bookmark: %w", err)
	}
	return e.Frame(raw), nil
}

// ProtobufEvent returns the frame of a watch event in Protocol Buffers. The object has its kind set.
func ProtobufEvent(kind watch.EventType, object runtime.Object) ([]byte, error) {
	var encoded bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(object, &encoded); err != nil {
		return nil, fmt.Errorf("encoding the object of a watch event: %w", err)
	}
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: encoded.Bytes()}}
	raw, err := event.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encoding a watch event: %w", err)
	}
	return Protobuf.Frame(raw), nil
}
