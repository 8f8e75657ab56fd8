package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ResourceMutation asks the policies about a forged object of any kind before it is compared
// and applied. content is the object as JSON, local the local object, remote the current
// remote object or nil. empty returns a new object of the remote type. The arguments are
// read only.
//
// A nil result leaves the object as it is. After an error the object is not applied, and an
// event is recorded.
type ResourceMutation func(ctx context.Context, local, remote client.Object, content map[string]any, empty func() client.Object) (*Mutation, error)

// Mutation is the result of a ResourceMutation.
type Mutation struct {
	// Content is the changed object, nil for the unchanged one. It is read only.
	Content map[string]any
	// Object is Content as a Go type; nil if only records of the policies changed.
	Object client.Object
	// By names the policies that changed it, for messages.
	By string
	// Skip is the reason why a policy does not want the object reflected; empty if it does.
	Skip string
}

// mutate asks the policies about a configuration, and reports whether they skip the object.
func (x *execution) mutate(ctx context.Context, c *configuration) (skipped bool, err error) {
	if x.engine.options.Mutate == nil {
		return false, nil
	}
	mutation, err := x.engine.options.Mutate(ctx, x.in.Local, x.in.Remote, c.content, x.resource.Remote.New)
	switch {
	case err != nil:
		return false, &decisionError{err}
	case mutation == nil:
		return false, nil
	case mutation.Skip != "":
		return true, x.withdrawSkipped(ctx, mutation.Skip)
	case mutation.Content == nil:
		return false, nil
	}
	body, err := json.Marshal(mutation.Content)
	if err != nil {
		return false, fmt.Errorf("encoding remote %s: %w", x.resource.Name, err)
	}
	// A decoded copy, since the result of the policies is shared and metadata is added.
	next, err := x.parse(body)
	if err != nil {
		return false, err
	}
	next.want, next.by = mutation.Object, mutation.By
	if next.want == nil {
		next.want = c.want
	}
	*c = next
	return false, nil
}

// withdrawSkipped deletes the remote object of an object that a policy skips, and records an
// event, as for the skip annotation.
func (x *execution) withdrawSkipped(ctx context.Context, reason string) error {
	logr.FromContextOrDiscard(ctx).V(1).Info("A policy skips the object", "reason", reason)
	if err := x.withdraw(ctx); err != nil {
		return err
	}
	x.recordEvent(RecordEvent{Type: EventNormal, Reason: ReasonReflectionDisabled, Message: NotReflected(x.in.Facts, reason)})
	return nil
}

// deleteReplaced deletes a remote object that no update changes into the configuration, and
// reports whether it did. The event of the deletion creates it again. One that another writer in the
// provider changes again and again is deleted less and less often.
func (x *execution) deleteReplaced(ctx context.Context, c *configuration) (bool, error) {
	replacer, ok := x.definition.(Replacer)
	if !ok || x.in.Remote == nil {
		return false, nil
	}
	desired := c.want
	if desired == nil {
		desired = x.in.Local
	}
	replaces, notice := replacer.Replaces(desired, x.in.Remote)
	if !replaces {
		return false, nil
	}
	if state := x.states.get(x.in.Key); state.applied == c.sum && x.isContested(state) {
		return true, nil
	}
	if notice != "" {
		x.recordEvent(RecordEvent{Type: EventNormal, Reason: ReasonReplaced, Message: notice})
	}
	return true, x.deleteRemote(ctx)
}
