package engine

import (
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// selections are what the informers of a resource hold, in all namespaces. There are many namespaces, and
// selectors are expensive to build.
type selections struct {
	local, remote, dependent selection
	related                  []selection
}

func (r *runner) newSelections() selections {
	local := r.engine.options.Local
	s := selections{
		local:  identified(selection{client: local, kind: r.resource.Local, options: client.ListOptions{FieldSelector: r.resource.LocalFields}, user: r.user(r.resource.Local)}),
		remote: r.remoteSelection(r.resource.Remote),
	}
	if r.resource.Dependent != nil {
		s.dependent = r.remoteSelection(*r.resource.Dependent)
	}
	for i := range r.resource.Related {
		related := &r.resource.Related[i]
		s.related = append(s.related, identified(selection{
			client: local, kind: related.Kind, options: client.ListOptions{FieldSelector: related.Fields}, user: r.user(related.Kind),
		}))
	}
	return s
}

// localIn selects the local objects that a namespace needs.
func (r *runner) localIn(namespace string) selection {
	if r.resource.LocalPerNamespace {
		return r.selections.local.in(namespace)
	}
	return r.selections.local
}

// namespaceFor returns the namespace of the related objects that a local namespace needs.
func (r *Related) namespaceFor(local string) string {
	if r.Kind.ClusterScoped {
		return ""
	}
	return local
}

// remoteSelection selects the objects of a kind in the provider.
func (r *runner) remoteSelection(kind Kind) selection {
	s := selection{
		client: r.engine.options.Reader, isRemote: true, once: r.resource.RemoteOnce, kind: kind, user: r.user(kind),
		options: client.ListOptions{FieldSelector: r.resource.RemoteFields},
	}
	switch {
	case r.resource.RemoteUnmanaged:
	case r.engine.options.Informers != nil:
		s.options.LabelSelector, s.of = r.engine.remoteSelector(nil), r.resource.RemoteLabels
	default:
		s.options.LabelSelector = r.engine.remoteSelector(r.resource.RemoteLabels)
	}
	return identified(s)
}

func (r *runner) user(kind Kind) string {
	if kind.Trim == nil {
		return ""
	}
	return r.resource.Name
}

// remoteSelector selects the managed objects in the provider that have further labels.
func (e *Engine) remoteSelector(further labels.Set) labels.Selector {
	set := labels.Set{
		offloadingv1beta1.OriginLabel:      e.options.HomeClusterID,
		offloadingv1beta1.DestinationLabel: e.options.ProviderClusterID,
	}
	return labels.SelectorFromSet(labels.Merge(set, further))
}
