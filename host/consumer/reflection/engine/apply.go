package engine

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// absent is a resource version that no object has: an apply that carries it creates
// or conflicts, and never touches what is there.
const absent = "1"

// configuration is what an [Apply] asks for, as JSON. meta is its metadata, sum its hash.
// want and by are set when policies changed it: the same, typed, and who did.
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
// apply is either one that creates and touches nothing that exists, or one that is
// forced onto the very object that was observed.
func (x *execution) apply(ctx context.Context, a Apply) error {
	config, err := x.configuration(a)
	if err != nil {
		return err
	}
	if skipped, err := x.mutate(ctx, &config); err != nil || skipped {
		return err
	}
	if replaced, err := x.replaced(ctx, &config); err != nil || replaced {
		return err
	}
	state := x.states.get(x.in.Key)
	if x.in.Remote == nil {
		config.meta["resourceVersion"] = absent
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
	if state.applied == config.sum && x.contested(state) {
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
		return x.meet(ctx, name)
	case apierrors.IsConflict(err):
		return stale(err)
	case config.by != "":
		return fmt.Errorf("applying remote %s as %s left it: %w", x.resource.Name, config.by, err)
	default:
		return fmt.Errorf("applying remote %s: %w", x.resource.Name, err)
	}
}

// contested reports that a change in the provider is not reverted now, and has the key
// decided again when it may be.
func (x *execution) contested(state keyState) bool {
	pause, reported := state.contest.pause(x.engine.revertBase, x.in.Facts.Now)
	if reported {
		x.refuse(Contested(x.in.Facts, "the reflected object"))
	}
	if pause > 0 {
		x.wait(pause)
	}
	return pause > 0
}
