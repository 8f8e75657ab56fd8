// Package namespaceoffloading serves the webhook that validates NamespaceOffloadings.
package namespaceoffloading

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Path is the URL path of the webhook.
const Path = "/validate/namespace-offloading"

// Handler answers admission requests for NamespaceOffloadings.
type Handler struct {
	// Decoder decodes the wire objects.
	Decoder admission.Decoder
	// Reader reads the namespaces of new NamespaceOffloadings without a cache, which may not have
	// a new namespace yet.
	Reader client.Reader
	// ClusterID is the ID of the local cluster.
	ClusterID string
	// Namespace is the namespace of Longshore.
	Namespace string
}

var _ admission.Handler = (*Handler)(nil)

// Handle implements admission.Handler.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
func (h *Handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	after := &offloadingv1beta1.NamespaceOffloading{}
	if err := h.Decoder.DecodeRaw(request.Object, after); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the NamespaceOffloading: %w", err))
	}
	after.Namespace = request.Namespace
	var v verdict
	switch request.Operation {
	case admissionv1.Create:
		namespace := &corev1.Namespace{}
		if err := h.Reader.Get(ctx, client.ObjectKey{Name: request.Namespace}, namespace); err != nil {
			return admission.Errored(http.StatusInternalServerError, fmt.Errorf("reading namespace %q: %w", request.Namespace, err))
		}
		v = validateCreate(after, environment{clusterID: h.ClusterID, ownNamespace: h.Namespace, labels: namespace.Labels})
	case admissionv1.Update:
		if !after.DeletionTimestamp.IsZero() {
			// Removing a finalizer must succeed even if the object is invalid.
			return admission.Allowed("")
		}
		before := &offloadingv1beta1.NamespaceOffloading{}
		if err := h.Decoder.DecodeRaw(request.OldObject, before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the old NamespaceOffloading: %w", err))
		}
		v = validateUpdate(before, after)
	default:
		return admission.Allowed("")
	}
	if v.denial != "" {
		return admission.Denied(v.denial)
	}
	return admission.Allowed("").WithWarnings(v.warnings...)
}
