package engine

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Action is one thing to do. The set is closed: these are all.
type Action interface{ action() }

// Create creates a remote object. If one of that name exists, it is read: ours enters
// the cache and the key is decided again, a stranger's is left alone (T39).
type Create struct{ Object client.Object }

// Apply brings the remote object to a configuration by server-side apply: created if
// it is absent, forced if it is ours, left alone if it is a stranger's, and not sent
// at all when it would change nothing.
type Apply struct{ Config runtime.ApplyConfiguration }

// PatchRemote sets labels and annotations of the remote object; nil removes a key.
type PatchRemote struct{ Labels, Annotations map[string]*string }

// DeleteRemote deletes the remote object that was observed, and no other of its name.
type DeleteRemote struct {
	// Foreground has the API server keep the object until what it owns is gone.
	Foreground bool
}

// PatchLocal sets labels of the local object; nil removes a key.
type PatchLocal struct{ Labels map[string]*string }

// PatchLocalStatus replaces the status of the local object: members that New lacks are
// removed. Old is the observed status, New the wanted one. Labels, if any, are set in the
// same request: the API server takes labels with a pod's status.
type PatchLocalStatus struct {
	Old, New any
	Labels   map[string]*string
}

// DeleteLocal deletes the local object that was observed, without grace period.
type DeleteLocal struct{}

// Wait asks for another decision after a while, should no event come first.
type Wait struct {
	For time.Duration
	Why string
}

// Refuse tells the owner of the local object, once, why it is not reflected.
type Refuse struct {
	// Type is EventWarning or EventNormal.
	Type    string
	Reason  string
	Message string
}

// Keep does nothing, and says why.
type Keep struct{ Why string }

// RefreshRemote reads the third objects of the namespace again if Facts.RemoteUnknown says
// that they are of before an outage, and has the key decided again.
type RefreshRemote struct{}

// Remember keeps a value for the next decision about the same key.
type Remember struct{ Value any }

func (Create) action()           {}
func (Apply) action()            {}
func (PatchRemote) action()      {}
func (DeleteRemote) action()     {}
func (PatchLocal) action()       {}
func (PatchLocalStatus) action() {}
func (DeleteLocal) action()      {}
func (Wait) action()             {}
func (Refuse) action()           {}
func (Keep) action()             {}
func (RefreshRemote) action()    {}
func (Remember) action()         {}
