package podplacement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
)

// maxReviewBytes bounds what is read here; controller-runtime has its own bound.
const maxReviewBytes = 3 << 20

// server serves reviews as controller-runtime does, but reads the usual ones without
// decoding the pod: of a review, reading it took more than half of the time.
type server struct{ hook *admission.Webhook }

// Serve returns the HTTP side of the webhook. What is unusual in a review, from its
// version to its size, is left to controller-runtime, and so is every error.
func Serve(h *Handler) http.Handler { return &server{hook: &admission.Webhook{Handler: h}} }

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || r.Header.Get("Content-Type") != "application/json" {
		s.hook.ServeHTTP(w, r)
		return
	}
	body, err := readAll(r)
	request := admission.Request{}
	if err != nil || !readReview(body, &request.AdmissionRequest) {
		again := r.WithContext(r.Context())
		again.Body = &replayed{Reader: io.MultiReader(bytes.NewReader(body), r.Body), Closer: r.Body}
		s.hook.ServeHTTP(w, again)
		return
	}
	defer func() { _ = r.Body.Close() }() // it was read
	response := s.hook.Handle(r.Context(), request)
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: reviewKind},
		Response: &response.AdmissionResponse,
	}
	// An error is that of the connection: there is nobody to tell.
	_ = json.NewEncoder(w).Encode(review)
}

type replayed struct {
	io.Reader
	io.Closer
}

const reviewKind = "AdmissionReview"

// readAll reads a body of usual size; what was read comes with an error, too.
func readAll(r *http.Request) ([]byte, error) {
	size := r.ContentLength
	if size < 0 || size > maxReviewBytes {
		return nil, fmt.Errorf("a review of %d bytes", size)
	}
	// One more byte, so that the end is seen without growing.
	body := make([]byte, size+1)
	n, err := io.ReadFull(r.Body, body)
	if err != io.ErrUnexpectedEOF && err != io.EOF {
		return body[:n], fmt.Errorf("the body does not end: %w", err)
	}
	return body[:n], nil
}

// readReview reads a review of this version whose members are all known; the objects in
// it share memory with the body.
func readReview(body []byte, request *admissionv1.AdmissionRequest) bool {
	review, err := jsonvalue.Split(body, "request")
	if err != nil || text(review["apiVersion"]) != admissionv1.SchemeGroupVersion.String() || text(review["kind"]) != reviewKind {
		return false
	}
	members, ok := review["request"].(map[string]any)
	if !ok {
		return false
	}
	for name, value := range members {
		raw, isText := value.(json.RawMessage)
		if !isText || !readMember(name, raw, request) {
			return false
		}
	}
	return true
}

// text returns a string without escapes, else "".
func text(value any) string {
	raw, ok := value.(json.RawMessage)
	if !ok || len(raw) < 2 || raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return ""
	}
	return string(raw[1 : len(raw)-1])
}

func readMember(name string, raw json.RawMessage, request *admissionv1.AdmissionRequest) bool {
	switch name {
	case "object":
		request.Object.Raw = raw
	case "oldObject":
		request.OldObject.Raw = raw
	case "options":
		request.Options.Raw = raw
	default:
		target := field(name, request)
		return target != nil && utiljson.Unmarshal(raw, target) == nil
	}
	return true
}

// field is the field of that JSON name, nil for objects and for what we do not know.
func field(name string, request *admissionv1.AdmissionRequest) any {
	var target any
	switch name {
	case "uid":
		target = &request.UID
	case "kind":
		target = &request.Kind
	case "resource":
		target = &request.Resource
	case "subResource":
		target = &request.SubResource
	case "requestKind":
		target = &request.RequestKind
	case "requestResource":
		target = &request.RequestResource
	case "requestSubResource":
		target = &request.RequestSubResource
	case "name":
		target = &request.Name
	case "namespace":
		target = &request.Namespace
	case "operation":
		target = &request.Operation
	case "userInfo":
		target = &request.UserInfo
	case "dryRun":
		target = &request.DryRun
	}
	return target
}
