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

// maxReviewBytes is the maximum size of a review that is read here. Larger ones are passed to
// controller-runtime, which has its own limit.
const maxReviewBytes = 3 << 20

// server serves reviews like controller-runtime, but without decoding the pod, which takes more than
// half of the time of a review.
type server struct{ hook *admission.Webhook }

// Serve returns the HTTP handler of the webhook. Reviews with an unknown version, member or size, and
// errors, are passed to controller-runtime.
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
	defer func() { _ = r.Body.Close() }() // The body was read completely.
	response := s.hook.Handle(r.Context(), request)
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: reviewKind},
		Response: &response.AdmissionResponse,
	}
	// An error is an error of the connection.
	_ = json.NewEncoder(w).Encode(review)
}

type replayed struct {
	io.Reader
	io.Closer
}

const reviewKind = "AdmissionReview"

// readAll reads a body of at most maxReviewBytes. With an error it returns the bytes read so far.
func readAll(r *http.Request) ([]byte, error) {
	size := r.ContentLength
	if size < 0 || size > maxReviewBytes {
		return nil, fmt.Errorf("unsupported length of a review: %d bytes", size)
	}
	// One more byte to detect the end of the body.
	body := make([]byte, size+1)
	n, err := io.ReadFull(r.Body, body)
	if err != io.ErrUnexpectedEOF && err != io.EOF {
		return body[:n], fmt.Errorf("reading the body: %w", err)
	}
	return body[:n], nil
}

// readReview reads a review. It returns false if the version or a member is not known. The objects in
// the request share memory with the body.
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

// text returns a JSON string without escapes, or "".
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

// field returns a pointer to the field with the JSON name, or nil for objects and unknown names.
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
