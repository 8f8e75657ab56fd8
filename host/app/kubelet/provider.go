package kubelet

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// sharedFacts are what the policies are told about objects that all virtual nodes of the
// provider share: ConfigMaps, Secrets, Services. Which virtual kubelet asks depends on
// an election, so what it tells must not: the virtual node is the provider's oldest, and
// the key lists are those of all of them, since what one keeps at home must not leave
// through another.
type sharedFacts struct {
	virtualNode  contract.VirtualNode
	notReflected contract.NotReflected
}

// shared computes the facts from the provider's VirtualNodes; one that is being deleted
// counts only when all are. There must be one.
func shared(home string, nodes []*offloadingv1beta1.VirtualNode) sharedFacts {
	staying := slices.DeleteFunc(slices.Clone(nodes), func(vn *offloadingv1beta1.VirtualNode) bool { return vn.DeletionTimestamp != nil })
	if len(staying) == 0 {
		staying = slices.Clone(nodes)
	}
	slices.SortFunc(staying, func(a, b *offloadingv1beta1.VirtualNode) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	oldest := staying[0]
	facts := sharedFacts{virtualNode: contract.VirtualNode{
		Name: oldest.Name, ConsumerClusterID: home, ProviderClusterID: string(oldest.Spec.ClusterID), Labels: oldest.Spec.Labels,
	}}
	for _, vn := range staying {
		if patch := vn.Spec.OffloadingPatch; patch != nil {
			facts.notReflected.Labels = union(facts.notReflected.Labels, patch.LabelsNotReflected)
			facts.notReflected.Annotations = union(facts.notReflected.Annotations, patch.AnnotationsNotReflected)
		}
	}
	return facts
}

func union(list, more []string) []string {
	for _, key := range more {
		if !slices.Contains(list, key) {
			list = append(list, key)
		}
	}
	return list
}

// peers are the VirtualNodes of the provider, this one's among them.
type peers struct {
	home     string
	provider string

	mu    sync.RWMutex
	nodes map[string]*offloadingv1beta1.VirtualNode
	facts sharedFacts
}

// set takes over a VirtualNode of the tenant namespace and reports whether policies could
// answer otherwise now about what is shared.
func (p *peers) set(vn *offloadingv1beta1.VirtualNode) bool {
	return p.alter(func() {
		if string(vn.Spec.ClusterID) == p.provider {
			p.nodes[vn.Name] = vn
		} else {
			delete(p.nodes, vn.Name)
		}
	})
}

// remove forgets a VirtualNode, and reports as set does.
func (p *peers) remove(name string) bool {
	return p.alter(func() { delete(p.nodes, name) })
}

func (p *peers) alter(change func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nodes == nil {
		p.nodes = map[string]*offloadingv1beta1.VirtualNode{}
	}
	change()
	if len(p.nodes) == 0 {
		return false // what is reflected goes with the provider
	}
	before := p.facts
	p.facts = shared(p.home, slices.Collect(maps.Values(p.nodes)))
	return !reflect.DeepEqual(before, p.facts)
}

func (p *peers) get() sharedFacts {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.facts
}

// filter asks the policies which labels and annotations of a shared object are reflected.
func (a *App) filter(ctx context.Context, apiVersion, kind string, local, there client.Object) (labels, annotations map[string]string, err error) {
	facts := a.peers.get()
	have := ""
	if there != nil {
		have = there.GetAnnotations()[remote.DecisionsAnnotation]
	}
	return view.ReflectMetadata(ctx, a.policies.Chains(), view.MetadataInput{
		APIVersion: apiVersion, Kind: kind, Namespace: local.GetNamespace(), Name: local.GetName(),
		Labels: local.GetLabels(), Annotations: local.GetAnnotations(),
		NotReflected: facts.notReflected, VirtualNode: facts.virtualNode,
	}, have)
}

// mutate asks the policies what becomes of a shared object before it is sent. Without a
// policy that may have a say, that is nothing, and costs nothing.
func (a *App) mutate(ctx context.Context, local, there client.Object, content map[string]any, empty func() client.Object) (*engine.Mutation, error) {
	chains := a.policies.Chains()
	if !view.AsksResources(chains) {
		return nil, nil
	}
	target := empty()
	in := view.ResourceInput{
		Object: content, Target: target, Namespace: local.GetNamespace(), Name: local.GetName(),
		Labels: local.GetLabels(), Annotations: local.GetAnnotations(), VirtualNode: a.peers.get().virtualNode,
	}
	if there != nil {
		in.Have = there.GetAnnotations()[remote.DecisionsAnnotation]
	}
	result, err := view.MutateResource(ctx, chains, in)
	if err != nil {
		return nil, err
	}
	for _, warning := range result.Warnings {
		logr.FromContextOrDiscard(ctx).V(1).Info("A policy warns about an object", "warning", warning)
	}
	mutation := &engine.Mutation{By: result.By}
	if result.Skip != nil {
		mutation.Skip = result.Skip.Error()
		return mutation, nil
	}
	if result.Changed {
		mutation.Content = result.Object
	}
	if result.By != "" {
		mutation.Object = target
	}
	return mutation, nil
}
