package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ResourceMutation has the last word about an object that is about to be applied, whatever
// its kind: after its definition has forged it, before anything is compared or sent.
// content is the object as JSON, local what is reflected, remote what was reflected before,
// nil when that is not there, and empty makes an object of the remote type. Nothing that is
// passed is altered.
//
// A nil answer leaves the object as it is; so should the answer be, at no cost, when there
// is nobody to ask. An error holds the object back, and its owner is told.
type ResourceMutation func(ctx context.Context, local, remote client.Object, content map[string]any, empty func() client.Object) (*Mutation, error)

// Mutation is what became of an object.
type Mutation struct {
	// Content to be sent; nil when that did not change. It is read only.
	Content map[string]any
	// Object is Content, typed; nil when no more than annotations of ours changed.
	Object client.Object
	// By says who changed it, for messages.
	By string
	// Skip says why the object stays at home, and who wants it to; empty when it does not.
	Skip string
}

// mutate asks about a configuration and reports whether the object stays at home.
func (x *execution) mutate(ctx context.Context, c *configuration) (skipped bool, err error) {
	if x.engine.options.Mutate == nil {
		return false, nil
	}
	mutation, err := x.engine.options.Mutate(ctx, x.in.Local, x.in.Remote, c.content, x.resource.Remote.New)
	switch {
	case err != nil:
		return false, &undecidedError{err}
	case mutation == nil:
		return false, nil
	case mutation.Skip != "":
		return true, x.leaveOut(ctx, mutation.Skip)
	case mutation.Content == nil:
		return false, nil
	}
	body, err := json.Marshal(mutation.Content)
	if err != nil {
		return false, fmt.Errorf("encoding remote %s: %w", x.resource.Name, err)
	}
	// Decoded anew, since the metadata is added to, and what policies answered is shared.
	next, err := x.parse(body)
	if err != nil {
		return false, err
	}
	next.want, next.by = mutation.Object, mutation.By
	*c = next
	return false, nil
}

// leaveOut withdraws an object that a policy wants to stay at home, as the skip annotation
// does, and tells its owner so.
func (x *execution) leaveOut(ctx context.Context, why string) error {
	logr.FromContextOrDiscard(ctx).V(1).Info("Leaving an object at home", "reason", why)
	if err := x.deleteRemote(ctx); err != nil {
		return err
	}
	// It is not there for us to keep right: once it may travel, that is no revert.
	x.states.update(x.in.Key, func(s *keyState) { s.applied, s.contest = 0, Contest{} })
	x.refuse(RecordEvent{Type: EventNormal, Reason: ReasonReflectionDisabled, Message: NotReflected(x.in.Facts, why)})
	return nil
}

// replaced deletes a remote object that no update can bring to the configuration. Its end
// is an event, which makes it anew (T47).
func (x *execution) replaced(ctx context.Context, c *configuration) (bool, error) {
	replacer, ok := x.definition.(Replacer)
	if !ok || x.in.Remote == nil {
		return false, nil
	}
	want := c.want
	if want == nil {
		want = x.in.Local
	}
	if !replacer.Replaces(want, x.in.Remote) {
		return false, nil
	}
	return true, x.deleteRemote(ctx)
}
