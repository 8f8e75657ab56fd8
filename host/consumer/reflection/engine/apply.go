package engine

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// absentVersion is a resource version that no object has. An apply with it creates the
// object, or conflicts with an existing one.
const absentVersion = "1"

// configuration is the content of an [Apply], as JSON. meta is its metadata, sum its hash.
// If policies changed it, want is the same as a Go type, and by names the policies.
type configuration struct {
	content, meta map[string]any
	sum           uint64
	want          client.Object
	by            string
}

func (x *execution) configuration(a Apply) (configuration, error) {
	body, err := json.Marshal(a.Config)
	if err != nil {
		return configuration{}, fmt.Errorf("encoding remote %s: %w", x.resource.Name, err)
	}
	return x.parse(body)
}

func (x *execution) parse(body []byte) (configuration, error) {
	c := configuration{sum: x.states.hash(string(body))}
	if err := json.Unmarshal(body, &c.content); err != nil {
		return configuration{}, fmt.Errorf("encoding remote %s: %w", x.resource.Name, err)
	}
	meta, ok := c.content["metadata"].(map[string]any)
	if !ok {
		return configuration{}, fmt.Errorf("remote %s has no metadata: this is a bug in its definition", x.resource.Name)
	}
	c.meta = meta
	return c, nil
}

// apply sends a configuration by server-side apply, unless that would change nothing. An
// apply either creates the object, or is forced onto the object with the observed UID.
func (x *execution) apply(ctx context.Context, a Apply) error {
	config, err := x.configuration(a)
	if err != nil {
		return err
	}
	if skipped, err := x.mutate(ctx, &config); err != nil || skipped {
		return err
	}
	if replaced, err := x.deleteReplaced(ctx, &config); err != nil || replaced {
		return err
	}
	state := x.states.get(x.in.Key)
	if x.in.Remote == nil {
		config.meta["resourceVersion"] = absentVersion
	} else {
		how, err := cover(x.in.Remote, config.content)
		if err != nil {
			return fmt.Errorf("comparing remote %s: %w", x.resource.Name, err)
		}
		if how == exact || how == covered && state.applied == config.sum {
			return nil
		}
		config.meta["uid"] = string(x.in.Remote.GetUID())
	}
	if state.applied == config.sum && x.isContested(state) {
		return nil
	}
	return x.sendApply(ctx, config)
}

func (x *execution) sendApply(ctx context.Context, config configuration) error {
	body, err := json.Marshal(config.content)
	if err != nil {
		return fmt.Errorf("encoding remote %s: %w", x.resource.Name, err)
	}
	object := x.resource.Remote.New()
	name, _ := config.meta["name"].(string)
	object.SetName(name)
	object.SetNamespace(x.in.Facts.RemoteNamespace)
	err = x.engine.options.Remote.Patch(ctx, object, client.RawPatch(types.ApplyPatchType, body),
		client.FieldOwner(FieldManager), client.ForceOwnership)
	x.observe(directionOut, "apply", err)
	switch {
	case err == nil:
		x.remote.Assume(object)
		x.states.update(x.in.Key, func(s *keyState) {
			s.contest = s.contest.Wrote(s.applied == config.sum, x.in.Facts.Now)
			s.applied = config.sum
		})
		return nil
	case apierrors.IsConflict(err) && x.in.Remote == nil:
		return x.resolveConflict(ctx, name)
	case apierrors.IsConflict(err):
		return asStale(err)
	case config.by != "":
		return fmt.Errorf("applying remote %s as changed by %s: %w", x.resource.Name, config.by, err)
	default:
		return fmt.Errorf("applying remote %s: %w", x.resource.Name, err)
	}
}

// isContested reports whether a change by another writer in the provider is not reverted
// now. Then the key is requeued for the time when it may be.
func (x *execution) isContested(state keyState) bool {
	pause, reported := state.contest.pause(x.engine.revertBase, x.in.Facts.Now)
	if reported {
		x.recordEvent(Contested(x.in.Facts, "the reflected object"))
	}
	if pause > 0 {
		x.requeueAfter(pause)
	}
	return pause > 0
}
