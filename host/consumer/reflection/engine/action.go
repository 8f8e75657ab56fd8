package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

// Action is one step of a decision. The types in this file are all that there are.
type Action interface{ action() }

// Create creates a remote object. If the name is taken by an object of this reflection, the
// object enters the cache and the key is decided again. An unmanaged object is left alone.
type Create struct {
	Object client.Object
	// Refused returns the actions when the provider refuses the object for its content (a webhook, a
	// policy, a quota): they report the cause. The creation is tried again in any case. Optional.
	Refused func(message string) []Action
}

// Apply brings the remote object to a configuration by server-side apply. It creates an
// absent object and forces a managed one. It leaves an unmanaged object alone, and sends no
// request that would change nothing.
type Apply struct {
	Config runtime.ApplyConfiguration
	// Desired is what a [Replacer] compares, where that is not the local object. Optional.
	Desired client.Object
	// SkipPolicies applies the object without asking the policies. It is for objects that
	// the virtual kubelet makes itself, such as Secrets with tokens.
	SkipPolicies bool
}

// ApplyLocal brings the local object to a configuration by server-side apply, in the
// direction from remote to local. An unmanaged object of the name is left alone. The
// configuration that was applied last is not applied again.
type ApplyLocal struct{ Config runtime.ApplyConfiguration }

// PatchRemote sets labels and annotations of the remote object; nil removes a key.
type PatchRemote struct{ Labels, Annotations map[string]*string }

// PatchRemoteSpec sends a JSON patch of the remote object. If the provider accepts it, the actions of
// Accepted follow; if it refuses it, those of Refused.
type PatchRemoteSpec struct {
	Operations []podupdate.Operation
	Accepted   []Action
	Refused    func(message string) []Action
}

// DeleteRemote deletes the remote object that was observed, with its UID as precondition.
type DeleteRemote struct{}

// DeleteDependent deletes the dependent object that was observed, with a grace period and its
// UID as precondition. A provider that does not grant the right is not an error: it deletes the
// object with the object's own grace period.
type DeleteDependent struct{ GracePeriodSeconds int64 }

// AskDependent reads the dependent object, which the watch has lost (Input.IsDependentLost). If it exists
// and IsOwn accepts it, the actions of Exists follow, otherwise those of Gone. They follow as well if the
// provider does not grant the read.
type AskDependent struct {
	IsOwn        func(client.Object) bool
	Exists, Gone []Action
}

// PatchLocal sets labels of the local object; nil removes a key.
type PatchLocal struct{ Labels map[string]*string }

// PatchLocalStatus replaces the status of the local object: fields that New does not have
// are removed. Old is the observed status, New the desired one. Labels are set in the same
// request: the API server accepts labels in a patch of a pod's status. InObject is set for kinds
// without the status subresource: their status is a field of the object. IfUnchanged makes the
// observed version of the object a precondition.
type PatchLocalStatus struct {
	Old, New    any
	Labels      map[string]*string
	InObject    bool
	IfUnchanged bool
}

// DeleteLocal deletes the local object that was observed, without grace period.
type DeleteLocal struct{}

// DecideFirst carries out the decision of another resource about the key, with Input.IsAwaited, before the
// actions that follow: what a remote object needs is there before it. If that fails, or must wait ([Hold]), they are
// not carried out, and the key is decided again. A resource that is not reflected is passed over.
type DecideFirst struct{ Resource string }

// Hold makes the definition that awaits this decision wait. Otherwise it is like [Keep].
type Hold struct{ Reason string }

// Requeue decides the key again after a while, if no event does so before. Reason is
// logged.
type Requeue struct {
	After  time.Duration
	Reason string
}

// RecordEvent records an event on the local object, unless it equals the last one.
type RecordEvent struct {
	// Type is EventWarning or EventNormal.
	Type    string
	Reason  string
	Message string
	// Quiet is how long the event is not recorded again after decisions without events. Zero
	// means that it is recorded again after the next such decision.
	Quiet time.Duration
}

// Keep leaves both objects as they are. Reason is logged.
type Keep struct{ Reason string }

// RefreshRemote lists the dependent objects of the namespace again if they were read before
// an outage (Facts.RemoteUnknown), and decides the key again.
type RefreshRemote struct{}

// Remember keeps a value as Input.Memory of the next decision about the key.
type Remember struct{ Value any }

// Query asks the policies or an API server, and answers with the actions that follow.
// Definitions use it because Decide itself is pure.
type Query struct {
	Run func(ctx context.Context) ([]Action, error)
}

func (Create) action()           {}
func (Apply) action()            {}
func (ApplyLocal) action()       {}
func (PatchRemote) action()      {}
func (PatchRemoteSpec) action()  {}
func (DeleteRemote) action()     {}
func (DeleteDependent) action()  {}
func (AskDependent) action()     {}
func (PatchLocal) action()       {}
func (PatchLocalStatus) action() {}
func (DeleteLocal) action()      {}
func (DecideFirst) action()      {}
func (Hold) action()             {}
func (Requeue) action()          {}
func (RecordEvent) action()      {}
func (Keep) action()             {}
func (RefreshRemote) action()    {}
func (Remember) action()         {}
func (Query) action()            {}
