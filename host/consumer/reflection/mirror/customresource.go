package mirror

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	forgelocal "github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

const (
	// statusQuiet is how long an event about the status is not repeated.
	statusQuiet = 30 * time.Minute
	// maxStatus bounds the status of a custom resource, in bytes of JSON.
	maxStatus = 256 << 10
)

// CustomResource is a kind that a ResourceReflection names.
type CustomResource struct {
	// Name of the ResourceReflection.
	Name string
	// Kind and Plural in both clusters.
	Kind   schema.GroupVersionKind
	Plural string
	// ReportsStatus is set if the status of the remote object becomes that of the local one.
	ReportsStatus bool
	// StatusInObject is set if the kind has no status subresource in the consumer.
	StatusInObject bool
}

// Define returns the definition of a custom resource. Both ends are unstructured.
func (c CustomResource) Define(o Options) engine.Definition {
	k := kind[*unstructured.Unstructured]{
		name: c.Name, plural: c.Plural, perNamespace: true,
		empty: func() client.Object {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(c.Kind)
			return object
		},
		emptyList: func() client.ObjectList {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(c.Kind.GroupVersion().WithKind(c.Kind.Kind + "List"))
			return list
		},
		forge: func(local *unstructured.Unstructured, in engine.Input, o Options) (runtime.ApplyConfiguration, error) {
			return client.ApplyConfigurationFromUnstructured(
				remote.CustomResource(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, o.Origin)), nil
		},
	}
	if c.ReportsStatus {
		k.report = c.report
	}
	return entry(k).Define(o)
}

// report returns the actions that bring the status of the remote object to the local one. A
// controller of the consumer that writes the status too is slowed down, not fought.
func (c CustomResource) report(local, current *unstructured.Unstructured, in engine.Input) ([]engine.Action, error) {
	before := forgelocal.DeepCopyStatus(local)
	after, err := forgelocal.CustomResourceStatus(current)
	if err != nil {
		return notCopied(in, "because controllers here could not read it: "+err.Error()), nil
	}
	if equality.Semantic.DeepEqual(before, after) {
		return nil, nil
	}
	text, err := json.Marshal(after)
	if err != nil {
		return nil, err //nolint:wrapcheck // a decoded object can be encoded
	}
	if len(text) > maxStatus {
		return notCopied(in, fmt.Sprintf("because it has %d KiB and may have %d. Ask the operator of that cluster what writes it, or set spec.direction of ResourceReflection %s to SpecOnly.",
			len(text)>>10, maxStatus>>10, c.Name)), nil
	}
	last, _ := in.Memory.(engine.LastWrite)
	var actions []engine.Action
	pause, isDue := last.Pause(string(text), in.Facts.Now)
	if isDue {
		actions = append(actions, engine.RecordEvent{
			Type: engine.EventWarning, Reason: engine.ReasonFailedReflection, Quiet: statusQuiet,
			Message: "A controller or user in this cluster keeps changing the status that cluster " + in.Facts.ProviderClusterID +
				" reports. Stop it, or set spec.direction of ResourceReflection " + c.Name + " to SpecOnly.",
		})
	}
	if pause > 0 {
		return append(actions, engine.Requeue{After: pause, Reason: "another writer changes the status"}), nil
	}
	return append(actions,
		engine.PatchLocalStatus{Old: content(before), New: content(after), InObject: c.StatusInObject},
		engine.Remember{Value: last.Wrote(string(text), in.Facts.Now)},
	), nil
}

func notCopied(in engine.Input, cause string) []engine.Action {
	return []engine.Action{engine.RecordEvent{
		Type: engine.EventWarning, Reason: engine.ReasonFailedReflection, Quiet: statusQuiet,
		Message: "The status that cluster " + in.Facts.ProviderClusterID + " reports is not copied, " + cause,
	}}
}

// content returns a status in a form that the engine can compare.
func content(status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: status}
}
