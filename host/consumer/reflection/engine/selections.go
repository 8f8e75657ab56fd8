package engine

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// followed is a kind whose objects a resource follows in each namespace. There are many namespaces, and
// selectors are expensive to build.
type followed struct {
	selection selection
	role      role
	// perNamespace is set if an informer holds the objects of one namespace, not of all.
	perNamespace bool
}

// selections are what a resource follows.
type selections struct {
	local, remote, dependent followed
	related                  []followed
}

func (r *runner) newSelections() selections {
	local, number := r.engine.options.Local, 0
	follow := func(s selection, role role) followed {
		role.number, role.isRemote = number, s.isRemote
		number++
		return followed{selection: s, role: role, perNamespace: s.isRemote}
	}
	fromRemote := role{changed: func(c *namespaceCaches, object client.Object) {
		if !c.isHeard() {
			return
		}
		in := laneRemote
		if isBackground := r.resource.Remote.IsBackground; isBackground != nil && isBackground(object) {
			in = laneBackground
		}
		r.queue.AddTo(in, Key{Namespace: c.ns.local, Name: r.toLocal(object.GetName(), func() metav1.Object { return object })})
	}}
	s := selections{remote: follow(r.remoteSelection(r.resource.Remote), fromRemote)}
	if r.resource.Dependent != nil {
		s.dependent = follow(r.remoteSelection(*r.resource.Dependent), fromRemote)
	}
	s.local = follow(identified(selection{
		client: local, kind: r.resource.Local, options: client.ListOptions{FieldSelector: r.resource.LocalFields}, user: r.user(r.resource.Local),
	}), role{changed: func(c *namespaceCaches, object client.Object) {
		if c.isHeard() {
			r.queue.AddTo(laneLocal, Key{Namespace: c.ns.local, Name: object.GetName()})
		}
	}})
	s.local.perNamespace = r.resource.LocalPerNamespace
	for i := range r.resource.Related {
		related := &r.resource.Related[i]
		selected := identified(selection{
			client: local, kind: related.Kind, options: client.ListOptions{FieldSelector: related.Fields}, user: r.user(related.Kind),
		})
		if related.IsRemote {
			selected = r.remoteSelection(related.Kind)
		}
		s.related = append(s.related, follow(selected, role{isOfCluster: related.Kind.ClusterScoped, hearsWrites: related.IsRemote, changed: func(c *namespaceCaches, object client.Object) {
			if related.Keys == nil || !c.isHeard() {
				return
			}
			for _, name := range related.Keys(object, c.local.List(c.ns.local)) {
				r.queue.Add(Key{Namespace: c.ns.local, Name: name})
			}
		}}))
	}
	return s
}

// namespaceIn returns the namespace whose objects an informer holds for a reflected namespace, "" for all.
func (f *followed) namespaceIn(ns *namespace) string {
	switch {
	case !f.perNamespace:
		return ""
	case f.selection.isRemote:
		return ns.remote
	default:
		return ns.local
	}
}

// remoteSelection selects the objects of a kind in the provider.
func (r *runner) remoteSelection(kind Kind) selection {
	s := selection{
		client: r.engine.options.Remote, isRemote: true, once: r.resource.RemoteOnce, isLater: r.resource.After != "", kind: kind, user: r.user(kind),
	}
	if !r.resource.RemoteUnmanaged {
		s.options.LabelSelector = labels.SelectorFromSet(labels.Merge(labels.Set{
			offloadingv1beta1.OriginLabel:      r.engine.options.HomeClusterID,
			offloadingv1beta1.DestinationLabel: r.engine.options.ProviderClusterID,
		}, r.resource.RemoteLabels))
	}
	return identified(s)
}

func (r *runner) user(kind Kind) string {
	if kind.Trim == nil {
		return ""
	}
	return cmp.Or(kind.TrimName, r.resource.Name)
}
