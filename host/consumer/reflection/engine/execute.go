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

// unmanagedRetry is the pause after a name was found taken by an unmanaged object of the
// provider. Unmanaged objects are not watched, so their deletion is not an event.
const unmanagedRetry = 30 * time.Second

const (
	// otherNodeTries is the number of tries after which an event reports that another
	// virtual node still holds the name: with the queue's backoff, 13 seconds.
	otherNodeTries = 7
	// otherNodeRetry is the pause after that. Objects of other virtual nodes are not
	// watched, so their deletion is not an event.
	otherNodeRetry = 30 * time.Second
)

// errStale requeues a key without an event, because its input was stale.
var errStale = errors.New("the cache is stale")

// execution carries out the actions of one decision.
type execution struct {
	*runner
	in Input
	// caches is nil in a Fallback.
	caches        *namespaceCaches
	local, remote *store
	again         time.Duration
	hasRecorded   bool
}

// run executes the actions in order and stops at the first that fails.
func (x *execution) run(ctx context.Context, actions []Action) (time.Duration, error) {
	err := x.doAll(ctx, actions)
	if wait, isOver := overBudget(err); isOver {
		x.requeueAfter(wait)
		return x.again, nil
	}
	if err != nil {
		return 0, err
	}
	// While the remote object is being deleted, decisions only wait, and the reason of the last event lasts.
	isEnding := x.in.Remote != nil && x.in.Remote.GetDeletionTimestamp() != nil
	if !x.hasRecorded && !isEnding {
		x.states.update(x.in.Key, func(s *keyState) { s.lastEvent = 0 })
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
			return &decisionError{err}
		}
		return x.doAll(ctx, actions)
	case Requeue:
		logr.FromContextOrDiscard(ctx).V(2).Info("Requeueing", "after", a.After, "reason", a.Reason)
		x.requeueAfter(a.After)
	case RecordEvent:
		x.recordEvent(a)
	case Remember:
		x.states.update(x.in.Key, func(s *keyState) { s.memory = a.Value })
	case DecideFirst:
		return x.decideFirst(ctx, a)
	case Hold:
		logr.FromContextOrDiscard(ctx).V(2).Info("Waiting", "reason", a.Reason)
		if x.in.IsAwaited {
			return errStale
		}
	case Keep:
		logr.FromContextOrDiscard(ctx).V(2).Info("Nothing to do", "reason", a.Reason)
	case PatchLocal:
		return x.patchLocal(ctx, a)
	case PatchLocalStatus:
		return x.patchLocalStatus(ctx, a)
	case DeleteLocal:
		return x.deleteLocal(ctx)
	case ApplyLocal:
		return x.applyLocal(ctx, a)
	default:
		return x.doRemote(ctx, action)
	}
	return nil
}

func (x *execution) doRemote(ctx context.Context, action Action) error {
	if x.remote == nil {
		return fmt.Errorf("action %T in a namespace that is not mapped: this is a bug in the definition", action)
	}
	if !x.in.Facts.IsSent() && sends(action) {
		logr.FromContextOrDiscard(ctx).V(1).Info("Nothing is sent to a namespace that is no longer offloaded, or being deleted")
		return nil
	}
	switch a := action.(type) {
	case Create:
		return x.create(ctx, a)
	case Apply:
		return x.apply(ctx, a)
	case PatchRemote:
		return x.patchRemote(ctx, a)
	case PatchRemoteSpec:
		return x.patchRemoteSpec(ctx, a)
	case DeleteRemote:
		return x.withdraw(ctx)
	case DeleteDependent:
		return x.deleteDependent(ctx, a)
	case AskDependent:
		return x.askDependent(ctx, a)
	case RefreshRemote:
		return x.refreshRemote(ctx)
	default:
		return fmt.Errorf("unknown action %T", action)
	}
}

// sends reports whether an action sends content to the provider.
func sends(action Action) bool {
	switch action.(type) {
	case Create, Apply, PatchRemote, PatchRemoteSpec:
		return true
	default:
		return false
	}
}

func (x *execution) requeueAfter(d time.Duration) {
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
		return x.resolveConflict(ctx, object.GetName())
	}
	if a.Refused != nil && (isActionable(err) || isNamespaceTerminating(err)) {
		failure := x.doAll(ctx, a.Refused(err.Error()))
		if _, isOver := overBudget(failure); failure != nil && !isOver {
			return errors.Join(err, failure)
		}
	}
	return fmt.Errorf("creating remote %s: %w", x.resource.Name, err)
}

// resolveConflict reads the object that has the name of the one to be created.
func (x *execution) resolveConflict(ctx context.Context, name string) error {
	object := x.resource.Remote.New()
	err := x.engine.options.Remote.Get(ctx, client.ObjectKey{Namespace: x.in.Facts.RemoteNamespace, Name: name}, object)
	x.observe(directionOut, "get", err)
	switch {
	case apierrors.IsNotFound(err):
		return errStale
	case err != nil:
		return fmt.Errorf("reading remote %s: %w", x.resource.Name, err)
	case !Owned(object, x.in.Facts):
		x.recordEvent(NameConflict(x.in.Facts, KindOf(x.resource.Remote.New()), name))
		x.requeueAfter(unmanagedRetry)
		return nil
	}
	for key, value := range x.resource.RemoteLabels {
		if object.GetLabels()[key] != value {
			return x.awaitOtherNode(name, key+"="+object.GetLabels()[key])
		}
	}
	x.remote.Assume(object)
	return errStale
}

// awaitOtherNode waits until another virtual node releases the name. That usually takes a
// moment; after some tries an event is recorded.
func (x *execution) awaitOtherNode(name, holder string) error {
	if x.queue.NumRequeues(x.in.Key) < otherNodeTries && x.states.get(x.in.Key).lastEvent == 0 {
		return errStale
	}
	x.recordEvent(RecordEvent{
		Type: EventWarning, Reason: ReasonFailedReflection,
		Message: KindOf(x.resource.Remote.New()) + " " + name + " in namespace " + x.in.Facts.RemoteNamespace + " of cluster " +
			x.in.Facts.ProviderClusterID + " still belongs to another virtual node (" + holder + "). Waiting for its deletion.",
	})
	x.requeueAfter(otherNodeRetry)
	return nil
}

func (x *execution) patchRemote(ctx context.Context, a PatchRemote) error {
	if x.in.Remote == nil {
		return errStale
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
		return errStale // the event of the deletion is on its way
	case err != nil:
		return asStale(fmt.Errorf("patching remote %s: %w", x.resource.Name, err))
	}
	x.remote.Assume(object)
	return nil
}

// withdraw deletes the remote object of an object that is not reflected any more.
func (x *execution) withdraw(ctx context.Context) error {
	if err := x.deleteRemote(ctx); err != nil {
		return err
	}
	// Once the object is reflected again, that is not a revert.
	x.states.update(x.in.Key, func(s *keyState) { s.applied, s.contest = 0, Contest{} })
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
		return asStale(fmt.Errorf("deleting remote %s: %w", x.resource.Name, err))
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
		return asStale(fmt.Errorf("deleting the dependent object of %s: %w", x.resource.Name, err))
	}
	return nil
}

func (x *execution) patchLocal(ctx context.Context, a PatchLocal) error {
	return x.writeLocal(ctx, "patch", 0, map[string]any{"metadata": map[string]any{
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
	if a.IfUnchanged {
		meta["resourceVersion"] = x.in.Local.GetResourceVersion()
	}
	return x.writeLocal(ctx, "patch_status", statusSize(a.New), map[string]any{"metadata": meta, "status": status}, func(ctx context.Context, object client.Object, patch client.Patch) error {
		if a.InObject {
			return x.engine.options.Local.Patch(ctx, object, patch, client.FieldOwner(FieldManager))
		}
		return x.engine.options.Local.Status().Patch(ctx, object, patch, client.FieldOwner(FieldManager))
	})
}

// writeLocal patches the local object, which then has about size bytes that the provider wrote. The UID in
// the body is a precondition, so that a new object of the same name conflicts.
func (x *execution) writeLocal(ctx context.Context, operation string, size int, body map[string]any,
	send func(context.Context, client.Object, client.Patch) error,
) error {
	if err := x.spend(size); err != nil {
		return err
	}
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
		return nil // the event of the deletion is on its way
	case err != nil:
		return asStale(fmt.Errorf("patching local %s: %w", x.resource.Name, err))
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
		return asStale(fmt.Errorf("deleting local %s: %w", x.resource.Name, err))
	}
	return nil
}

// asStale wraps a conflict in errStale, and returns other errors as they are.
func asStale(err error) error {
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %w", errStale, err)
	}
	return err
}

// isNamespaceTerminating reports whether the provider deletes the namespace. The NamespaceMap
// will follow.
func isNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

func mergePatch(body map[string]any) (client.Patch, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, data), nil
}

// statusPatch returns the merge patch that turns one status into another. Lists are replaced,
// so that no stale condition remains.
func statusPatch(before, after any) (map[string]any, error) {
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return nil, fmt.Errorf("reading the observed status: %w", err)
	}
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err != nil {
		return nil, fmt.Errorf("reading the desired status: %w", err)
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
