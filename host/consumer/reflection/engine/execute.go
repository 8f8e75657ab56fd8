package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// strangerRetry is how long a name that a stranger holds in the provider is left alone.
// Strangers are not watched, so their end makes no event.
const strangerRetry = 5 * time.Minute

const (
	// releaseTries is how often a name is tried that another virtual node holds before
	// somebody is told: with the pauses of the queue, after 13 seconds.
	releaseTries = 7
	// releaseRetry is how soon it is tried after that. What belongs to another virtual
	// node is not watched, so its end makes no event.
	releaseRetry = 30 * time.Second
)

// errAgain asks for another decision soon, without a word to anybody: the picture was
// out of date.
var errAgain = errors.New("out of date")

// execution carries out the actions of one decision.
type execution struct {
	*runner
	in Input
	// end is nil in a Fallback.
	end           *ends
	local, remote *store
	again         time.Duration
	told          bool
}

// run executes the actions in order and stops at the first that fails.
func (x *execution) run(ctx context.Context, actions []Action) (time.Duration, error) {
	if err := x.doAll(ctx, actions); err != nil {
		return 0, err
	}
	if !x.told {
		x.states.update(x.in.Key, func(s *keyState) { s.told = 0 })
	}
	return x.again, nil
}

func (x *execution) doAll(ctx context.Context, actions []Action) error {
	for _, action := range actions {
		if err := x.do(ctx, action); err != nil {
			return err
		}
	}
	return nil
}

func (x *execution) do(ctx context.Context, action Action) error {
	switch a := action.(type) {
	case Query:
		actions, err := a.Run(ctx)
		if err != nil {
			return &undecidedError{err}
		}
		return x.doAll(ctx, actions)
	case Requeue:
		logr.FromContextOrDiscard(ctx).V(2).Info("Requeueing", "after", a.After, "reason", a.Reason)
		x.wait(a.After)
	case RecordEvent:
		x.refuse(a)
	case Remember:
		x.states.update(x.in.Key, func(s *keyState) { s.memory = a.Value })
	case Keep:
		logr.FromContextOrDiscard(ctx).V(2).Info("Nothing to do", "reason", a.Reason)
	case PatchLocal:
		return x.patchLocal(ctx, a)
	case PatchLocalStatus:
		return x.patchLocalStatus(ctx, a)
	case DeleteLocal:
		return x.deleteLocal(ctx)
	default:
		return x.doRemote(ctx, action)
	}
	return nil
}

func (x *execution) doRemote(ctx context.Context, action Action) error {
	if x.remote == nil {
		return fmt.Errorf("action %T in a namespace that is not mapped: this is a bug in the definition", action)
	}
	switch a := action.(type) {
	case Create:
		return x.create(ctx, a)
	case Apply:
		return x.apply(ctx, a)
	case PatchRemote:
		return x.patchRemote(ctx, a)
	case DeleteRemote:
		return x.deleteRemote(ctx)
	case DeleteDependent:
		return x.deleteDependent(ctx, a)
	case RefreshRemote:
		return x.refreshRemote(ctx)
	default:
		return fmt.Errorf("action %T is not known to the engine", action)
	}
}

func (x *execution) wait(d time.Duration) {
	if x.again == 0 || d < x.again {
		x.again = d
	}
}

func (x *execution) observe(direction, operation string, err error) {
	x.engine.metrics.observe(x.resource.Name, direction, operation, err)
}

func (x *execution) create(ctx context.Context, a Create) error {
	object := a.Object
	object.SetNamespace(x.in.Facts.RemoteNamespace)
	err := x.engine.options.Remote.Create(ctx, object, client.FieldOwner(FieldManager))
	x.observe(directionOut, "create", err)
	switch {
	case err == nil:
		x.remote.Assume(object)
		return nil
	case apierrors.IsAlreadyExists(err):
		return x.meet(ctx, object.GetName())
	default:
		return fmt.Errorf("creating remote %s: %w", x.resource.Name, err)
	}
}

// meet reads an object that was in the way.
func (x *execution) meet(ctx context.Context, name string) error {
	object := x.resource.Remote.New()
	err := x.engine.options.Remote.Get(ctx, client.ObjectKey{Namespace: x.in.Facts.RemoteNamespace, Name: name}, object)
	x.observe(directionOut, "get", err)
	switch {
	case apierrors.IsNotFound(err):
		return errAgain
	case err != nil:
		return fmt.Errorf("reading remote %s: %w", x.resource.Name, err)
	case !Owned(object, x.in.Facts):
		x.refuse(NameConflict(x.in.Facts, x.resource.Name, name))
		x.wait(strangerRetry)
		return nil
	}
	for key, value := range x.resource.RemoteLabels {
		if object.GetLabels()[key] != value {
			return x.yield(name, key+"="+object.GetLabels()[key])
		}
	}
	x.remote.Assume(object)
	return errAgain
}

// yield waits for a name that another virtual node still holds. It mostly goes a moment
// later, of which nobody needs to know; if it does not, the owner is told what the pod
// waits for.
func (x *execution) yield(name, holder string) error {
	if x.queue.NumRequeues(x.in.Key) < releaseTries && x.states.get(x.in.Key).told == 0 {
		return errAgain
	}
	x.refuse(RecordEvent{
		Type: EventWarning, Reason: ReasonFailedReflection,
		Message: "A " + x.resource.Name + " named " + name + " in namespace " + x.in.Facts.RemoteNamespace + " of cluster " +
			x.in.Facts.ProviderClusterID + " still belongs to another virtual node (" + holder + "): waiting for its end",
	})
	x.wait(releaseRetry)
	return nil
}

func (x *execution) patchRemote(ctx context.Context, a PatchRemote) error {
	if x.in.Remote == nil {
		return errAgain
	}
	meta := map[string]any{"uid": x.in.Remote.GetUID()}
	if len(a.Labels) > 0 {
		meta["labels"] = a.Labels
	}
	if len(a.Annotations) > 0 {
		meta["annotations"] = a.Annotations
	}
	object := x.resource.Remote.New()
	object.SetName(x.in.Remote.GetName())
	object.SetNamespace(x.in.Remote.GetNamespace())
	patch, err := mergePatch(map[string]any{"metadata": meta})
	if err != nil {
		return err
	}
	err = x.engine.options.Remote.Patch(ctx, object, patch, client.FieldOwner(FieldManager))
	x.observe(directionOut, "patch", client.IgnoreNotFound(err))
	switch {
	case apierrors.IsNotFound(err):
		return errAgain // it is gone, and the event on its way says so
	case err != nil:
		return stale(fmt.Errorf("patching remote %s: %w", x.resource.Name, err))
	}
	x.remote.Assume(object)
	return nil
}

func (x *execution) deleteRemote(ctx context.Context) error {
	if x.in.Remote == nil {
		return nil
	}
	object := x.resource.Remote.New()
	object.SetName(x.in.Remote.GetName())
	object.SetNamespace(x.in.Remote.GetNamespace())
	uid := x.in.Remote.GetUID()
	err := x.engine.options.Remote.Delete(ctx, object, client.Preconditions{UID: &uid})
	x.observe(directionOut, "delete", client.IgnoreNotFound(err))
	if client.IgnoreNotFound(err) != nil {
		return stale(fmt.Errorf("deleting remote %s: %w", x.resource.Name, err))
	}
	x.remote.AssumeDeleted(object.GetNamespace(), object.GetName(), uid, x.engine.now())
	return nil
}

func (x *execution) deleteDependent(ctx context.Context, a DeleteDependent) error {
	if x.in.Dependent == nil {
		return nil
	}
	object := x.resource.Dependent.New()
	object.SetName(x.in.Dependent.GetName())
	object.SetNamespace(x.in.Dependent.GetNamespace())
	uid := x.in.Dependent.GetUID()
	err := x.engine.options.Remote.Delete(ctx, object, client.GracePeriodSeconds(a.GracePeriodSeconds), client.Preconditions{UID: &uid})
	x.observe(directionOut, "delete", client.IgnoreNotFound(err))
	switch {
	case apierrors.IsForbidden(err):
		logr.FromContextOrDiscard(ctx).V(1).Info("The provider does not grant the deletion of its object", "kind", fmt.Sprintf("%T", object))
		return nil
	case client.IgnoreNotFound(err) != nil:
		return stale(fmt.Errorf("deleting the dependent object of %s: %w", x.resource.Name, err))
	}
	return nil
}

func (x *execution) patchLocal(ctx context.Context, a PatchLocal) error {
	return x.writeLocal(ctx, "patch", map[string]any{"metadata": map[string]any{
		"uid": x.in.Local.GetUID(), "labels": a.Labels,
	}}, func(ctx context.Context, object client.Object, patch client.Patch) error {
		return x.engine.options.Local.Patch(ctx, object, patch, client.FieldOwner(FieldManager))
	})
}

func (x *execution) patchLocalStatus(ctx context.Context, a PatchLocalStatus) error {
	status, err := statusPatch(a.Old, a.New)
	if err != nil {
		return fmt.Errorf("comparing the status of %s: %w", x.resource.Name, err)
	}
	if len(status)+len(a.Labels) == 0 {
		return nil
	}
	meta := map[string]any{"uid": x.in.Local.GetUID()}
	if len(a.Labels) > 0 {
		meta["labels"] = a.Labels
	}
	return x.writeLocal(ctx, "patch_status", map[string]any{"metadata": meta, "status": status}, func(ctx context.Context, object client.Object, patch client.Patch) error {
		return x.engine.options.Local.Status().Patch(ctx, object, patch, client.FieldOwner(FieldManager))
	})
}

// writeLocal patches the local object that was observed. The UID in the body is the
// precondition: a new object of the same name conflicts.
func (x *execution) writeLocal(ctx context.Context, operation string, body map[string]any,
	send func(context.Context, client.Object, client.Patch) error,
) error {
	object := x.resource.Local.New()
	object.SetName(x.in.Key.Name)
	object.SetNamespace(x.in.Key.Namespace)
	patch, err := mergePatch(body)
	if err != nil {
		return err
	}
	err = send(ctx, object, patch)
	x.observe(directionIn, operation, client.IgnoreNotFound(err))
	switch {
	case apierrors.IsNotFound(err):
		return nil // it is gone, and the event on its way says so
	case err != nil:
		return stale(fmt.Errorf("patching local %s: %w", x.resource.Name, err))
	}
	x.local.Assume(object)
	return nil
}

func (x *execution) deleteLocal(ctx context.Context) error {
	object := x.resource.Local.New()
	object.SetName(x.in.Key.Name)
	object.SetNamespace(x.in.Key.Namespace)
	uid := x.in.Local.GetUID()
	err := x.engine.options.Local.Delete(ctx, object, client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})
	x.observe(directionIn, "delete", client.IgnoreNotFound(err))
	if client.IgnoreNotFound(err) != nil {
		return stale(fmt.Errorf("deleting local %s: %w", x.resource.Name, err))
	}
	return nil
}

// stale marks a failed precondition: there is a newer picture, nobody needs to know.
func stale(err error) error {
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}

// terminating reports that the provider's namespace is going away; the NamespaceMap
// will say so too.
func terminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

func mergePatch(body map[string]any) (client.Patch, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, data), nil
}

// statusPatch returns the members of a merge patch that turns one status into another:
// changed members whole, vanished ones as null. Lists are replaced, so that no stale
// condition stays (T18).
func statusPatch(before, after any) (map[string]any, error) {
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return nil, fmt.Errorf("reading the observed status: %w", err)
	}
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err != nil {
		return nil, fmt.Errorf("reading the wanted status: %w", err)
	}
	return diff(have, want), nil
}

// diff returns the merge patch from one JSON object to another.
func diff(have, want map[string]any) map[string]any {
	patch := map[string]any{}
	for key := range have {
		if _, stays := want[key]; !stays {
			patch[key] = nil
		}
	}
	for key, value := range want {
		before, isMap := have[key].(map[string]any)
		after, isMapToo := value.(map[string]any)
		switch {
		case isMap && isMapToo:
			if inner := diff(before, after); len(inner) > 0 {
				patch[key] = inner
			}
		case !reflect.DeepEqual(have[key], value):
			patch[key] = value
		}
	}
	return patch
}
