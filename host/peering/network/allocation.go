package network

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// allocationState is what an allocator does with an object.
type allocationState int

const (
	// isIgnored: the object was not read, or it is deleted before it got an allocation.
	isIgnored allocationState = iota
	// isAbsent: what was allocated to the object is free again.
	isAbsent
	// isAllocated: the status has the allocation.
	isAllocated
	// isPending: the object needs an allocation.
	isPending
)

// readAllocation reads an object and returns its state. hasAllocation reports whether the status of
// the object that was read has an allocation.
func readAllocation(ctx context.Context, reader client.Reader, key client.ObjectKey, object client.Object, hasAllocation func() bool) (allocationState, error) {
	err := reader.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err):
		return isAbsent, nil
	case err != nil:
		return isIgnored, fmt.Errorf("reading %T %s: %w", object, key, err)
	case hasAllocation():
		return isAllocated, nil
	case !object.GetDeletionTimestamp().IsZero():
		return isIgnored, nil
	}
	return isPending, nil
}

// patchStatus writes the status of an object unless the object has changed since it was read: the
// conflict is an error, and the key is reconciled again.
func patchStatus(ctx context.Context, c client.Client, object, before client.Object) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, object, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching the status of %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}
