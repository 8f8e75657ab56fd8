package feed

import (
	"context"
	"fmt"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// Rights are what the consumers may watch in their namespaces: the rules of their role there, and the
// RoleBindings that give it to their groups. It is safe for concurrent use.
type Rights struct {
	mu      sync.Mutex
	rules   []rbacv1.PolicyRule
	groups  map[toolscache.ObjectName][]string
	changed chan struct{}
}

// NewRights returns Rights that allow nothing.
func NewRights() *Rights {
	return &Rights{groups: map[toolscache.ObjectName][]string{}, changed: make(chan struct{})}
}

// Watch keeps the Rights up to date with the informers.
func (r *Rights) Watch(ctx context.Context, informers cache.Informers) error {
	for _, kind := range []client.Object{&rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}} {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: r.set, UpdateFunc: func(_, object any) { r.set(object) }, DeleteFunc: r.remove,
			})
		}
		if err != nil {
			return fmt.Errorf("watching the rights of consumers: %w", err)
		}
	}
	return nil
}

func (r *Rights) set(object any) {
	switch object := object.(type) {
	case *rbacv1.ClusterRole:
		if object.Name == authentication.NamespaceRole {
			r.setRules(object.Rules)
		}
	case *rbacv1.RoleBinding:
		r.setGroups(toolscache.MetaObjectToName(object), groupsOf(object))
	}
}

func (r *Rights) remove(object any) {
	if final, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = final.Obj
	}
	switch object := object.(type) {
	case *rbacv1.ClusterRole:
		if object.Name == authentication.NamespaceRole {
			r.setRules(nil)
		}
	case *rbacv1.RoleBinding:
		r.setGroups(toolscache.MetaObjectToName(object), nil)
	}
}

func (r *Rights) setRules(rules []rbacv1.PolicyRule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = rules
	r.notifyLocked()
}

func (r *Rights) setGroups(binding toolscache.ObjectName, groups []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(r.groups[binding], groups) {
		return
	}
	if r.groups[binding] = groups; len(groups) == 0 {
		delete(r.groups, binding)
	}
	r.notifyLocked()
}

func (r *Rights) notifyLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
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

// Of returns the namespaces in which one of the groups may watch a resource, and a channel that is
// closed at the next change of any right.
func (r *Rights) Of(groups []string, resource schema.GroupResource) (namespaces sets.Set[string], changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	namespaces = sets.New[string]()
	if !allowsWatch(r.rules, resource) {
		return namespaces, r.changed
	}
	for binding, bound := range r.groups {
		if slices.ContainsFunc(bound, func(group string) bool { return slices.Contains(groups, group) }) {
			namespaces.Insert(binding.Namespace)
		}
	}
	return namespaces, r.changed
}

// consumer returns the group of a caller to which namespaces are given; "" if none is.
func (r *Rights) consumer(groups []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, bound := range r.groups {
		for _, group := range bound {
			if slices.Contains(groups, group) {
				return group
			}
		}
	}
	return ""
}

func allowsWatch(rules []rbacv1.PolicyRule, resource schema.GroupResource) bool {
	covered, _ := validation.Covers(rules, []rbacv1.PolicyRule{{
		Verbs: []string{"watch"}, APIGroups: []string{resource.Group}, Resources: []string{resource.Resource},
	}})
	return covered
}
