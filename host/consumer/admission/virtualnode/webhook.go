// Package virtualnode serves the webhook that completes and validates VirtualNodes.
// At creation it copies the virtual kubelet's Deployment from the options template into the
// VirtualNode, so that later changes of the options template restart no virtual kubelet. Only a
// changed image follows, by the controller.
package virtualnode

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// Path is the URL path of the webhook.
const Path = "/mutate/virtualnodes"

// Handler answers admission requests for VirtualNodes.
type Handler struct {
	// Reader reads options templates, namespaces and Nodes.
	Reader client.Reader
	// APIReader reads VirtualNodes without a cache, which may not have the newest one yet.
	APIReader client.Reader
	// Decoder decodes the wire objects.
	Decoder admission.Decoder
	// DefaultOptions is the VkOptionsTemplate of VirtualNodes without a reference to one.
	DefaultOptions client.ObjectKey
	// Cluster is the consumer cluster.
	Cluster virtualkubelet.Cluster
}

var _ admission.Handler = (*Handler)(nil)

// Handle implements admission.Handler.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=vkoptionstemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=list
// +kubebuilder:rbac:groups="",resources=namespaces;nodes,verbs=get;list;watch
func (h *Handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	vn := &offloadingv1beta1.VirtualNode{}
	if err := h.Decoder.DecodeRaw(request.Object, vn); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the VirtualNode: %w", err))
	}
	if !vn.DeletionTimestamp.IsZero() {
		// Removing a finalizer must succeed even if the object is invalid.
		return admission.Allowed("")
	}
	vn.Namespace = request.Namespace
	options, err := h.options(ctx, vn)
	if err != nil {
		return errorResponse(err)
	}
	before, err := h.decodeOld(request)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	added := addedArguments(before, vn)
	if request.Operation == admissionv1.Create {
		if err := h.checkName(ctx, vn); err != nil {
			return errorResponse(err)
		}
		if err := virtualkubelet.Complete(vn, options, h.Cluster); err != nil {
			return admission.Denied(err.Error())
		}
	}
	if err := virtualkubelet.SyncTemplate(vn, options); err != nil {
		return admission.Denied(err.Error())
	}
	if errs := validateNew(before, vn); len(errs) > 0 {
		return admission.Denied(errs.ToAggregate().Error())
	}
	if problem := accessProblem(before, vn); problem != "" {
		return admission.Denied(problem)
	}
	problem, err := h.namespaceProblem(ctx, request.Operation, vn)
	if err != nil {
		return errorResponse(err)
	}
	if problem != "" {
		return admission.Denied(problem)
	}
	after, err := json.Marshal(vn)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the VirtualNode: %w", err))
	}
	var warnings []string
	if request.Operation == admissionv1.Create {
		warnings = warnDropped(added, virtualkubelet.Arguments(vn))
		added = slices.Concat(added, options.Spec.ExtraArgs, virtualkubelet.ClassArguments(vn))
	}
	warnings = slices.Concat(warnings, warnWithoutEffect(added), warnAccess(added, vn))
	return admission.PatchResponseFromRaw(request.Object.Raw, after).WithWarnings(warnings...)
}

// namespaceProblem returns why a new VirtualNode may not be in its namespace, or "". The schema
// rejects an invalid cluster ID.
func (h *Handler) namespaceProblem(ctx context.Context, operation admissionv1.Operation, vn *offloadingv1beta1.VirtualNode) (string, error) {
	if operation != admissionv1.Create || vn.Spec.ClusterID.Validate() != nil {
		return "", nil
	}
	problem, err := virtualnode.NamespaceProblem(ctx, h.Reader, vn)
	if err != nil {
		return "", fmt.Errorf("checking the namespace of the VirtualNode: %w", err)
	}
	return problem, nil
}

// decodeOld returns the VirtualNode before an update, or nil.
func (h *Handler) decodeOld(request admission.Request) (*offloadingv1beta1.VirtualNode, error) {
	if request.Operation == admissionv1.Create || len(request.OldObject.Raw) == 0 {
		return nil, nil
	}
	before := &offloadingv1beta1.VirtualNode{}
	if err := h.Decoder.DecodeRaw(request.OldObject, before); err != nil {
		return nil, fmt.Errorf("decoding the old VirtualNode: %w", err)
	}
	return before, nil
}

// addedArguments returns the arguments that this request adds to the template.
func addedArguments(before, after *offloadingv1beta1.VirtualNode) []string {
	added := virtualkubelet.Arguments(after)
	if before == nil {
		return added
	}
	existing := virtualkubelet.Arguments(before)
	return slices.DeleteFunc(added, func(argument string) bool { return slices.Contains(existing, argument) })
}

// errorResponse denies the request for an error of the author, and fails it for any other.
func errorResponse(err error) admission.Response {
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return admission.Denied(err.Error())
	}
	return admission.Errored(http.StatusInternalServerError, err)
}

func (h *Handler) options(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (*offloadingv1beta1.VkOptionsTemplate, error) {
	key := h.DefaultOptions
	if ref := vn.Spec.VkOptionsTemplateRef; ref != nil {
		key = client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	}
	options := &offloadingv1beta1.VkOptionsTemplate{}
	if err := h.Reader.Get(ctx, key, options); err != nil {
		return nil, fmt.Errorf("reading VkOptionsTemplate %s: %w", key, err)
	}
	return options.DeepCopy(), nil
}

// checkName returns an AlreadyExists error if a VirtualNode of any namespace or a Node has the
// name: it becomes the name of the Node and of cluster-scoped bindings. Two VirtualNodes that
// are created concurrently both pass; the controller reports the conflict on the second. A virtual
// node of the provider without a VirtualNode is left of one that was deleted without its finalizer:
// the VirtualNode is created again to be withdrawn.
func (h *Handler) checkName(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	others := &offloadingv1beta1.VirtualNodeList{}
	if err := h.APIReader.List(ctx, others, client.MatchingFields{metav1.ObjectNameField: vn.Name}); err != nil {
		return fmt.Errorf("checking whether another VirtualNode is named %q: %w", vn.Name, err)
	}
	for i := range others.Items {
		if other := &others.Items[i]; other.Namespace != vn.Namespace {
			return fmt.Errorf("VirtualNode %s/%s has this name, which is also the name of its Node: "+
				"create this VirtualNode under another name, or delete VirtualNode %[1]s/%[2]s first: %[3]w",
				other.Namespace, other.Name, apierrors.NewAlreadyExists(offloadingv1beta1.GroupVersion.WithResource("virtualnodes").GroupResource(), vn.Name))
		}
	}
	node := &corev1.Node{}
	err := h.Reader.Get(ctx, client.ObjectKey{Name: vn.Name}, node)
	switch {
	case apierrors.IsNotFound(err), err == nil && virtualnode.IsNodeOf(node, vn):
		return nil
	case err != nil:
		return fmt.Errorf("checking whether Node %q exists: %w", vn.Name, err)
	}
	return apierrors.NewAlreadyExists(corev1.Resource("nodes"), vn.Name)
}
