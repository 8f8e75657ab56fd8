package report

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// fieldManager owns the PolicyComponent.
const fieldManager = "longshore-policies"

// Identity of a component.
type Identity struct {
	// Name of the component, "webhook/<pod>" or "virtual-kubelet/<node>".
	Name string
	// Object is the key of its PolicyComponent.
	Object client.ObjectKey
	// Owner returns the Pod or VirtualNode that the PolicyComponent is deleted with, in the
	// namespace of the PolicyComponent. Nil means that there is none.
	Owner func(context.Context) (*metav1.OwnerReference, error)
}

// Writer writes the PolicyComponent of one component. It belongs to one goroutine.
type Writer struct {
	// Client sends the writes; nothing is read.
	Client client.Client
	// Identity of the component.
	Identity Identity
	// Clock is the source of the times in the report.
	Clock clock.PassiveClock

	owner   *metav1.OwnerReference
	written *policyv1alpha1.PolicyComponentStatus
	// isLost is set when the PolicyComponent may be deleted with a previous owner.
	isLost bool
}

// OwnerReplaced makes the next Write send the report, with its present owner: another object has the
// name of the owner, and the PolicyComponent is deleted with the previous one.
func (w *Writer) OwnerReplaced() { w.owner, w.isLost = nil, true }

// Register creates the PolicyComponent without policies, unless this Writer has written it
// before. A component registers before it decides, so that no change of a policy counts as
// complete while the component does not follow it yet.
func (w *Writer) Register(ctx context.Context) error {
	if w.written != nil {
		return nil
	}
	return w.apply(ctx, &policyv1alpha1.PolicyComponentStatus{Component: w.Identity.Name})
}

// Write sends the observations if they differ from those that were written last. It sets
// Since.
func (w *Writer) Write(ctx context.Context, observations []policyv1alpha1.PolicyObservation) error {
	status := &policyv1alpha1.PolicyComponentStatus{Component: w.Identity.Name, Policies: observations}
	for i := range observations {
		o := &observations[i]
		o.Since = metav1.NewTime(w.Clock.Now().UTC().Truncate(time.Second))
		if w.written == nil {
			continue
		}
		for _, last := range w.written.Policies {
			if last.Name == o.Name && last.UID == o.UID && last.Generation == o.Generation && last.Digest == o.Digest {
				o.Since = last.Since
			}
		}
	}
	if w.written != nil && !w.isLost && equality.Semantic.DeepEqual(w.written, status) {
		return nil
	}
	return w.apply(ctx, status)
}

func (w *Writer) apply(ctx context.Context, status *policyv1alpha1.PolicyComponentStatus) error {
	if w.owner == nil && w.Identity.Owner != nil {
		owner, err := w.Identity.Owner(ctx)
		if err != nil {
			return fmt.Errorf("finding the owner of PolicyComponent %s: %w", w.Identity.Object, err)
		}
		w.owner = owner
	}
	object := &policyv1alpha1.PolicyComponent{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1alpha1.GroupVersion.String(), Kind: "PolicyComponent"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Identity.Object.Namespace, Name: w.Identity.Object.Name},
		Status:     *status,
	}
	if w.owner != nil {
		object.OwnerReferences = []metav1.OwnerReference{*w.owner}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("encoding PolicyComponent %s: %w", w.Identity.Object, err)
	}
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	err = w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields}),
		client.FieldOwner(fieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("writing PolicyComponent %s: %w", w.Identity.Object, err)
	}
	w.written, w.isLost = status.DeepCopy(), false
	return nil
}
