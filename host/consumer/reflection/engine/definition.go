package engine

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Key names one reflected object by its local namespace and its local name, whichever
// end an event came from.
type Key struct {
	Namespace string
	Name      string
}

// String implements fmt.Stringer: "namespace/name".
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Definition says of one resource what is to be done. Implementations are safe for
// concurrent use and never alter the objects that they are given: those are shared
// with the cache.
type Definition interface {
	// Resource describes both ends.
	Resource() Resource
	// Decide returns the actions that follow from what was observed. It is a pure function:
	// what it needs to ask of policies or API servers goes into a [Query]. After an error,
	// the key is decided again with backoff.
	Decide(in Input) ([]Action, error)
}

// Fallback is implemented by definitions whose objects need an answer while their
// namespace is not offloaded (wire 3.9). Input then has no remote objects.
type Fallback interface {
	Fallback(in Input) ([]Action, error)
}

// Remapper is implemented by definitions whose names differ between both ends.
// ToLocal is the inverse of ToRemote.
type Remapper interface {
	ToRemote(localName string) string
	ToLocal(remoteName string) string
}

// Replacer is implemented by definitions of whose objects not everything can be changed.
// Replaces reports whether no update brings the remote object to what is wanted: the local
// object, or what policies made of it. The remote object is then deleted and made anew.
type Replacer interface {
	Replaces(want, there client.Object) bool
}

// PolicyChooser is implemented by definitions for some of whose objects another
// reflection policy than the resource's holds (wire 4.6: root CA).
type PolicyChooser interface {
	ReflectionPolicy(local client.Object) offloadingv1beta1.ReflectionType
}

// Resource describes what a definition reflects.
type Resource struct {
	// Name is the lower-case singular word that metrics and the event component carry,
	// for example "configmap".
	Name string
	// Local and Remote are the two ends. Dependent is a further remote kind whose object of
	// the same name belongs to the same key; nil for most.
	Local, Remote Kind
	Dependent     *Kind
	// LocalFields narrows what is watched locally. Objects of namespaces that are not
	// mapped are decided too, by Fallback. Without it, decisions are about mapped
	// namespaces only.
	LocalFields fields.Selector
	// LocalFieldsOf returns the fields of a local object that LocalFields selects by;
	// required with it.
	LocalFieldsOf func(client.Object) fields.Set
	// LocalPerNamespace watches local objects in each mapped namespace, for kinds that the
	// virtual kubelet may not read elsewhere. Otherwise one informer holds all namespaces.
	LocalPerNamespace bool
	// Related are further local kinds that decisions depend on, as Input.Related.
	Related []Related
	// RemoteLabels narrows what is watched remotely, in addition to the ownership labels.
	// An object that carries the ownership labels but not these belongs to another
	// virtual node of the same provider.
	RemoteLabels labels.Set
	// LeaderOnly says that the objects are not one virtual node's but the provider's: of
	// its virtual kubelets, only the leader handles them (wire 4.1). Without it, every
	// one handles what is its own.
	LeaderOnly bool
	// Policy says how the skip and allow annotations are read.
	Policy offloadingv1beta1.ReflectionType
	// Filter asks for Input.Labels and Input.Annotations before every decision.
	Filter bool
	// Workers is the number of keys handled at once; at least 1.
	Workers int
}

// Related is a local kind that decisions about another kind depend on.
type Related struct {
	Kind Kind
	// Fields narrows what is watched. Definitions that select the same objects share the
	// informer. Optional.
	Fields fields.Selector
	// Keys returns the names of the local objects that are decided again when a related
	// object changed. Both are of one namespace, unless the related kind has none.
	Keys func(changed client.Object, locals []client.Object) []string
}

// Kind is a kind of Kubernetes objects, typed or unstructured.
type Kind struct {
	New     func() client.Object
	NewList func() client.ObjectList
	// ClusterScoped is possible for related kinds only.
	ClusterScoped bool
	// Trim drops, in place, what no decision reads, before the object enters the cache.
	// Managed fields are dropped anyway, but for those of an apply of ours. Optional.
	Trim func(client.Object)
}

// Facts are what is known beyond the objects.
type Facts struct {
	HomeClusterID     string
	ProviderClusterID string
	NodeName          string
	// NodeIP is the address that the virtual node announces.
	NodeIP string
	// RemoteNamespace is what the key's namespace is mapped to; empty in a Fallback.
	RemoteNamespace string
	// MappingFails is set in a Fallback when the namespace is asked for and the provider fails
	// to create it, or to restore it: what ran there may still run.
	MappingFails bool
	// PolicyRevision grows with every change of the policies.
	PolicyRevision uint64
	// RemoteUnknown says that the remote objects may be of before an outage of the link to
	// the provider: how they are now is not known.
	RemoteUnknown bool
	Now           time.Time
}

// Input is everything a decision may depend on.
type Input struct {
	Key   Key
	Facts Facts
	// Local, Remote and Dependent are nil when absent. They are shared: read only.
	Local, Remote, Dependent client.Object
	// Related look up objects of Resource.Related, in the same order, by their name in the
	// namespace of the key. They return nil for absent objects.
	Related []func(name string) client.Object
	// Memory is what the last [Remember] for this key held, nil at first. It does not
	// survive a restart and vanishes with the last object of the key.
	Memory any
	// Labels and Annotations are those of Local after the metadata filter; set when the
	// resource asks for it, the object exists and is not skipped.
	Labels, Annotations map[string]string
	// Skipped says that the reflection policy excludes Local; SkipAnnotated that it does
	// so because of an annotation which somebody set.
	Skipped, SkipAnnotated bool
}

// MetadataFilter asks the policies which labels and annotations of an object are
// reflected; the annotations that it returns also tell who decided so. Namespace and name
// are the local ones. remote is what was reflected before, nil when that is not there: what
// it tells already need not be told in other words, at the price of a request.
type MetadataFilter func(ctx context.Context, apiVersion, kind string, local, remote client.Object) (labels, annotations map[string]string, err error)

// Recorder records an event on an object; client-go's record.EventRecorder is one.
type Recorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// Reasons of the events that the engine and its definitions record (wire 4.1).
const (
	ReasonFailedReflection   = "FailedReflection"
	ReasonReflectionDisabled = "ReflectionDisabled"
)

// EventWarning and EventNormal are the two event types.
const (
	EventWarning = corev1.EventTypeWarning
	EventNormal  = corev1.EventTypeNormal
)
