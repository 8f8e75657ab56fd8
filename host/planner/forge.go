package planner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/longshore-dev/longshore/host/consumer/reflection/pod"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// forge builds the ShadowPod of a pod that is bound to a virtual node, and lists what changed.
func (p *Planner) forge(ctx context.Context, plan *Plan, node *virtualNode, bound *corev1.Pod, remoteNamespace string) error {
	origin := p.origin(node)
	namespaceLabels := map[string]string{}
	if namespace := p.facts.Namespaces[bound.Namespace]; namespace != nil && namespace.Labels != nil {
		namespaceLabels = namespace.Labels
	}
	forged, err := pod.Forge(ctx, pod.ForgeInput{
		Local: bound, RemoteNamespace: remoteNamespace, Origin: origin, Evaluator: p.evaluator, Patch: node.Spec.OffloadingPatch,
		VirtualNode: contract.VirtualNode{
			Name: node.Name, ConsumerClusterID: origin.HomeClusterID, ProviderClusterID: origin.ProviderClusterID, Labels: node.Spec.Labels,
		},
		NamespaceLabels: namespaceLabels,
	})
	if failure, ok := errors.AsType[*chain.PolicyError](err); ok && ctx.Err() == nil {
		plan.block(Pending, Forging, pod.ReasonPolicyFailed, "%s", failure.Error())
		return nil
	}
	if err != nil {
		return err
	}
	plan.Changes = append(plan.Changes, draftChanges(bound, &forged.Draft.Spec.Pod)...)
	entries, err := view.DecodeDecisions(view.EncodeDecisions(forged.Decisions, view.MaxDecisionsBytes))
	if err != nil {
		return fmt.Errorf("decoding the decisions: %w", err)
	}
	for i := range entries {
		plan.addEntry(Forging, &entries[i])
	}
	plan.Warnings = append(plan.Warnings, forged.Warnings...)
	if left := remote.TokensLeftOut(bound, origin); len(left) > 0 {
		plan.Warnings = append(plan.Warnings, pod.DescribeTokensLeftOut(left, origin.ProviderClusterID))
	}
	switch {
	case forged.Denial != nil && forged.Denial.Skip:
		plan.block(Pending, Forging, ReasonSkipped, "The pod is not sent to the provider: %s", forged.Denial.Error())
	case forged.Denial != nil:
		plan.block(Pending, Forging, pod.ReasonDenied, "%s", forged.Denial.Error())
	case forged.Violation != "":
		plan.block(Pending, Forging, pod.ReasonDenied, "%s", forged.Violation)
	default:
		plan.ShadowPod = forged.ShadowPod
		if found := remote.NamespaceReferences(&forged.ShadowPod.Spec.Pod, bound, remoteNamespace, origin); len(found) > 0 {
			plan.Warnings = append(plan.Warnings, pod.DescribeNamespaceReferences(found, remoteNamespace))
		}
		plan.Changes = append(plan.Changes, sealChanges(bound, forged)...)
		return plan.warnOfProvider()
	}
	return nil
}

// warnOfProvider adds what the provider decides about a ShadowPod with its defaults: its own settings are not known
// here.
func (p *Plan) warnOfProvider() error {
	violation, err := provider.SecurityViolation("", nil, provider.Pod(p.ShadowPod))
	if err != nil {
		return fmt.Errorf("judging the security of %s: %w", p, err)
	}
	if violation != "" {
		p.Warnings = append(p.Warnings, fmt.Sprintf("The pod %s. This is the default level: the provider does not create the pod unless its operator permits more.", violation))
	}
	for _, claim := range p.ShadowPod.Spec.Pod.ResourceClaims {
		p.Warnings = append(p.Warnings, fmt.Sprintf("The resource claim %q of the pod does not follow it: the provider must have its ResourceClaim or ResourceClaimTemplate and its DeviceClass, "+
			"and kube-scheduler chooses a virtual node only if a ResourceSlice of resource.k8s.io offers devices there.", claim.Name))
	}
	return nil
}

// specFields are the fields of a pod spec with the paths in JSON.
var specFields = func() map[string]string {
	fields := map[string]string{}
	spec := reflect.TypeFor[corev1.PodSpec]()
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		fields[spec.Field(i).Name] = "/spec/" + name
	}
	return fields
}()

// The rules do not change.
var droppedFields, changedFields = remote.DroppedPodFields(), remote.ChangedPodFields()

// draftChanges lists the fields of the spec that the rules of the forge drop or change. The name
// of the node is not one: the pod has none before it is scheduled.
func draftChanges(local *corev1.Pod, draft *corev1.PodSpec) []Change {
	var changes []Change
	before, after := reflect.ValueOf(&local.Spec).Elem(), reflect.ValueOf(draft).Elem()
	for i := range before.NumField() {
		field := before.Type().Field(i).Name
		was, is := before.Field(i), after.Field(i)
		if field == "NodeName" || isEmpty(was) && isEmpty(is) || equality.Semantic.DeepEqual(was.Interface(), is.Interface()) {
			continue
		}
		verb, why := Changed, changedFields[field]
		switch {
		case isEmpty(is):
			verb = Dropped
			if reason := droppedFields[field]; reason != "" {
				why = reason
			}
		case isEmpty(was):
			verb = Added
		}
		changes = append(changes, Change{Stage: Forging, What: string(verb) + " " + specFields[field], Why: why})
	}
	return changes
}

// isEmpty reports whether a field is not set. A list without items is not.
func isEmpty(value reflect.Value) bool {
	if kind := value.Kind(); kind == reflect.Slice || kind == reflect.Map {
		return value.Len() == 0
	}
	return value.IsZero()
}

// sealChanges lists the labels and annotations that the seal drops from the result of the
// policies: those with a reserved key.
func sealChanges(local *corev1.Pod, forged *pod.Forged) []Change {
	var changes []Change
	for _, part := range []struct {
		path        string
		local, sent map[string]string
	}{
		{"/metadata/labels", local.Labels, forged.ShadowPod.Labels},
		{"/metadata/annotations", local.Annotations, forged.ShadowPod.Annotations},
	} {
		for _, key := range slices.Sorted(maps.Keys(part.local)) {
			if _, sent := part.sent[key]; !sent && remote.ReservedKey(key) {
				changes = append(changes, Change{Stage: Forging, What: string(Dropped) + " " + part.path + "[" + key + "]", Why: "the key is reserved"})
			}
		}
		for _, key := range slices.Sorted(maps.Keys(part.sent)) {
			if _, had := part.local[key]; !had && remote.ReservedKey(key) && key != podupdate.SentAnnotation {
				changes = append(changes, Change{Stage: Forging, What: string(Added) + " " + part.path + "[" + key + "]", Why: "it identifies the local pod and its clusters"})
			}
		}
	}
	return changes
}
