package view

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// ResourceInput are the facts about an object that is about to be sent to the provider.
type ResourceInput struct {
	// Object is what would be sent, as JSON: apiVersion, kind, metadata and content. It is
	// not altered.
	Object map[string]any
	// Target is an empty object of its type, into which what the policies made of it is
	// read; left alone when they change nothing.
	Target runtime.Object
	// Namespace, Name, Labels and Annotations of the local object.
	Namespace, Name     string
	Labels, Annotations map[string]string
	// VirtualNode that reflects.
	VirtualNode contract.VirtualNode
	// Have is the decisions annotation of the remote object, "" when there is none.
	Have string
}

// ResourceResult is what the policies of contract.ResourceMutation decided.
type ResourceResult struct {
	// Object to be sent. It shares with the input what did not change, and values with
	// remembered answers: treat it as read-only.
	Object map[string]any
	// Changed tells whether it differs from the input's, be it in what its annotation
	// tells of the decisions.
	Changed bool
	// By names the policies that changed it, for messages; empty when none did.
	By string
	// Skip is set when a policy wants the object to stay at home.
	Skip *chain.Denied
	// Warnings for the operator.
	Warnings []string
}

// asker is an [Evaluator] that can tell whether there is anybody to ask.
type asker interface {
	Asks(point contract.Point) bool
}

// AsksResources reports whether any policy may be bound to contract.ResourceMutation. If
// none is, [MutateResource] need not be called, and nothing be laid out for it.
func AsksResources(ev Evaluator) bool {
	known, ok := ev.(asker)
	return !ok || known.Asks(contract.ResourceMutation)
}

// MutateResource asks the ResourceMutation policies about an object that is reflected,
// whatever its kind (stage 5). That is the last question before it is sent. Pods are asked
// about with their other questions, by [OffloadPod].
func MutateResource(ctx context.Context, ev Evaluator, in ResourceInput) (*ResourceResult, error) {
	before, told, err := withoutDecisions(in.Object)
	if err != nil {
		return nil, err
	}
	local := &contract.ObjectMetadata{Metadata: contract.Metadata{
		Name: in.Name, Namespace: in.Namespace, Labels: in.Labels, Annotations: annotated(in.Annotations, ""),
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
		result.By = Culprits(o.decisions, wholeObject(after))
		if err := readStrictly(after, in.Target); err != nil {
			return nil, fmt.Errorf("reading back the %s as %s left it: %w", local.Kind, result.By, err)
		}
	}
	metadata, err := member(after, fieldMetadata)
	if err != nil {
		return nil, err
	}
	annotations, err := stringMap(metadata, fieldAnnotations)
	if err != nil {
		return nil, err
	}
	text := encodeResource(in.Have, told, o.decisions, DecisionsRoom(annotations))
	if !o.changed && text == told {
		return result, nil
	}
	result.Changed = true
	result.Object = with(after, fieldMetadata, with(metadata, fieldAnnotations, document(annotated(annotations, text))))
	return result, nil
}

// mutate asks the ResourceMutation policies about an object of any kind.
func (o *outcome) mutate(ctx context.Context, ev Evaluator, object map[string]any, local *contract.ObjectMetadata, node *contract.VirtualNode, attributes chain.Attributes, check chain.ObjectCheck) (map[string]any, error) {
	return o.ask(ctx, ev, chain.Input{
		Point: contract.ResourceMutation, Object: object,
		Facts: map[string]any{"local": local, "virtualNode": node},
		// What a kind lacks no policy may write, least of all what nobody would read back.
		Writes: writesOf(local.APIVersion, local.Kind), Match: attributes, Check: check,
	})
}

// Writable by policies of every reflected object. Never identity (name, namespace, kind)
// or ownership (owner references, finalizers, the labels that say whose it is), nor status.
var anyKind = []string{"/metadata/labels", "/metadata/annotations"}

// serviceFields are what of a Service policies may write. Missing are addresses: where a
// Service is found (clusterIP, clusterIPs, ipFamilies, loadBalancerIP), what it takes over
// (externalIPs) and where it sends its callers (externalName) is not for a policy to say.
var serviceFields = []string{
	"/spec/allocateLoadBalancerNodePorts", "/spec/externalTrafficPolicy", "/spec/internalTrafficPolicy",
	"/spec/loadBalancerClass", "/spec/loadBalancerSourceRanges", "/spec/ports", "/spec/publishNotReadyAddresses",
	"/spec/selector", "/spec/sessionAffinity", "/spec/sessionAffinityConfig", "/spec/trafficDistribution", "/spec/type",
}

// kinds says what policies may write of a reflected object beyond labels and annotations.
// Of a Secret that is its data and not its type: a type can have the provider put a token
// of its own into it. Of a pod it is the spec, which the host's invariants are checked on
// afterwards.
var kinds = map[string]operation.Rules{
	"v1 ConfigMap": writable("/data", "/binaryData"),
	"v1 Secret":    writable("/data"),
	"v1 Service":   writable(serviceFields...),
	"v1 Pod":       writable("/spec"),
}

var otherKinds = writable()

// Writes returns what the ResourceMutation policies may write of an object, at most.
func Writes(object map[string]any) operation.Rules {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return writesOf(apiVersion, kind)
}

// writesOf is [Writes] by kind.
func writesOf(apiVersion, kind string) operation.Rules {
	if rules, known := kinds[apiVersion+" "+kind]; known {
		return rules
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

// wholeObject lists the members of an object as paths.
func wholeObject(object map[string]any) []string {
	paths := make([]string, 0, len(object))
	for name := range object {
		paths = append(paths, "/"+name)
	}
	return paths
}

// withoutDecisions returns an object without the annotation that tells who decided, and
// what that told: policies are not asked about it, and it would spoil what is remembered.
func withoutDecisions(object map[string]any) (map[string]any, string, error) {
	metadata, err := member(object, fieldMetadata)
	if err != nil {
		return nil, "", err
	}
	annotations, err := member(metadata, fieldAnnotations)
	if err != nil {
		return nil, "", err
	}
	told, has := annotations[policyv1alpha1.DecisionsAnnotation].(string)
	if !has {
		return object, "", nil
	}
	annotations = maps.Clone(annotations)
	delete(annotations, policyv1alpha1.DecisionsAnnotation)
	return with(object, fieldMetadata, with(metadata, fieldAnnotations, annotations)), told, nil
}

// document returns a map of strings as a value of a document.
func document(texts map[string]string) map[string]any {
	out := make(map[string]any, len(texts))
	for key, text := range texts {
		out[key] = text
	}
	return out
}

// encodeResource adds to what the metadata filter's decisions tell of an object, told, what
// the ResourceMutation policies did to it, if anything. It returns have, the annotation of
// the remote object, when that tells the same.
func encodeResource(have, told string, decisions []chain.Decision, limit int) string {
	entries, err := DecodeDecisions(told)
	if err != nil {
		entries = nil // ours, and never so
	}
	entries = append(entries, slices.DeleteFunc(entriesOf(decisions), func(e Entry) bool { return !e.telling() })...)
	entries = shorten(entries, limit)
	if had, err := DecodeDecisions(have); err == nil && len(have) <= limit && len(entries) > 0 && alike(had, entries) {
		return have
	}
	return encode(entries)
}

// ofFilter returns the entries of the metadata filter, out of what an object tells.
func ofFilter(entries []Entry) []Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Point == string(contract.ResourceMutation) })
}
