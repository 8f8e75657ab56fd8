// Package facts holds what policies read about the virtual nodes of one provider, and asks
// policies about the objects that these virtual nodes share: ConfigMaps, Secrets, Services
// and Ingresses.
package facts

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Facts are the facts of one virtual node and of all virtual nodes of its provider. All
// methods are safe for concurrent use.
type Facts struct {
	origin    remote.Origin
	evaluator func() view.Evaluator

	mu  sync.RWMutex
	own *offloadingv1beta1.VirtualNode
	// virtualNodes are those of the provider, by name.
	virtualNodes map[string]*offloadingv1beta1.VirtualNode
	shared       sharedFacts
}

// New returns the Facts of the virtual node that an origin names. The evaluator is called
// for each question.
func New(origin remote.Origin, evaluator func() view.Evaluator) *Facts {
	return &Facts{origin: origin, evaluator: evaluator, virtualNodes: map[string]*offloadingv1beta1.VirtualNode{}}
}

// sharedFacts are what policies read about a shared object. They do not depend on the
// virtual kubelet that was elected to reflect it: the virtual node is the provider's oldest,
// and the lists are the union of all, so that what one virtual node excludes does not leave
// through another.
type sharedFacts struct {
	virtualNode  contract.VirtualNode
	notReflected contract.NotReflected
}

// computeShared computes the facts from the provider's VirtualNodes, of which there is at
// least one. Those that are being deleted count only if all are.
func computeShared(homeClusterID string, virtualNodes []*offloadingv1beta1.VirtualNode) sharedFacts {
	active := slices.DeleteFunc(slices.Clone(virtualNodes), func(vn *offloadingv1beta1.VirtualNode) bool { return vn.DeletionTimestamp != nil })
	if len(active) == 0 {
		active = slices.Clone(virtualNodes)
	}
	slices.SortFunc(active, func(a, b *offloadingv1beta1.VirtualNode) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	oldest := active[0]
	facts := sharedFacts{virtualNode: contract.VirtualNode{
		Name: oldest.Name, ConsumerClusterID: homeClusterID, ProviderClusterID: string(oldest.Spec.ClusterID), Labels: oldest.Spec.Labels,
	}}
	for _, vn := range active {
		if patch := vn.Spec.OffloadingPatch; patch != nil {
			facts.notReflected.Labels = appendMissing(facts.notReflected.Labels, patch.LabelsNotReflected)
			facts.notReflected.Annotations = appendMissing(facts.notReflected.Annotations, patch.AnnotationsNotReflected)
		}
	}
	return facts
}

func appendMissing(list, more []string) []string {
	for _, key := range more {
		if !slices.Contains(list, key) {
			list = append(list, key)
		}
	}
	return list
}

// SetVirtualNode stores a VirtualNode of the tenant namespace and reports whether the answers
// of policies can change.
func (f *Facts) SetVirtualNode(vn *offloadingv1beta1.VirtualNode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if string(vn.Spec.ClusterID) == f.origin.ProviderClusterID {
		f.virtualNodes[vn.Name] = vn
	} else {
		delete(f.virtualNodes, vn.Name)
	}
	hasChanged := f.updateShared()
	if vn.Name == f.origin.NodeName {
		previous := f.own
		f.own = vn
		hasChanged = hasChanged || previous != nil && (!maps.Equal(previous.Spec.Labels, vn.Spec.Labels) ||
			!equality.Semantic.DeepEqual(previous.Spec.OffloadingPatch, vn.Spec.OffloadingPatch))
	}
	return hasChanged
}

// RemoveVirtualNode removes a deleted VirtualNode and reports whether the answers of policies
// can change. The virtual kubelet's own VirtualNode stays readable until the process ends.
func (f *Facts) RemoveVirtualNode(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.virtualNodes, name)
	return f.updateShared()
}

func (f *Facts) updateShared() (hasChanged bool) {
	if len(f.virtualNodes) == 0 {
		// The objects are withdrawn with the last virtual node; policies are not asked again.
		return false
	}
	previous := f.shared
	f.shared = computeShared(f.origin.HomeClusterID, slices.Collect(maps.Values(f.virtualNodes)))
	return !reflect.DeepEqual(previous, f.shared)
}

// VirtualNode returns the virtual kubelet's own VirtualNode; nil before the first
// SetVirtualNode.
func (f *Facts) VirtualNode() *offloadingv1beta1.VirtualNode {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.own
}

// ForPods returns what policies read about the virtual kubelet's own virtual node when they
// are asked about pods. A change takes effect without a restart.
func (f *Facts) ForPods() (*offloadingv1beta1.OffloadingPatch, contract.VirtualNode) {
	vn := f.VirtualNode()
	return vn.Spec.OffloadingPatch, contract.VirtualNode{
		Name: f.origin.NodeName, ConsumerClusterID: f.origin.HomeClusterID,
		ProviderClusterID: f.origin.ProviderClusterID, Labels: vn.Spec.Labels,
	}
}

func (f *Facts) forSharedObjects() sharedFacts {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.shared
}

// FilterMetadata asks policies which labels and annotations of a shared object are
// reflected. It is an engine.MetadataFilter.
func (f *Facts) FilterMetadata(ctx context.Context, apiVersion, kind string, local, remoteObject client.Object) (labels, annotations map[string]string, err error) {
	shared := f.forSharedObjects()
	return view.ReflectMetadata(ctx, f.evaluator(), view.MetadataInput{
		APIVersion: apiVersion, Kind: kind, Namespace: local.GetNamespace(), Name: local.GetName(),
		Labels: local.GetLabels(), Annotations: local.GetAnnotations(),
		NotReflected: shared.notReflected, VirtualNode: shared.virtualNode,
	}, previousDecisions(remoteObject))
}

// MutateResource asks policies to change a shared object before it is sent. It is an
// engine.ResourceMutation and costs nothing when no policy is bound to the point.
func (f *Facts) MutateResource(ctx context.Context, local, remoteObject client.Object, content map[string]any, empty func() client.Object) (*engine.Mutation, error) {
	evaluator := f.evaluator()
	if !view.HasResourcePolicies(evaluator) {
		return nil, nil
	}
	target := empty()
	result, err := view.MutateResource(ctx, evaluator, view.ResourceInput{
		Object: content, Target: target, Namespace: local.GetNamespace(), Name: local.GetName(),
		Labels: local.GetLabels(), Annotations: local.GetAnnotations(), VirtualNode: f.forSharedObjects().virtualNode,
		Have: previousDecisions(remoteObject),
	})
	if err != nil {
		return nil, err
	}
	for _, warning := range result.Warnings {
		logr.FromContextOrDiscard(ctx).V(1).Info("Policy warning", "warning", warning)
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

// previousDecisions returns the decisions that a remote object records; nil has none.
func previousDecisions(remoteObject client.Object) string {
	if remoteObject == nil {
		return ""
	}
	return remoteObject.GetAnnotations()[remote.DecisionsAnnotation]
}
