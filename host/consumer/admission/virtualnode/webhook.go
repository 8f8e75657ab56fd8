// Package virtualnode is the webhook that completes VirtualNodes (wire 2.4): at
// creation it snapshots the virtual kubelet's Deployment from the options template, so
// that later changes of the template restart nothing.
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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
)

// Path is where the webhook is served (wire 2.1).
const Path = "/mutate/virtualnodes"

// Handler answers admission requests for VirtualNodes.
type Handler struct {
	// Reader reads options templates, namespaces and Nodes.
	Reader client.Reader
	// APIReader reads VirtualNodes as they are now: one may be a moment old.
	APIReader client.Reader
	// Decoder decodes the wire objects.
	Decoder admission.Decoder
	// DefaultOptions names the VkOptionsTemplate of VirtualNodes that name none.
	DefaultOptions client.ObjectKey
	// Cluster is the consumer cluster.
	Cluster Cluster
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
		// A finalizer must be removable whatever the object holds.
		return admission.Allowed("")
	}
	vn.Namespace = request.Namespace
	options, err := h.options(ctx, vn)
	if err != nil {
		return refusal(err)
	}
	before, err := h.before(request)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	given := given(before, vn)
	if request.Operation == admissionv1.Create {
		if err := h.nameIsFree(ctx, vn); err != nil {
			return refusal(err)
		}
		if err := complete(vn, options, h.Cluster); err != nil {
			return admission.Denied(err.Error())
		}
	}
	if err := follow(vn, options); err != nil {
		return admission.Denied(err.Error())
	}
	if errs := news(before, vn); len(errs) > 0 {
		return admission.Denied(errs.ToAggregate().Error())
	}
	problem, err := h.namespaceProblem(ctx, request.Operation, vn)
	if err != nil {
		return refusal(err)
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
		warnings = notTaken(given, arguments(vn))
		given = slices.Concat(given, options.Spec.ExtraArgs, classArguments(vn))
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, after).WithWarnings(append(warnings, withoutEffect(given)...)...)
}

// namespaceProblem says why a new VirtualNode may not be in its namespace, "" when it may. The
// schema refuses an invalid cluster ID.
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

// before is the VirtualNode as it was, or nil.
func (h *Handler) before(request admission.Request) (*offloadingv1beta1.VirtualNode, error) {
	if request.Operation == admissionv1.Create || len(request.OldObject.Raw) == 0 {
		return nil, nil
	}
	before := &offloadingv1beta1.VirtualNode{}
	if err := h.Decoder.DecodeRaw(request.OldObject, before); err != nil {
		return nil, fmt.Errorf("decoding the VirtualNode as it was: %w", err)
	}
	return before, nil
}

// given are the arguments that the author of this request wrote: those of the template,
// without what stood there before.
func given(before, after *offloadingv1beta1.VirtualNode) []string {
	given := arguments(after)
	if before == nil {
		return given
	}
	had := arguments(before)
	return slices.DeleteFunc(given, func(argument string) bool { return slices.Contains(had, argument) })
}

// refusal tells a mistake of the author, which is denied, from a failure of ours.
func refusal(err error) admission.Response {
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

// nameIsFree refuses a VirtualNode whose name another one has, in whichever namespace, or
// a Node: the name becomes that of the Node, and of what is bound for it in the cluster.
// Two that are created at once both pass; the controller tells the second one.
func (h *Handler) nameIsFree(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	others := &offloadingv1beta1.VirtualNodeList{}
	if err := h.APIReader.List(ctx, others, client.MatchingFields{metav1.ObjectNameField: vn.Name}); err != nil {
		return fmt.Errorf("checking whether another VirtualNode is named %q: %w", vn.Name, err)
	}
	for i := range others.Items {
		if other := &others.Items[i]; other.Namespace != vn.Namespace {
			return fmt.Errorf("VirtualNode %s/%s has this name, and it becomes that of a Node, of which the cluster has one: "+
				"create this VirtualNode with another name, or delete that one first: %w",
				other.Namespace, other.Name, apierrors.NewAlreadyExists(offloadingv1beta1.GroupVersion.WithResource("virtualnodes").GroupResource(), vn.Name))
		}
	}
	err := h.Reader.Get(ctx, client.ObjectKey{Name: vn.Name}, &corev1.Node{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("checking whether Node %q exists: %w", vn.Name, err)
	}
	return apierrors.NewAlreadyExists(corev1.Resource("nodes"), vn.Name)
}

// complete fills in what a new VirtualNode leaves open. The options are altered.
func complete(vn *offloadingv1beta1.VirtualNode, options *offloadingv1beta1.VkOptionsTemplate, cluster Cluster) error {
	if vn.Spec.ClusterID == "" {
		return fmt.Errorf("spec.clusterID is required: it names the provider cluster")
	}
	if err := foldTemplate(options, vn.Spec.Template); err != nil {
		return fmt.Errorf("spec.template: %w", err)
	}
	given := vn.Spec.Template
	vn.Spec.Template = forgeTemplate(vn, options, cluster)
	keepSecurity(vn.Spec.Template, given)
	if vn.Spec.OffloadingPatch == nil {
		vn.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{}
	}
	patch := vn.Spec.OffloadingPatch
	patch.LabelsNotReflected = union(patch.LabelsNotReflected, options.Spec.LabelsNotReflected)
	patch.AnnotationsNotReflected = union(patch.AnnotationsNotReflected, options.Spec.AnnotationsNotReflected)
	return nil
}

// follow keeps the snapshot in step with the VirtualNode's own fields, at every write.
func follow(vn *offloadingv1beta1.VirtualNode, options *offloadingv1beta1.VkOptionsTemplate) error {
	if vn.Spec.CreateNode == nil {
		vn.Spec.CreateNode = ptr.To(options.Spec.CreateNode)
	}
	if vn.Spec.DisableNetworkCheck == nil {
		vn.Spec.DisableNetworkCheck = ptr.To(options.Spec.DisableNetworkCheck)
	}
	if vn.Spec.Template == nil {
		return fmt.Errorf("spec.template cannot be removed: it is the virtual kubelet's Deployment")
	}
	if options.Spec.Replicas != nil {
		vn.Spec.Template.Spec.Replicas = ptr.To(*options.Spec.Replicas)
	}
	return setArguments(vn)
}

func union(list, more []string) []string {
	for _, item := range more {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}
