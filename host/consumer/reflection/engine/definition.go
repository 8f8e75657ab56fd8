package engine

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Key is the local namespace and the local name of a reflected object.
type Key struct {
	Namespace string
	Name      string
}

// String implements fmt.Stringer: "namespace/name".
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Definition decides how one resource is reflected. Implementations are safe for concurrent
// use and do not alter the objects in their input, which are shared with the cache.
type Definition interface {
	// Resource describes the local and the remote kind.
	Resource() Resource
	// Decide returns the actions that follow from what was observed. It is a pure function:
	// what it needs to ask of policies or API servers goes into a [Query]. After an error,
	// the key is decided again with backoff.
	Decide(in Input) ([]Action, error)
}

// Fallback is implemented by definitions that decide about local objects of namespaces that
// are not offloaded. The input has no remote objects then.
type Fallback interface {
	Fallback(in Input) ([]Action, error)
}

// Remapper is implemented by definitions whose remote objects have other names. ToLocal is
// the inverse of ToRemote; object returns the remote object, or nil if it is gone, for names that do not
// tell. The object is decoded for each call.
type Remapper interface {
	ToRemote(localName string) string
	ToLocal(remoteName string, object func() metav1.Object) string
}

// Replacer is implemented by definitions of kinds with immutable fields. Replaces reports
// whether no update changes the remote object into the desired one, which is the local
// object, what Apply.Desired says, or the result of the policies. Then the remote object is deleted and
// created again. notice says, for an event, what that changes for users; empty for none.
type Replacer interface {
	Replaces(desired, current client.Object) (replaces bool, notice string)
}

// PolicyChooser is implemented by definitions with objects that have a reflection policy of
// their own, as the root CA, or that of a related object.
type PolicyChooser interface {
	// ReflectionPolicy returns the policy of in.Local, and the object whose annotations it
	// evaluates.
	ReflectionPolicy(in Input) (offloadingv1beta1.ReflectionType, client.Object)
}

// Resource describes what a definition reflects.
type Resource struct {
	// Name is the lower-case singular word in metrics and event components, for example
	// "configmap".
	Name string
	// Local and Remote are the two kinds. Dependent is the remote kind whose object of the
	// same name the remote object controls; nil for most.
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
	// LocalUnwatched is set for resources that are reflected from remote to local only:
	// Input.Local is nil, and the reflection policy is that of the remote object.
	LocalUnwatched bool
	// RemoteOnce lists the remote objects once, when a namespace is mapped, and does not watch
	// them: for resources whose remote objects are to be removed only.
	RemoteOnce bool
	// RemoteUnmanaged watches the remote objects of all owners, and not those with the ownership labels.
	RemoteUnmanaged bool
	// Related are further kinds that decisions depend on, as Input.Related.
	Related []Related
	// RemoteLabels narrows what is watched remotely, in addition to the ownership labels.
	// An object that carries the ownership labels but not these belongs to another
	// virtual node of the same provider.
	RemoteLabels labels.Set
	// LeaderOnly is set for objects that do not belong to one virtual node. Of the virtual
	// kubelets of a provider, only the leader handles them.
	LeaderOnly bool
	// After is the name of a resource. The objects of this one are read in a namespace when those of the
	// other are, if the engine has it, and in a few namespaces a second: what is urgent after a restart does
	// not wait for the rest. Optional.
	After string
	// Policy is the meaning of the skip and allow annotations.
	Policy offloadingv1beta1.ReflectionType
	// Filter asks for Input.Labels and Input.Annotations before every decision.
	Filter bool
	// Workers is the number of keys handled at once; at least 1.
	Workers int
}

// Related is a kind that decisions about another kind depend on: a local one, or a remote one.
type Related struct {
	Kind Kind
	// IsRemote selects the objects of this reflection in the remote namespace. Writes of this process
	// count as changes: they are those of another definition, with which the informer is shared.
	IsRemote bool
	// Fields narrows what is watched. Definitions that select the same objects share the
	// informer. Optional.
	Fields fields.Selector
	// Keys returns the names of the local objects that are decided again when a related
	// object changed. Both are of one namespace or its remote one, unless the related kind has none.
	// Optional.
	Keys func(changed client.Object, locals []client.Object) []string
	// Matches makes Input.Related look up the first object that matches a value, instead of the
	// object of a name. Optional.
	Matches func(object client.Object, value string) bool
}

// Kind is a kind of Kubernetes objects, typed or unstructured.
type Kind struct {
	New     func() client.Object
	NewList func() client.ObjectList
	// ClusterScoped is possible for related kinds only.
	ClusterScoped bool
	// Plural is the name of the resource in URLs. It is needed for custom resources only, whose
	// plural need not be that of their kind.
	Plural string
	// Trim removes, in place, what no decision reads, before the object enters the cache.
	// The cache keeps only the managed fields of this reflection's applies. Optional.
	Trim func(client.Object)
	// TrimName identifies Trim: definitions whose kinds have the same one share the cached objects. The
	// name of the resource by default.
	TrimName string
	// IsBackground reports whether decisions about a remote object wait for those about others. Optional.
	IsBackground func(client.Object) bool
	// Encoded keeps the objects encoded in the cache, which needs a fifth of the memory. Each read
	// decodes: it is for kinds with many objects, which are read one at a time.
	Encoded bool
	// HasEnded reports whether the last state of an object says that its deletion is complete. An
	// object that leaves the watch in another state may exist without the labels by which it is
	// watched (Input.IsDependentLost). Optional, for dependent kinds.
	HasEnded func(client.Object) bool
}

// Facts are the inputs of a decision that are not objects.
type Facts struct {
	HomeClusterID     string
	ProviderClusterID string
	NodeName          string
	// NodeIP is the address that the virtual node announces.
	NodeIP string
	// RemoteNamespace is the namespace that the key's namespace is mapped to; empty in a
	// Fallback.
	RemoteNamespace string
	// IsWithdrawn is set when the namespace is no longer offloaded, and the provider has not ended the
	// remote one yet. The engine sends nothing to it then: what runs there ends.
	IsWithdrawn bool
	// IsEnding is set while the provider deletes the remote namespace, which is requested. The engine sends
	// nothing to it; what is in it ends.
	IsEnding bool
	// MappingFails is set in a Fallback when the provider has not created or restored the
	// requested remote namespace. Its pods may still run.
	MappingFails bool
	// MappingStarts is set in a Fallback when the provider has accepted the requested namespace
	// meanwhile: its reflection is about to start.
	MappingStarts bool
	// PolicyRevision grows with every change of the policies.
	PolicyRevision uint64
	// RemoteUnknown is set when the dependent objects were read before an outage of the link
	// to the provider, so that their current state is unknown.
	RemoteUnknown bool
	Now           time.Time
}

// IsSent reports whether anything is sent to the remote namespace.
func (f *Facts) IsSent() bool { return !f.IsWithdrawn && !f.IsEnding }

// Input is everything a decision may depend on.
type Input struct {
	Key   Key
	Facts Facts
	// Local, Remote and Dependent are nil when absent. They are shared: read only.
	Local, Remote, Dependent client.Object
	// IsDependentLost is set when Dependent is nil because the object left the watch, and the end of
	// the object was not seen (Kind.HasEnded). [AskDependent] finds out.
	IsDependentLost bool
	// Related look up objects of Resource.Related, in the same order, by their name in the
	// namespace of the key or in its remote one, or by Matches. They return nil for absent objects.
	Related []func(name string) client.Object
	// IsAwaited is set when another definition waits for this decision ([DecideFirst]).
	IsAwaited bool
	// RemoteNamespaceOf returns the remote name of a local namespace, and whether it is mapped.
	RemoteNamespaceOf func(local string) (remote string, isMapped bool)
	// Memory is what the last [Remember] for this key held, nil at first. It does not
	// survive a restart and vanishes with the last object of the key.
	Memory any
	// Labels and Annotations are those of Local after the metadata filter; set when the
	// resource asks for it, the object exists and is not skipped.
	Labels, Annotations map[string]string
	// Skipped is set when the reflection policy excludes Local, SkipAnnotated when it does so
	// because of an annotation on Local.
	Skipped, SkipAnnotated bool
}

// MetadataFilter asks the policies which labels and annotations of a local object are
// reflected. The annotations in the result also record which policies decided. remote is the
// current remote object or nil; a record on it that is still true is not reworded, which
// would cost a request.
type MetadataFilter func(ctx context.Context, apiVersion, kind string, local, remote client.Object) (labels, annotations map[string]string, err error)

// Recorder records an event on an object; client-go's record.EventRecorder is one.
type Recorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// Reasons of the events that the engine and its definitions record.
const (
	ReasonFailedReflection   = "FailedReflection"
	ReasonReflectionDisabled = "ReflectionDisabled"
	// ReasonThrottled: the provider changes a status more often than it is copied.
	ReasonThrottled = "StatusThrottled"
	// ReasonReplaced: the remote object is deleted and created again, which users of it notice.
	ReasonReplaced = "RemoteObjectReplaced"
)

// EventWarning and EventNormal are the two event types.
const (
	EventWarning = corev1.EventTypeWarning
	EventNormal  = corev1.EventTypeNormal
)
