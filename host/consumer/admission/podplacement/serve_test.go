package podplacement

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// review returns a request of the API server with all fields.
func review(t *testing.T) []byte {
	t.Helper()
	kind, resource, dryRun := metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, true
	request := &admissionv1.AdmissionRequest{
		UID: "u-1", Kind: kind, Resource: resource, SubResource: "status", RequestKind: &kind, RequestResource: &resource,
		RequestSubResource: "status", Name: "web \"0\" é", Namespace: "shop", Operation: admissionv1.Create,
		UserInfo: authenticationv1.UserInfo{Username: "ada", UID: "1", Groups: []string{"a", "b"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
		Object:   runtime.RawExtension{Raw: []byte(rawPod)}, OldObject: runtime.RawExtension{Raw: []byte(`{"kind":"Pod"}`)},
		DryRun: &dryRun, Options: runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions"}`)},
	}
	fields := reflect.ValueOf(*request)
	for i := range fields.NumField() {
		require.False(t, fields.Field(i).IsZero(), "the test does not fill %s, which readMember may not know", fields.Type().Field(i).Name)
	}
	data, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request})
	require.NoError(t, err)
	return data
}

// TestServeEqualsControllerRuntime compares requests, responses and errors with those of
// controller-runtime.
func TestServeEqualsControllerRuntime(t *testing.T) {
	whole := string(review(t))
	for name, tc := range map[string]struct {
		body, contentType string
		unknownLength     bool
		// read is true if readReview accepts the body.
		read bool
	}{
		"all fields":                                  {body: whole, read: true},
		"few fields":                                  {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","object":{"spec":{}},"oldObject":null}}`, read: true},
		"spaces":                                      {body: " { \"kind\" : \"AdmissionReview\",\n\"apiVersion\":\"admission.k8s.io/v1\" , \"request\" : { \"uid\" : \"\\u0075\" } } ", read: true},
		"an unknown length":                           {body: whole, unknownLength: true, read: true},
		"an older version":                            {body: strings.Replace(whole, "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1)},
		"an unknown version":                          {body: strings.Replace(whole, "admission.k8s.io/v1", "admission.k8s.io/v9", 1)},
		"another kind":                                {body: strings.Replace(whole, `"AdmissionReview"`, `"Pod"`, 1)},
		"an unknown member":                           {body: strings.Replace(whole, `"uid"`, `"future":{},"uid"`, 1)},
		"a member in another case":                    {body: strings.Replace(whole, `"uid"`, `"Uid"`, 1)},
		"a member of another type":                    {body: strings.Replace(whole, `"uid":"u-1"`, `"uid":1`, 1)},
		"user info in another case":                   {body: strings.Replace(whole, `"username"`, `"Username"`, 1), read: true},
		"no request":                                  {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`},
		"an invalid request":                          {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":[]}`},
		"truncated":                                   {body: whole[:len(whole)/2]},
		"more than a review":                          {body: whole + "{}"},
		"a pod that is not JSON":                      {body: strings.Replace(whole, `"futureField"`, `futureField`, 1)},
		"a pod that is not an object":                 {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","object":[1]}}`, read: true},
		"an empty body":                               {body: ""},
		"another content type":                        {body: whole, contentType: "application/yaml", read: true},
		"larger than maxReviewBytes":                  {body: strings.Replace(whole, "shop", strings.Repeat("s", maxReviewBytes), 1), read: true},
		"larger than the limit of controller-runtime": {body: strings.Replace(whole, "shop", strings.Repeat("s", 7<<20), 1), read: true},
	} {
		t.Run(name, func(t *testing.T) {
			var requests [2]*admission.Request
			var answers [2]*httptest.ResponseRecorder
			for n := range 2 {
				hook := &admission.Webhook{Handler: admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
					requests[n] = &request
					return admission.Allowed("fine").WithWarnings("w")
				})}
				served := http.Handler(hook)
				if n == 1 {
					served = &server{hook: hook}
				}
				request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader([]byte(tc.body)))
				request.Header.Set("Content-Type", "application/json")
				if tc.contentType != "" {
					request.Header.Set("Content-Type", tc.contentType)
				}
				if tc.unknownLength {
					request.ContentLength, request.Body = -1, io.NopCloser(strings.NewReader(tc.body))
				}
				answers[n] = httptest.NewRecorder()
				served.ServeHTTP(answers[n], request)
			}
			assert.Equal(t, requests[0], requests[1], "what the handler is asked")
			assert.Equal(t, answers[0].Code, answers[1].Code)
			assert.Equal(t, answers[0].Body.String(), answers[1].Body.String())
			assert.Equal(t, tc.read, readReview([]byte(tc.body), &admissionv1.AdmissionRequest{}), "whether we read the text")
		})
	}
}

func TestAnErrorOfTheBodyIsReturned(t *testing.T) {
	answer := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, io.MultiReader(strings.NewReader("{"), failing{}))
	request.Header.Set("Content-Type", "application/json")
	request.ContentLength = 100
	Serve(&Handler{}).ServeHTTP(answer, request)
	assert.Contains(t, answer.Body.String(), "the link is gone")
	assert.Contains(t, answer.Body.String(), `"allowed":false`)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the link is gone") }
