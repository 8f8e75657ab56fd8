package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// ResourceInput are the facts about an object that will be sent to the provider.
type ResourceInput struct {
	// Object to send, as a document with apiVersion, kind, metadata and content. It is not
	// altered.
	Object map[string]any
	// Target is an empty object of its type. The changed object is decoded into it.
	Target runtime.Object
	// Namespace, Name, Labels and Annotations of the local object.
	Namespace, Name     string
	Labels, Annotations map[string]string
	// VirtualNode that reflects the object.
	VirtualNode contract.VirtualNode
	// Have is the decisions annotation of the remote object, "" if there is none.
	Have string
}

// ResourceResult is the result of the policies of contract.ResourceMutation.
type ResourceResult struct {
	// Object to send. It shares unchanged values with the input and written values with
	// cached answers: treat it as read-only.
	Object map[string]any
	// Changed reports whether Object, including its decisions annotation, differs from the
	// input's.
	Changed bool
	// By names the policies that changed the object, for messages; empty if none did.
	By string
	// Skip is set if a policy skipped the object.
	Skip *chain.Denied
	// Warnings for the operator.
	Warnings []string
}

// HasResourcePolicies reports whether any policy may be bound to contract.ResourceMutation.
// If none is, callers need not call [MutateResource] or prepare its input.
func HasResourcePolicies(ev Evaluator) bool { return HasPolicies(ev, contract.ResourceMutation) }

// HasPolicies reports whether any policy may be bound to an extension point.
func HasPolicies(ev Evaluator, point contract.Point) bool {
	known, ok := ev.(interface {
		HasBindings(point contract.Point) bool
	})
	return !ok || known.HasBindings(point)
}

// MutateResource evaluates the ResourceMutation policies for an object of any kind but Pod
// (stage 5), last before the object is sent. [OffloadPod] evaluates them for pods.
func MutateResource(ctx context.Context, ev Evaluator, in ResourceInput) (*ResourceResult, error) {
	before, filterDecisions, err := withoutDecisions(in.Object)
	if err != nil {
		return nil, err
	}
	local := &contract.ObjectMetadata{Metadata: contract.Metadata{
		Name: in.Name, Namespace: in.Namespace, Labels: in.Labels, Annotations: withDecisions(in.Annotations, ""),
	}}
	local.APIVersion, _ = before["apiVersion"].(string)
	local.Kind, _ = before["kind"].(string)
	var o outcome
	after, err := o.mutate(ctx, ev, before, local, &in.VirtualNode, chain.Attributes{
		Namespace: in.Namespace, Labels: in.Labels, VirtualNode: in.VirtualNode.Name,
	}, CheckOf(contract.ResourceMutation, local.Kind, in.Target))
	if err != nil {
		return nil, err
	}
	result := &ResourceResult{Object: in.Object, Skip: o.denial, Warnings: o.warnings}
	if o.denial != nil {
		return result, nil
	}
	if o.changed {
		result.By = ChangedBy(o.decisions, allMembers(after))
		if err := decodeStrictly(after, in.Target); err != nil {
			return nil, fmt.Errorf("decoding the %s that %s changed: %w", local.Kind, result.By, err)
		}
	}
	metadata, err := document.Member(after, fieldMetadata)
	if err != nil {
		return nil, err
	}
	annotations, err := stringMap(metadata, fieldAnnotations)
	if err != nil {
		return nil, err
	}
	text := encodeResource(in.Have, filterDecisions, o.decisions, DecisionsRoom(annotations))
	if !o.changed && text == filterDecisions {
		return result, nil
	}
	result.Changed = true
	result.Object = document.With(after, fieldMetadata, document.With(metadata, fieldAnnotations, toDocument(withDecisions(annotations, text))))
	return result, nil
}

// mutate evaluates the ResourceMutation policies for an object of any kind.
func (o *outcome) mutate(ctx context.Context, ev Evaluator, object map[string]any, local *contract.ObjectMetadata, node *contract.VirtualNode, attributes chain.Attributes, check chain.ObjectCheck) (map[string]any, error) {
	return o.evaluate(ctx, ev, chain.Input{
		Point: contract.ResourceMutation, Object: object,
		Facts:  map[string]any{"local": local, "virtualNode": node},
		Writes: writesOf(local.APIVersion, local.Kind), Match: attributes, Check: check,
	})
}

// anyKind are the fields that policies may write in objects of every kind. Identity (name,
// namespace, kind), ownership (owner references, finalizers, ownership labels) and status
// are never writable.
var anyKind = []string{"/metadata/labels", "/metadata/annotations"}

// serviceFields are the fields of a Service that policies may write. They exclude addresses:
// clusterIP, clusterIPs, ipFamilies, loadBalancerIP, externalIPs and externalName.
var serviceFields = []string{
	"/spec/allocateLoadBalancerNodePorts", "/spec/externalTrafficPolicy", "/spec/internalTrafficPolicy",
	"/spec/loadBalancerClass", "/spec/loadBalancerSourceRanges", "/spec/ports", "/spec/publishNotReadyAddresses",
	"/spec/selector", "/spec/sessionAffinity", "/spec/sessionAffinityConfig", "/spec/trafficDistribution", "/spec/type",
}

// kinds are the rules for fields other than labels and annotations. The type of a Secret is
// not writable, because some types make the provider add a token of its own. The pod's spec
// is writable, because the host checks its invariants afterwards.
var kinds = map[string]operation.Rules{
	"v1 ConfigMap": writable("/data", "/binaryData"),
	"v1 Secret":    writable("/data"),
	"v1 Service":   writable(serviceFields...),
	"v1 Pod":       writable("/spec"),
}

var otherKinds = writable()

// customResources are the rules for kinds that a ResourceReflection names: policies may write what
// the operator of the consumer may.
var customResources = writable("/spec")

// Writes returns the bound of what ResourceMutation policies may write in an object.
func Writes(object map[string]any) operation.Rules {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return writesOf(apiVersion, kind)
}

// writesOf is [Writes] for a kind.
func writesOf(apiVersion, kind string) operation.Rules {
	if rules, known := kinds[apiVersion+" "+kind]; known {
		return rules
	}
	if group, _, hasGroup := strings.Cut(apiVersion, "/"); hasGroup && policyv1alpha1.IsReflectable(group) {
		return customResources
	}
	return otherKinds
}

func writable(paths ...string) operation.Rules {
	var rules []contract.WriteRule
	for _, path := range slices.Concat(anyKind, paths) {
		rules = append(rules, contract.WriteRule{Path: path, Verbs: contract.Verbs()})
	}
	return operation.MustCompileRules(rules)
}

// allMembers returns the paths of all members of an object.
func allMembers(object map[string]any) []string {
	paths := make([]string, 0, len(object))
	for name := range object {
		paths = append(paths, "/"+name)
	}
	return paths
}

// withoutDecisions returns an object without its decisions annotation, and the annotation.
// Policies do not get it, because it would make requests differ that are otherwise equal.
func withoutDecisions(object map[string]any) (map[string]any, string, error) {
	metadata, err := document.Member(object, fieldMetadata)
	if err != nil {
		return nil, "", err
	}
	annotations, err := document.Member(metadata, fieldAnnotations)
	if err != nil {
		return nil, "", err
	}
	decisions, has := annotations[policyv1alpha1.DecisionsAnnotation].(string)
	if !has {
		return object, "", nil
	}
	annotations = maps.Clone(annotations)
	delete(annotations, policyv1alpha1.DecisionsAnnotation)
	return document.With(object, fieldMetadata, document.With(metadata, fieldAnnotations, annotations)), decisions, nil
}

// toDocument returns a map of strings as a value of a document.
func toDocument(texts map[string]string) map[string]any {
	out := make(map[string]any, len(texts))
	for key, text := range texts {
		out[key] = text
	}
	return out
}
