package engine

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

// patchRemoteSpec sends a JSON patch for the observed object.
func (x *execution) patchRemoteSpec(ctx context.Context, a PatchRemoteSpec) error {
	if x.in.Remote == nil {
		return errStale
	}
	object := x.resource.Remote.New()
	object.SetName(x.in.Remote.GetName())
	object.SetNamespace(x.in.Remote.GetNamespace())
	isSame := podupdate.Operation{Op: "test", Path: "/metadata/uid", Value: x.in.Remote.GetUID()}
	data, err := json.Marshal(append([]podupdate.Operation{isSame}, a.Operations...))
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	err = x.engine.options.Remote.Patch(ctx, object, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(FieldManager))
	x.observe(directionOut, "patch", client.IgnoreNotFound(err))
	switch {
	case apierrors.IsNotFound(err):
		return errStale // the event of the deletion is on its way
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return x.doAll(ctx, a.Refused(err.Error()))
	case err != nil:
		return asStale(fmt.Errorf("patching remote %s: %w", x.resource.Name, err))
	}
	x.remote.Assume(object)
	return x.doAll(ctx, a.Accepted)
}
