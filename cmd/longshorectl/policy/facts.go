package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	memberObject   = "object"
	memberMetadata = "metadata"
	memberSpec     = "spec"
	memberTemplate = "template"
	memberKind     = "kind"
)

// question is what a module is asked.
type question struct {
	object map[string]any
	facts  map[string]any
	// settings are those of a conformance vector.
	settings json.RawMessage
	// assumed are the paths of facts that the input does not have.
	assumed []string
}

// templates are the paths of the pod templates of the kinds that have one.
var templates = map[string][]string{
	"Deployment": {memberSpec, memberTemplate}, "ReplicaSet": {memberSpec, memberTemplate}, "StatefulSet": {memberSpec, memberTemplate},
	"DaemonSet": {memberSpec, memberTemplate}, "ReplicationController": {memberSpec, memberTemplate}, "Job": {memberSpec, memberTemplate},
	"CronJob": {memberSpec, "jobTemplate", memberSpec, memberTemplate}, "PodTemplate": {memberTemplate},
}

// readQuestion reads an input file: one object, facts, or a conformance vector.
func readQuestion(name string, data []byte, point contract.Point, moment contract.Moment) (*question, error) {
	document, err := onlyDocument(data)
	if err != nil {
		return nil, fmt.Errorf("reading input %s: %w", name, err)
	}
	if request, ok := document["request"].(map[string]any); ok {
		return fromVector(name, request)
	}
	if kind, ok := document[memberKind].(string); ok && kind != "" {
		object, err := subjectOf(document, kind, point)
		if err != nil {
			return nil, fmt.Errorf("reading input %s: %w", name, err)
		}
		return fromObject(object, point, moment), nil
	}
	if object, ok := document[memberObject].(map[string]any); ok {
		return fromFacts(document, object), nil
	}
	return nil, fmt.Errorf("reading input %s: it must be an object with a kind (a Pod, for instance), or the facts of %s: an object with the member \"object\"", name, point)
}

// onlyDocument decodes YAML or JSON with one document. A module is asked about one object, and the others would be
// left out without a word.
func onlyDocument(data []byte) (map[string]any, error) {
	var only map[string]any
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)); ; {
		var document map[string]any
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return only, nil
		case err != nil:
			return nil, fmt.Errorf("it is neither YAML nor JSON: %w", err)
		case len(document) > 0 && only != nil:
			return nil, errors.New("it has several documents: a module is asked about one object")
		case len(document) > 0:
			only = document
		}
	}
}

// subjectOf returns the object that the point decides about: at a point about pods the pod itself, or one of a
// template.
func subjectOf(object map[string]any, kind string, point contract.Point) (map[string]any, error) {
	switch {
	case strings.HasSuffix(kind, "List"):
		return nil, fmt.Errorf("it is a %s: a module is asked about one object", kind)
	case point == contract.ResourceSliceAdmission && kind != "ResourceSlice":
		return nil, fmt.Errorf("it is a %s, and %s decides about a ResourceSlice", kind, point)
	case point == contract.ResourceSliceAdmission, point == contract.MetadataFilter, point == contract.ResourceMutation, kind == "Pod", kind == "ShadowPod":
		return object, nil
	}
	path, ok := templates[kind]
	if !ok {
		return nil, fmt.Errorf("it is a %s, and %s decides about a pod: give a Pod, or an object with a pod template", kind, point)
	}
	template := object
	for _, member := range path {
		if template, ok = template[member].(map[string]any); !ok {
			return nil, fmt.Errorf("it is a %s without %s: give a Pod, or an object with a pod template", kind, strings.Join(path, "."))
		}
	}
	metadata, owner := map[string]any{}, map[string]any{}
	if given, ok := template[memberMetadata].(map[string]any); ok {
		metadata = maps.Clone(given)
	}
	if given, ok := object[memberMetadata].(map[string]any); ok {
		owner = given
	}
	for _, member := range []string{"name", "namespace"} {
		if value, ok := owner[member]; ok {
			metadata[member] = value
		}
	}
	return map[string]any{"apiVersion": "v1", memberKind: "Pod", memberMetadata: metadata, memberSpec: template[memberSpec]}, nil
}

func fromFacts(facts, object map[string]any) *question {
	q := &question{object: object, facts: map[string]any{}}
	for name, value := range facts {
		if name != memberObject {
			q.facts[name] = value
		}
	}
	return q
}

// fromVector reads the request of a golden case of the conformance suite.
func fromVector(name string, request map[string]any) (*question, error) {
	facts, ok := request["facts"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("reading input %s: the request has no facts", name)
	}
	object, _ := facts[memberObject].(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	q := fromFacts(facts, object)
	if settings, ok := request["settings"]; ok {
		encoded, err := json.Marshal(settings)
		if err != nil {
			return nil, fmt.Errorf("reading input %s: encoding its settings: %w", name, err)
		}
		q.settings = encoded
	}
	return q, nil
}

// fromObject builds facts from an object alone. Facts that it does not contain are assumed,
// and reported as such.
func fromObject(object map[string]any, point contract.Point, moment contract.Moment) *question {
	pod := object
	if spec, ok := object[memberSpec].(map[string]any); ok && object[memberKind] == "ShadowPod" {
		if inner, ok := spec["pod"].(map[string]any); ok {
			pod = map[string]any{"apiVersion": "v1", memberKind: "Pod", memberMetadata: object[memberMetadata], memberSpec: inner}
		}
	}
	q := &question{object: pod, facts: map[string]any{}}
	node := &contract.VirtualNode{Name: "virtual-node", ProviderClusterID: "provider", ConsumerClusterID: "consumer"}
	switch {
	case point == contract.PodMutation && moment == contract.MomentAdmission:
		metadata, _ := object[memberMetadata].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		if namespace == "" {
			namespace = "default"
		}
		q.assume("namespace", &contract.Metadata{Name: namespace})
		q.assume("offloading", &contract.NamespaceOffloading{PodOffloadingStrategy: "LocalAndRemote", ClusterSelector: contract.NodeSelector{NodeSelectorTerms: []contract.NodeSelectorTerm{}}})
		q.assume("request", &contract.AdmissionRequest{User: "longshorectl", DryRun: true})
		q.assume("runtimeClassName", "liqo")
	case point == contract.MetadataFilter:
		q.assume("notReflected", &contract.NotReflected{})
		q.assume("virtualNode", node)
	case point == contract.ResourceSliceAdmission:
		q.assume("tenant", &contract.Tenant{ClusterID: "consumer"})
		q.assume("namespace", &contract.Metadata{Name: "liqo-tenant-consumer"})
		q.assume("defaults", map[string]string{"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "20Gi"})
	case point == contract.ShadowPodAdmission:
		metadata, _ := object[memberMetadata].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		q.assume("tenant", &contract.Tenant{ClusterID: "consumer"})
		q.assume("namespace", &contract.Metadata{Name: namespace})
		q.assume("request", &contract.AdmissionRequest{User: "consumer-0123456789ab", DryRun: true})
	case point == contract.ResourceMutation:
		q.assume("local", map[string]any{"apiVersion": pod["apiVersion"], memberKind: pod[memberKind], memberMetadata: pod[memberMetadata]})
		q.assume("virtualNode", node)
	default:
		q.assume("local", pod)
		q.assume("virtualNode", node)
	}
	return q
}

func (q *question) assume(name string, value any) {
	q.facts[name] = value
	q.assumed = append(q.assumed, "/"+name)
}

// choose returns the point and the moment to ask at: what was named, or the only ones
// that there are.
func choose(manifest *contract.Manifest, wantPoint, wantMoment string) (contract.Point, contract.Moment, error) {
	names := make([]string, len(manifest.Points))
	for i := range manifest.Points {
		names[i] = string(manifest.Points[i].Point)
	}
	if wantPoint == "" {
		if len(names) != 1 {
			return "", "", output.Usagef("module %s answers %s: choose one with --point", manifest.Name, strings.Join(names, ", "))
		}
		wantPoint = names[0]
	}
	declared := manifest.For(contract.Point(wantPoint))
	if declared == nil {
		return "", "", output.Usagef("module %s does not answer %q, only %s", manifest.Name, wantPoint, strings.Join(names, ", "))
	}
	moment, err := chooseMoment(declared, wantMoment)
	return declared.Point, moment, err
}

func chooseMoment(declared *contract.PointManifest, want string) (contract.Moment, error) {
	if declared.Point != contract.PodMutation {
		if want != "" {
			return "", output.Usagef("%s has no moments: leave out --moment", declared.Point)
		}
		return "", nil
	}
	moments := declared.Moments
	if len(moments) == 0 {
		moments = []contract.Moment{contract.MomentAdmission, contract.MomentOffload}
	}
	if want == "" && len(moments) == 1 {
		return moments[0], nil
	}
	if !slices.Contains(moments, contract.Moment(want)) {
		return "", output.Usagef("--moment %q: the module answers %s at %v", want, declared.Point, moments)
	}
	return contract.Moment(want), nil
}
