package undecodable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

func (f *Filter) roundTripper(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		in, isFiltered := request.Context().Value(search{}).(*search)
		if err != nil || !isFiltered || response.StatusCode != http.StatusOK ||
			!strings.HasPrefix(response.Header.Get("Content-Type"), runtime.ContentTypeJSON) {
			return response, err //nolint:wrapcheck // A RoundTripper's errors are those of the next one.
		}
		if isWatch(request) {
			response.Body = f.events(response.Body, in)
		} else if response.Body, err = f.list(response.Body, in); err != nil {
			return nil, err
		}
		response.ContentLength = -1
		response.Header.Del("Content-Length")
		return response, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// list returns a list in which items that cannot be decoded are as they were before, if that is known.
func (f *Filter) list(body io.ReadCloser, in *search) (io.ReadCloser, error) {
	raw, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, fmt.Errorf("reading a list: %w", err)
	}
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        json.RawMessage   `json:"metadata,omitempty"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("decoding a list: %w", err)
	}
	kind := list.GroupVersionKind()
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	items := make([]json.RawMessage, 0, len(list.Items))
	for _, item := range list.Items {
		if left := f.leaveOut(item, kind); left != nil {
			in.isFound.Store(true)
			if item = in.before(left); item == nil {
				continue
			}
		}
		items = append(items, item)
	}
	list.Items = items
	if raw, err = json.Marshal(list); err != nil {
		return nil, fmt.Errorf("encoding a list: %w", err)
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}

// leaveOut returns what identifies an object that cannot be decoded, and reports it; nil for one that can
// be, and for one of an unknown kind, which the caller refuses.
func (f *Filter) leaveOut(raw []byte, kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	err := f.decode(raw, kind)
	if err == nil {
		return nil
	}
	left := &metav1.PartialObjectMetadata{}
	if json.Unmarshal(raw, left) != nil { // The API server has decoded the metadata of what it stores.
		left = &metav1.PartialObjectMetadata{}
	}
	if left.Kind == "" {
		left.SetGroupVersionKind(kind)
	}
	f.report(left, err)
	return left
}

// decode returns an error that names the field for an object that cannot be decoded.
func (f *Filter) decode(raw []byte, kind schema.GroupVersionKind) error {
	var typed metav1.TypeMeta
	if err := json.Unmarshal(raw, &typed); err == nil && typed.Kind != "" {
		kind = typed.GroupVersionKind()
	}
	object, err := f.scheme.New(kind)
	if err != nil {
		return nil // Of an unknown kind.
	}
	as := reflect.TypeOf(object)
	if err := checkAmounts(raw, as); err != nil {
		return err
	}
	if _, _, err = f.decoder.Decode(raw, &kind, nil); err == nil {
		return nil
	}
	if field := fieldOf(raw, as); field != "" {
		return fmt.Errorf("%s: %w", field, err)
	}
	return fmt.Errorf("decoding: %w", err)
}

// events returns the events of a watch. A change to an object that cannot be decoded is none; at the beginning
// of a watch, such an object is as it was before.
func (f *Filter) events(body io.ReadCloser, in *search) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		decoder, encoder := json.NewDecoder(body), json.NewEncoder(writer)
		for {
			var event struct {
				Type   watch.EventType `json:"type"`
				Object json.RawMessage `json:"object"`
			}
			if err := decoder.Decode(&event); err != nil {
				writer.CloseWithError(err) // io.EOF at the end
				return
			}
			if event.Type != watch.Error && event.Type != watch.Bookmark {
				if left := f.leaveOut(event.Object, schema.GroupVersionKind{}); left != nil {
					in.isFound.Store(true)
					event.Object = in.instead(event.Type, left)
					if event.Object == nil {
						continue
					}
				}
			}
			if encoder.Encode(event) != nil {
				return // The reader has closed it.
			}
		}
	}()
	return &stream{PipeReader: reader, body: body}
}

type stream struct {
	*io.PipeReader
	body io.Closer
}

// Close implements io.Closer.
func (s *stream) Close() error { return errors.Join(s.PipeReader.Close(), s.body.Close()) }
