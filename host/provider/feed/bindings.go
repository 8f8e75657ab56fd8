package feed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// Bindings are the RoleBindings of the consumers' groups in their namespaces. It is safe for
// concurrent use.
type Bindings struct {
	mu      sync.Mutex
	known   map[toolscache.ObjectName]boundGroups
	changed chan struct{}
}

// boundGroups are the subjects of a RoleBinding at a resource version.
type boundGroups struct {
	version string
	groups  []string
}

// NewBindings returns Bindings without content.
func NewBindings() *Bindings {
	return &Bindings{known: map[toolscache.ObjectName]boundGroups{}, changed: make(chan struct{})}
}

// Watch keeps the Bindings up to date with the informers.
func (b *Bindings) Watch(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &rbacv1.RoleBinding{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { b.set(object) },
			UpdateFunc: func(_, object any) { b.set(object) },
			DeleteFunc: func(object any) {
				if name, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
					b.remove(name)
				}
			},
		})
	}
	if err != nil {
		return fmt.Errorf("watching RoleBindings: %w", err)
	}
	return nil
}

func (b *Bindings) set(object any) {
	binding, ok := object.(*rbacv1.RoleBinding)
	if !ok {
		return
	}
	name := toolscache.MetaObjectToName(binding)
	groups := groupsOf(binding)
	if len(groups) == 0 {
		b.remove(name)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if version := binding.ResourceVersion; b.known[name].version != version {
		b.known[name] = boundGroups{version: version, groups: groups}
		b.notifyLocked()
	}
}

func (b *Bindings) remove(name toolscache.ObjectName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.known[name]; ok {
		delete(b.known, name)
		b.notifyLocked()
	}
}

func (b *Bindings) notifyLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// groupsOf returns the groups to which a RoleBinding gives the role of consumers in their
// namespaces.
func groupsOf(binding *rbacv1.RoleBinding) []string {
	if binding.RoleRef.Kind != "ClusterRole" || binding.RoleRef.Name != authentication.NamespaceRole {
		return nil
	}
	var groups []string
	for _, subject := range binding.Subjects {
		if subject.Kind == rbacv1.GroupKind {
			groups = append(groups, subject.Name)
		}
	}
	return groups
}

// Of returns the namespaces in which one of the groups has the role, with a version that changes with
// the bindings, and a channel that is closed at the next change of any binding.
func (b *Bindings) Of(groups []string) (namespaces map[string]string, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	versions := map[string][]string{}
	for name, bound := range b.known {
		if slices.ContainsFunc(bound.groups, func(group string) bool { return slices.Contains(groups, group) }) {
			versions[name.Namespace] = append(versions[name.Namespace], bound.version)
		}
	}
	namespaces = make(map[string]string, len(versions))
	for namespace, list := range versions {
		slices.Sort(list)
		namespaces[namespace] = strings.Join(list, ",")
	}
	return namespaces, b.changed
}
