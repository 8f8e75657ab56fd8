package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// absentVersion is a resource version that no object has. An apply with it creates the
// object, or conflicts with an existing one.
const absentVersion = "1"

// configuration is the content of an [Apply], as JSON. meta is its metadata, sum its hash.
// want is the same as a Go type, if policies changed it or [Apply] has it. by names the policies that
// changed it.
type configuration struct {
	content, meta map[string]any
	sum           uint64
	want          client.Object
	by            string
}

func (x *execution) configuration(desired runtime.ApplyConfiguration) (configuration, error) {
	body, err := json.Marshal(desired)
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
	config, err := x.configuration(a.Config)
	if err != nil {
		return err
	}
	config.want = a.Desired
	if !a.SkipPolicies {
		if skipped, err := x.mutate(ctx, &config); err != nil || skipped {
			return err
		}
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
	pause, reported := state.contest.PauseFrom(x.engine.revertBase, x.in.Facts.Now)
	if reported {
		x.recordEvent(Contested(x.in.Facts, "the reflected object"))
	}
	if pause > 0 {
		x.requeueAfter(pause)
	}
	return pause > 0
}

// applyLocal sends a configuration for the local object. Local objects of such a resource
// may be unwatched, so the first apply only creates, and a conflict is read.
func (x *execution) applyLocal(ctx context.Context, a ApplyLocal) error {
	config, err := x.configuration(a.Config)
	if err != nil {
		return err
	}
	before := x.states.get(x.in.Key).applied
	if before == config.sum {
		return nil
	}
	if before == 0 {
		config.meta["resourceVersion"] = absentVersion
	}
	err = x.sendLocal(ctx, config)
	if apierrors.IsConflict(err) && before == 0 {
		object := x.localObject(config)
		err = x.engine.options.Local.Get(ctx, client.ObjectKeyFromObject(object), object)
		x.observe(directionIn, "get", err)
		switch {
		case err != nil:
			return asStale(fmt.Errorf("reading local %s: %w", x.resource.Name, err))
		case !Owned(object, x.in.Facts):
			logr.FromContextOrDiscard(ctx).V(1).Info("The local object is not managed by reflection")
			x.requeueAfter(unmanagedRetry)
			return nil
		}
		delete(config.meta, "resourceVersion")
		err = x.sendLocal(ctx, config)
	}
	if err != nil {
		return fmt.Errorf("applying local %s: %w", x.resource.Name, err)
	}
	x.states.update(x.in.Key, func(s *keyState) { s.applied = config.sum })
	return nil
}

func (x *execution) localObject(config configuration) client.Object {
	object := x.resource.Local.New()
	name, _ := config.meta["name"].(string)
	object.SetName(name)
	object.SetNamespace(x.in.Key.Namespace)
	return object
}

func (x *execution) sendLocal(ctx context.Context, config configuration) error {
	body, err := json.Marshal(config.content)
	if err != nil {
		return fmt.Errorf("encoding local %s: %w", x.resource.Name, err)
	}
	err = x.engine.options.Local.Patch(ctx, x.localObject(config), client.RawPatch(types.ApplyPatchType, body),
		client.FieldOwner(FieldManager), client.ForceOwnership)
	x.observe(directionIn, "apply", err)
	return err //nolint:wrapcheck // applyLocal inspects it
}
