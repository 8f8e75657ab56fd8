package planner

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/consumer/admission/podplacement"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// offloadings reads the facts for the handler of the pod webhook.
type offloadings struct{ planner *Planner }

// Get implements client.Reader.
func (o offloadings) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch target := object.(type) {
	case *offloadingv1beta1.NamespaceOffloading:
		if found := o.planner.offloading(key.Namespace); found != nil && key.Name == offloadingv1beta1.NamespaceOffloadingName {
			*target = *found
			return nil
		}
	case *corev1.Namespace:
		if found := o.planner.facts.Namespaces[key.Name]; found != nil {
			*target = *found
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// List implements client.Reader; the handler does not list.
func (offloadings) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return apierrors.NewMethodNotSupported(schema.GroupResource{}, "list")
}

// toleratedSeconds is how long a pod stays on a node that is not ready or unreachable: the default of
// --default-not-ready-toleration-seconds and --default-unreachable-toleration-seconds of kube-apiserver.
const toleratedSeconds = 300

// withDefaults returns the pod with what the API server adds before the webhooks and the scheduler judges. The given
// pod is not changed.
func withDefaults(pod *corev1.Pod) *corev1.Pod {
	changed := withDefaultTolerations(pod)
	changed.Spec.InitContainers = withDefaultRequests(pod.Spec.InitContainers)
	changed.Spec.Containers = withDefaultRequests(pod.Spec.Containers)
	return changed
}

// withDefaultRequests returns containers that request their limits, unless they request another amount.
func withDefaultRequests(containers []corev1.Container) []corev1.Container {
	changed := slices.Clone(containers)
	for i := range changed {
		resources := &changed[i].Resources
		if len(resources.Limits) == 0 {
			continue
		}
		requests := resources.Limits.DeepCopy()
		maps.Copy(requests, resources.Requests)
		resources.Requests = requests
	}
	return changed
}

// withDefaultTolerations returns the pod as the admission plugin DefaultTolerationSeconds changes it,
// which runs in each API server and before the webhooks: the pod tolerates for a time that a node is
// not ready or unreachable, unless it says otherwise. Without them the pod would not fit a virtual node
// whose taint Kubernetes is about to remove. The given pod is not changed.
func withDefaultTolerations(pod *corev1.Pod) *corev1.Pod {
	seconds := int64(toleratedSeconds)
	changed := *pod
	changed.Spec.Tolerations = slices.Clone(pod.Spec.Tolerations)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		isSet := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		})
		if !isSet {
			changed.Spec.Tolerations = append(changed.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			})
		}
	}
	return &changed
}

// admit lets the handler of the pod webhook decide about the pod. It returns nil if the pod is
// refused.
func (p *Planner) admit(ctx context.Context, plan *Plan, pod *corev1.Pod) (*corev1.Pod, error) {
	result, _, err := p.handler.Admit(ctx, pod.Namespace, view.AdmissionInput{Pod: pod, DryRun: true})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() //nolint:wrapcheck // Plan adds the pod.
	case err != nil:
		plan.block(Refused, Admission, ReasonWebhookFailed, "The pod webhook refuses the pod: %s", err.Error())
		return nil, nil
	}
	plan.Warnings = append(plan.Warnings, result.Warnings...)
	if result.Denial != nil {
		plan.block(Refused, Admission, ReasonAdmissionDenied, "The pod webhook refuses the pod: %s", result.Denial.Error())
		return nil, nil
	}
	text, err := podplacement.Annotation(result)
	if err != nil {
		return nil, fmt.Errorf("encoding the decisions of the pod webhook: %w", err)
	}
	if text == "" {
		return result.Pod, nil
	}
	admitted := *result.Pod
	admitted.Annotations = maps.Clone(admitted.Annotations)
	metav1.SetMetaDataAnnotation(&admitted.ObjectMeta, policyv1alpha1.DecisionsAnnotation, text)
	entries, err := view.DecodeDecisions(text)
	if err != nil {
		return nil, fmt.Errorf("decoding the decisions of the pod webhook: %w", err)
	}
	for i := range entries {
		plan.addEntry(Admission, &entries[i])
	}
	return &admitted, nil
}

// addEntry records the changes of one policy.
func (p *Plan) addEntry(stage Stage, entry *view.Entry) {
	for _, operation := range entry.Operations {
		p.Changes = append(p.Changes, Change{Stage: stage, What: operation, Policy: entry.Policy})
	}
	for _, key := range entry.Kept {
		p.Changes = append(p.Changes, Change{Stage: stage, What: "keep " + key, Policy: entry.Policy, Why: "the key is reserved, and the policy's change of it was not applied"})
	}
	if entry.Ignored {
		p.Warnings = append(p.Warnings, fmt.Sprintf("Policy %q fails and is skipped (failurePolicy: Ignore).", entry.Policy))
	}
}
