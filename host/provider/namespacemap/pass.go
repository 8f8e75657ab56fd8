package namespacemap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// pass is one reconcile of a NamespaceMap.
type pass struct {
	r  *Reconciler
	nm *offloadingv1beta1.NamespaceMap
	// origin is the consumer's cluster ID. If it is not known, err is set.
	origin string
	err    error

	// left is how many more namespaces this pass changes. isCut is set when there were more.
	left  int
	isCut bool
	// owned is how many namespaces the consumer has, with those of its other NamespaceMaps and those
	// that are being deleted.
	owned int
	// ending is how many of them are being deleted, but for those that take long. freeAfter is the time until one
	// more may be deleted, if none ends before; waits is set when one has to.
	ending    int
	freeAfter time.Duration
	waits     bool
	// tenants are the cluster IDs of all consumers; nil until they are read.
	tenants []string
	// quotas are the ResourceQuotas of the consumer by namespace.
	quotas map[string]*corev1.ResourceQuota
	// failures are what has become of mappings in this pass and was not known before.
	failures []string
}

// portion is how many namespaces one pass changes. Then the NamespaceMaps of other consumers have
// their turn.
const portion = 20

// maxEnding is how many namespaces of a consumer are deleted at a time. Kubernetes deletes a few namespaces of a cluster
// in a second, whoever has them, and those of others would wait. One that is not gone after takesLong does not count.
const (
	maxEnding = portion
	takesLong = time.Minute
)

// maxRefused is how many more mappings than namespaces are in the status, which say why they have
// none. The size of an object is limited.
const maxRefused = 100

// isFull reports whether the status has no place for a mapping.
func (p *pass) isFull(local string) bool {
	_, known := p.nm.Status.CurrentMapping[local]
	return !known && len(p.nm.Status.CurrentMapping) >= offloadingv1beta1.MaxStatuses
}

// isFullOfFailures reports whether the status has no place for the failure of a mapping.
func (p *pass) isFullOfFailures(local string) bool {
	_, known := p.nm.Status.CurrentMapping[local]
	most := offloadingv1beta1.MaxMappings
	switch limit := p.r.Limits.Namespaces; {
	case p.isOther():
		most = 0
	case limit > 0:
		most = min(most, limit)
	}
	return !known && len(p.nm.Status.CurrentMapping) >= most+maxRefused
}

// isOther reports whether this is not the one NamespaceMap of its consumer.
func (p *pass) isOther() bool {
	return p.r.ClusterID != "" && p.nm.Name != string(p.r.ClusterID)
}

// spend reports whether this pass may change another namespace.
func (p *pass) spend() bool {
	p.left--
	p.isCut = p.isCut || p.left < 0
	return p.left >= 0
}

// ensureOne creates one namespace and its RoleBinding, and restores the metadata that identifies
// them.
func (p *pass) ensureOne(ctx context.Context, local, remote string) error {
	if p.err != nil {
		return p.err
	}
	namespace, binding, err := p.read(ctx, remote)
	switch {
	case err != nil:
		return err
	case namespace == nil:
		if err = p.checkNumber(); err == nil {
			err = p.create(ctx, local, remote)
		}
	case !isManaged(namespace, binding, p.nm, p.origin):
		err = fmt.Errorf("namespace %q: %w", remote, errNotManaged)
	case !namespace.DeletionTimestamp.IsZero():
		err = p.terminating(ctx, remote)
	case !isMappedFrom(namespace, local, p.nm.Status.CurrentMapping[local]):
		err = fmt.Errorf("namespace %q belongs to local namespace %q: %w",
			remote, namespace.Annotations[offloadingv1beta1.OriginalNameAnnotation], errShared)
	default:
		err = p.restore(ctx, namespace, local)
	}
	if err != nil {
		return err
	}
	isNew := namespace == nil
	// The consumer has no right before the limits are in effect.
	if err := p.ensureQuota(ctx, remote, isNew); err != nil && (binding == nil || !errors.Is(err, errCut)) {
		return err
	}
	return p.ensureBinding(ctx, binding, remote, isNew)
}

// read returns a namespace and the consumer's RoleBinding in it, nil if they do not exist.
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

// checkNumber returns an error if the consumer may not have another namespace. A further NamespaceMap, from before
// the API server refused it, keeps those that it has.
func (p *pass) checkNumber() error {
	if p.isOther() {
		return fmt.Errorf("%w, which is named %q: no namespace is made for this one", errOther, p.r.ClusterID)
	}
	if p.r.Limits.Namespaces == 0 || p.owned < p.r.Limits.Namespaces {
		return nil
	}
	return fmt.Errorf("%w (%d)", errTooMany, p.r.Limits.Namespaces)
}

// readTenants reads the cluster IDs of all consumers, once for a pass.
func (p *pass) readTenants(ctx context.Context) error {
	if p.tenants != nil {
		return nil
	}
	list := &corev1.NamespaceList{}
	if err := p.r.Client.List(ctx, list, client.HasLabels{liqocorev1beta1.TenantNamespaceLabel}); err != nil {
		return fmt.Errorf("listing tenant namespaces: %w", err)
	}
	p.tenants = []string{}
	for i := range list.Items {
		if id, err := Consumer(&list.Items[i]); err == nil {
			p.tenants = append(p.tenants, id)
		}
	}
	return nil
}

func (p *pass) create(ctx context.Context, local, remote string) error {
	if err := p.readTenants(ctx); err != nil {
		return err
	}
	if err := p.r.Names.Check(remote, p.origin, p.tenants); err != nil {
		return err
	}
	if !p.spend() {
		return errCut
	}
	p.owned++
	if err := p.r.Client.Create(ctx, provider.Namespace(p.nm, p.origin, local, remote)); err != nil {
		return fmt.Errorf("creating namespace %q: %w", remote, err)
	}
	return nil
}

// restore restores labels and annotations of a managed namespace.
func (p *pass) restore(ctx context.Context, namespace *corev1.Namespace, local string) error {
	before := namespace.DeepCopy()
	if !restoreMetadata(namespace, provider.Namespace(p.nm, p.origin, local, namespace.Name)) {
		return nil
	}
	if err := p.r.Client.Patch(ctx, namespace, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("restoring labels and annotations of namespace %q: %w", namespace.Name, err)
	}
	p.r.Events.Eventf(p.nm, namespace, corev1.EventTypeWarning, reasonRestored, actionMapNamespace,
		"Labels or annotations of namespace %q were changed and have been restored. Remove namespace %q from the NamespaceMap to withdraw it.", namespace.Name, local)
	return nil
}

// ensureBinding ensures that only the consumer's group is bound in the namespace.
func (p *pass) ensureBinding(ctx context.Context, binding *rbacv1.RoleBinding, remote string, isNew bool) error {
	desired := provider.RoleBinding(p.nm, p.origin, remote)
	var err error
	switch {
	case binding == nil && !isNew && !p.spend():
		return errCut
	case binding == nil:
		err = p.r.Client.Create(ctx, desired)
	case binding.RoleRef != desired.RoleRef:
		// The role is immutable. The event of the deletion causes a reconcile, which creates it.
		err = p.r.Client.Delete(ctx, binding, client.Preconditions{UID: &binding.UID})
	default:
		before := binding.DeepCopy()
		if restoreBinding(binding, desired) {
			err = p.r.Client.Patch(ctx, binding, client.MergeFrom(before))
		}
	}
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("binding role %s in namespace %q: %w", provider.NamespaceRole, remote, err)
	}
	return nil
}

// namespaces returns all namespaces of the consumer.
func (p *pass) namespaces(ctx context.Context) ([]corev1.Namespace, error) {
	list := &corev1.NamespaceList{}
	if err := p.r.Client.List(ctx, list, client.MatchingLabels{liqocorev1beta1.RemoteClusterIDLabel: p.origin}); err != nil {
		return nil, fmt.Errorf("listing the namespaces of consumer %q: %w", p.origin, err)
	}
	return slices.DeleteFunc(list.Items, func(namespace corev1.Namespace) bool {
		return namespace.Annotations[offloadingv1beta1.ManagedByNamespaceMapAnnotation] == ""
	}), nil
}

// remove withdraws the namespaces that are no longer desired and returns how many of them still
// have objects of the consumer. It removes an entry of the status when its namespace is gone, released
// or not managed. The consumer
// can write the status, so that managed namespaces are also found by their metadata.
func (p *pass) remove(ctx context.Context, desired map[string]string) (int, error) {
	errs := []error{p.endAccess(ctx, desired)}
	left := 0
	for _, local := range slices.Sorted(maps.Keys(p.nm.Status.CurrentMapping)) {
		current := p.nm.Status.CurrentMapping[local]
		if remote, isDesired := desired[local]; isDesired && remote == current.RemoteNamespace {
			continue
		}
		gone, err := p.removeOne(ctx, local, current.RemoteNamespace, desired)
		switch {
		case err != nil:
			errs = append(errs, err)
		case gone:
			delete(p.nm.Status.CurrentMapping, local)
		default:
			left++
			held, err := p.heldBy(ctx, current.RemoteNamespace)
			errs = append(errs, err)
			current.Phase, current.Message = offloadingv1beta1.MappingTerminating, held
			p.nm.Status.CurrentMapping[local] = current
		}
	}
	unlisted, err := p.removeUnlisted(ctx, desired)
	return left + unlisted, errors.Join(append(errs, err)...)
}

// endAccess takes the consumer's rights in all managed namespaces that are no longer desired. None of them
// waits for the deletion of another. The stale cache of a NamespaceMap only delays rights: the event of the
// change restores them.
func (p *pass) endAccess(ctx context.Context, desired map[string]string) error {
	bindings := &rbacv1.RoleBindingList{}
	if err := p.r.Client.List(ctx, bindings); err != nil {
		return fmt.Errorf("listing RoleBindings: %w", err)
	}
	kept := map[string]bool{}
	for _, remote := range desired {
		kept[remote] = true
	}
	var errs []error
	for i := range bindings.Items {
		binding := &bindings.Items[i]
		if binding.Name == p.nm.Namespace && OwnedBy(binding, p.nm, p.origin) && !kept[binding.Namespace] {
			errs = append(errs, authentication.EndAccess(ctx, p.r.Client, binding))
		}
	}
	return errors.Join(errs...)
}

// removeUnlisted withdraws managed namespaces that are neither in spec nor in status.
func (p *pass) removeUnlisted(ctx context.Context, desired map[string]string) (int, error) {
	all, err := p.namespaces(ctx)
	if err != nil {
		return 0, err
	}
	listed := map[string]bool{}
	for _, remote := range desired {
		listed[remote] = true
	}
	for _, current := range p.nm.Status.CurrentMapping {
		listed[current.RemoteNamespace] = true
	}
	var unlisted []*corev1.Namespace
	for i := range all {
		namespace := &all[i]
		if listed[namespace.Name] || !OwnedBy(namespace, p.nm, p.origin) {
			continue
		}
		released, err := p.isReleased(ctx, namespace)
		if err != nil {
			return 1, err
		}
		if !released {
			unlisted = append(unlisted, namespace)
		}
	}
	if len(unlisted) == 0 {
		return 0, nil
	}
	// The cached NamespaceMap can be older than the cached namespaces.
	live := &offloadingv1beta1.NamespaceMap{}
	if err := p.r.APIReader.Get(ctx, client.ObjectKeyFromObject(p.nm), live); err != nil {
		return len(unlisted), fmt.Errorf("reading NamespaceMap %s: %w", provider.Owner(p.nm), err)
	}
	if live.ResourceVersion != p.nm.ResourceVersion {
		return len(unlisted), fmt.Errorf("NamespaceMap %s: %w", provider.Owner(p.nm), errStale)
	}
	var errs []error
	left := 0
	for _, namespace := range unlisted {
		gone, err := p.withdraw(ctx, namespace)
		if !gone {
			left++
		}
		errs = append(errs, err)
	}
	return left, errors.Join(errs...)
}

// removeOne withdraws the remote namespace of one mapping and reports whether the mapping is
// removed. The namespace of another mapping is kept, whatever the status says: others can write it.
func (p *pass) removeOne(ctx context.Context, local, remote string, desired map[string]string) (bool, error) {
	namespace, binding, err := p.read(ctx, remote)
	if err != nil || namespace == nil {
		return err == nil, err
	}
	if !isManaged(namespace, binding, p.nm, p.origin) || !isMappedFrom(namespace, local, p.nm.Status.CurrentMapping[local]) {
		return true, nil
	}
	if owner := namespace.Annotations[offloadingv1beta1.OriginalNameAnnotation]; owner != local && desired[owner] == remote {
		return true, nil
	}
	return p.withdraw(ctx, namespace)
}

// withdraw takes a namespace from the consumer: it deletes the namespace, or what the consumer has in
// it. It reports whether nothing is left to do.
func (p *pass) withdraw(ctx context.Context, namespace *corev1.Namespace) (bool, error) {
	if !namespace.DeletionTimestamp.IsZero() {
		return false, nil // Its end causes an event.
	}
	if p.ending >= maxEnding {
		p.waits = true
		return false, nil
	}
	if !p.spend() {
		return false, nil
	}
	// The cache may not have the annotation that keeps the namespace.
	name := namespace.Name
	namespace = &corev1.Namespace{}
	switch err := p.r.APIReader.Get(ctx, client.ObjectKey{Name: name}, namespace); {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	if isKept(namespace) {
		return p.release(ctx, namespace)
	}
	return false, p.delete(ctx, namespace)
}

func (p *pass) delete(ctx context.Context, namespace *corev1.Namespace) error {
	if !namespace.DeletionTimestamp.IsZero() {
		return nil
	}
	if p.r.Retain != nil {
		if err := p.r.Retain(ctx, namespace.Name); err != nil {
			return fmt.Errorf("deleting namespace %q: %w", namespace.Name, err)
		}
	}
	err := p.r.Client.Delete(ctx, namespace, client.Preconditions{UID: &namespace.UID, ResourceVersion: &namespace.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting namespace %q: %w", namespace.Name, err)
	}
	p.ending++
	return nil
}

// countEnding counts the namespaces that are being deleted, and returns that of all.
func (p *pass) countEnding(all []corev1.Namespace) int {
	now := p.r.Clock.Now()
	p.freeAfter = takesLong
	for i := range all {
		since := all[i].DeletionTimestamp
		if since == nil {
			continue
		}
		if left := since.Add(takesLong).Sub(now); left > 0 {
			p.ending++
			p.freeAfter = min(p.freeAfter, left)
		}
	}
	return len(all)
}
