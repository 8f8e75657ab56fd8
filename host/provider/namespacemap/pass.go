package namespacemap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// pass is one look at a NamespaceMap.
type pass struct {
	r  *Reconciler
	nm *offloadingv1beta1.NamespaceMap
	// origin is the consumer's cluster ID; err says why it is not known.
	origin string
	err    error
}

// ensureOne makes one namespace and its role binding, and restores what was changed of the
// metadata by which they are recognized.
func (p *pass) ensureOne(ctx context.Context, local, remote string) error {
	if p.err != nil {
		return p.err
	}
	namespace, binding, err := p.read(ctx, remote)
	switch {
	case err != nil:
		return err
	case namespace == nil:
		err = p.create(ctx, local, remote)
	case !isManaged(namespace, binding, p.nm, p.origin):
		err = fmt.Errorf("namespace %q: %w", remote, errNotManaged)
	case !namespace.DeletionTimestamp.IsZero():
		err = fmt.Errorf("namespace %q: %w", remote, errTerminating)
	case !isMadeFor(namespace, local, p.nm.Status.CurrentMapping[local]):
		err = fmt.Errorf("namespace %q was made for local namespace %q: %w",
			remote, namespace.Annotations[offloadingv1beta1.OriginalNameAnnotation], errShared)
	default:
		err = p.restore(ctx, namespace, local)
	}
	if err != nil {
		return err
	}
	return p.ensureBinding(ctx, binding, remote)
}

// read returns a namespace and the consumer's role binding in it, nil when absent.
func (p *pass) read(ctx context.Context, remote string) (*corev1.Namespace, *rbacv1.RoleBinding, error) {
	namespace, binding := &corev1.Namespace{}, &rbacv1.RoleBinding{}
	err := p.r.Client.Get(ctx, client.ObjectKey{Name: remote}, namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading namespace %q: %w", remote, err)
	}
	err = p.r.Client.Get(ctx, client.ObjectKey{Namespace: remote, Name: p.nm.Namespace}, binding)
	if apierrors.IsNotFound(err) {
		return namespace, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the role binding in namespace %q: %w", remote, err)
	}
	return namespace, binding, nil
}

func (p *pass) create(ctx context.Context, local, remote string) error {
	tenants := &corev1.NamespaceList{}
	if err := p.r.Client.List(ctx, tenants, client.HasLabels{liqocorev1beta1.TenantNamespaceLabel}); err != nil {
		return fmt.Errorf("listing tenant namespaces: %w", err)
	}
	var ids []string
	for i := range tenants.Items {
		if id, err := Consumer(&tenants.Items[i]); err == nil {
			ids = append(ids, id)
		}
	}
	if err := p.r.Names.Check(remote, p.origin, ids); err != nil {
		return err
	}
	if err := p.r.Client.Create(ctx, ForgeNamespace(p.nm, p.origin, local, remote)); err != nil {
		return fmt.Errorf("making namespace %q: %w", remote, err)
	}
	return nil
}

// restore puts labels and annotations of a managed namespace back.
func (p *pass) restore(ctx context.Context, namespace *corev1.Namespace, local string) error {
	before := namespace.DeepCopy()
	if !restoreMetadata(namespace, ForgeNamespace(p.nm, p.origin, local, namespace.Name)) {
		return nil
	}
	if err := p.r.Client.Patch(ctx, namespace, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("restoring labels and annotations of namespace %q: %w", namespace.Name, err)
	}
	p.r.Events.Eventf(p.nm, namespace, corev1.EventTypeWarning, reasonRestored, actionMapNamespace,
		"Labels or annotations of namespace %q were changed and have been restored. Remove namespace %q from the NamespaceMap to withdraw it.", namespace.Name, local)
	return nil
}

// ensureBinding lets the consumer's identity, and no one else, into the namespace.
func (p *pass) ensureBinding(ctx context.Context, binding *rbacv1.RoleBinding, remote string) error {
	want := ForgeRoleBinding(p.nm, p.origin, remote)
	var err error
	switch {
	case binding == nil:
		err = p.r.Client.Create(ctx, want)
	case binding.RoleRef != want.RoleRef:
		// It cannot be changed. The deletion's event brings the next pass, which creates it.
		err = p.r.Client.Delete(ctx, binding, client.Preconditions{UID: &binding.UID})
	default:
		before := binding.DeepCopy()
		if restoreBinding(binding, want) {
			err = p.r.Client.Patch(ctx, binding, client.MergeFrom(before))
		}
	}
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("binding role %s in namespace %q: %w", RemoteRole, remote, err)
	}
	return nil
}

// remove deletes the namespaces that are no longer desired and returns how many of them
// still exist. An entry leaves the status when its namespace is gone, or was never the
// consumer's. The status is not the only record, since the consumer can write it.
func (p *pass) remove(ctx context.Context, desired map[string]string) (int, error) {
	var errs []error
	left := 0
	for _, local := range slices.Sorted(maps.Keys(p.nm.Status.CurrentMapping)) {
		current := p.nm.Status.CurrentMapping[local]
		if desired[local] == current.RemoteNamespace {
			continue
		}
		gone, err := p.removeOne(ctx, local, current.RemoteNamespace)
		switch {
		case err != nil:
			errs = append(errs, err)
		case gone:
			delete(p.nm.Status.CurrentMapping, local)
		default:
			left++
			current.Phase, current.Message = offloadingv1beta1.MappingTerminating, ""
			p.nm.Status.CurrentMapping[local] = current
		}
	}
	unlisted, err := p.removeUnlisted(ctx, desired)
	return left + unlisted, errors.Join(append(errs, err)...)
}

// removeUnlisted deletes managed namespaces that neither spec nor status names.
func (p *pass) removeUnlisted(ctx context.Context, desired map[string]string) (int, error) {
	all := &corev1.NamespaceList{}
	if err := p.r.Client.List(ctx, all); err != nil {
		return 0, fmt.Errorf("listing namespaces: %w", err)
	}
	named := map[string]bool{}
	for _, remote := range desired {
		named[remote] = true
	}
	for _, current := range p.nm.Status.CurrentMapping {
		named[current.RemoteNamespace] = true
	}
	var unlisted []*corev1.Namespace
	for i := range all.Items {
		if namespace := &all.Items[i]; !named[namespace.Name] && OwnedBy(namespace, p.nm, p.origin) {
			unlisted = append(unlisted, namespace)
		}
	}
	if len(unlisted) == 0 {
		return 0, nil
	}
	// The cached NamespaceMap can be older than the cached namespaces.
	live := &offloadingv1beta1.NamespaceMap{}
	if err := p.r.APIReader.Get(ctx, client.ObjectKeyFromObject(p.nm), live); err != nil {
		return len(unlisted), fmt.Errorf("reading NamespaceMap %s: %w", Owner(p.nm), err)
	}
	if live.ResourceVersion != p.nm.ResourceVersion {
		return len(unlisted), fmt.Errorf("NamespaceMap %s: %w", Owner(p.nm), errStale)
	}
	var errs []error
	for _, namespace := range unlisted {
		errs = append(errs, p.delete(ctx, namespace))
	}
	return len(unlisted), errors.Join(errs...)
}

// removeOne deletes the remote namespace of one mapping and reports whether nothing is
// left of it. A namespace that was made for another local namespace is not this
// mapping's to delete (T75).
func (p *pass) removeOne(ctx context.Context, local, remote string) (bool, error) {
	namespace, binding, err := p.read(ctx, remote)
	if err != nil || namespace == nil {
		return err == nil, err
	}
	if !isManaged(namespace, binding, p.nm, p.origin) || !isMadeFor(namespace, local, p.nm.Status.CurrentMapping[local]) {
		return true, nil
	}
	return false, p.delete(ctx, namespace)
}

func (p *pass) delete(ctx context.Context, namespace *corev1.Namespace) error {
	if !namespace.DeletionTimestamp.IsZero() {
		return nil
	}
	err := p.r.Client.Delete(ctx, namespace, client.Preconditions{UID: &namespace.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting namespace %q: %w", namespace.Name, err)
	}
	return nil
}
