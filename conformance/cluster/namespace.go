package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// nodeReady finds the virtual nodes of the provider.
func (s *session) nodeReady(ctx context.Context) error {
	return s.until(ctx, func(ctx context.Context) error {
		list := &corev1.NodeList{}
		err := s.Consumer.List(ctx, list, client.MatchingLabels{
			offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual, liqocorev1beta1.RemoteClusterIDLabel: string(s.providerID),
		})
		if err != nil {
			return fmt.Errorf("listing the nodes of the consumer: %w", err)
		}
		s.nodes = nil
		errs := []error{fmt.Errorf("the consumer has no virtual node of cluster %s: peer the clusters before, longshorectl peer does", s.providerID)}
		for i := range list.Items {
			if err := checkNode(&list.Items[i]); err != nil {
				errs = append(errs, err)
				continue
			}
			s.nodes = append(s.nodes, list.Items[i])
		}
		if len(s.nodes) > 0 {
			return nil
		}
		if len(errs) > 1 {
			errs = errs[1:]
		}
		return errors.Join(errs...)
	})
}

// checkNode returns why pods cannot run on a virtual node.
func checkNode(node *corev1.Node) error {
	tainted := false
	for _, taint := range node.Spec.Taints {
		tainted = tainted || taint.Key == offloadingv1beta1.VirtualNodeTaintKey && taint.Effect == corev1.TaintEffectNoExecute
	}
	if !tainted {
		return fmt.Errorf("node %s has no taint %s with the effect NoExecute", node.Name, offloadingv1beta1.VirtualNodeTaintKey)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		} else if condition.Type == corev1.NodeReady {
			return fmt.Errorf("node %s is not ready: %s: %s", node.Name, condition.Reason, condition.Message)
		}
	}
	return fmt.Errorf("node %s has no condition Ready", node.Name)
}

func (s *session) offloading() *offloadingv1beta1.NamespaceOffloading {
	nso := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: offloadingv1beta1.NamespaceOffloadingName}}
	nso.Spec.NamespaceMappingStrategy = offloadingv1beta1.DefaultNameMappingStrategyType
	nso.Spec.PodOffloadingStrategy = offloadingv1beta1.RemotePodOffloadingStrategyType
	nso.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
		Key: liqocorev1beta1.RemoteClusterIDLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{string(s.providerID)},
	}}}}
	return nso
}

// namespaceMapped offloads the namespace of the run to the provider.
func (s *session) namespaceMapped(ctx context.Context) error {
	nso := s.offloading()
	if err := s.Consumer.Create(ctx, nso.DeepCopy()); err != nil {
		return fmt.Errorf("creating a NamespaceOffloading in namespace %s of the consumer: %w", s.Namespace, err)
	}
	err := s.until(ctx, func(ctx context.Context) error {
		if err := s.Consumer.Get(ctx, client.ObjectKeyFromObject(nso), nso); err != nil {
			return fmt.Errorf("reading the NamespaceOffloading: %w", err)
		}
		if phase := nso.Status.OffloadingPhase; phase != offloadingv1beta1.ReadyOffloadingPhaseType {
			return fmt.Errorf("the NamespaceOffloading is in phase %q, want Ready", phase)
		}
		if name := nso.Status.RemoteNamespaceName; name != s.remoteName() {
			return fmt.Errorf("the NamespaceOffloading reports the remote namespace %q, want %q", name, s.remoteName())
		}
		return nil
	})
	if err != nil {
		return err
	}
	remote := &corev1.Namespace{}
	if err := s.Provider.Get(ctx, client.ObjectKey{Name: s.remoteName()}, remote); err != nil {
		return fmt.Errorf("reading the remote namespace: %w", err)
	}
	if origin := remote.Labels[liqocorev1beta1.RemoteClusterIDLabel]; origin != string(s.consumerID) {
		return fmt.Errorf("the label %s of the remote namespace is %q, want %q", liqocorev1beta1.RemoteClusterIDLabel, origin, s.consumerID)
	}
	if remote.Annotations[offloadingv1beta1.ManagedByNamespaceMapAnnotation] == "" {
		return fmt.Errorf("the remote namespace has no annotation %s", offloadingv1beta1.ManagedByNamespaceMapAnnotation)
	}
	s.remote = s.remoteName()
	status, err := s.mapping(ctx)
	if err != nil {
		return err
	}
	if status == nil || status.RemoteNamespace != s.remote {
		return fmt.Errorf("the NamespaceMap of the consumer has no current mapping of %s to %s", s.Namespace, s.remote)
	}
	return nil
}

// mapping returns the entry of the namespace in the NamespaceMap of the provider; nil if there is none.
func (s *session) mapping(ctx context.Context) (*offloadingv1beta1.RemoteNamespaceStatus, error) {
	list := &offloadingv1beta1.NamespaceMapList{}
	err := s.Consumer.List(ctx, list, client.MatchingLabels{liqocorev1beta1.RemoteIDLabel: string(s.providerID)})
	if err != nil {
		return nil, fmt.Errorf("listing the NamespaceMaps of the consumer: %w", err)
	}
	for i := range list.Items {
		if status, ok := list.Items[i].Status.CurrentMapping[s.Namespace]; ok {
			return &status, nil
		}
	}
	return nil, nil
}

func (s *session) namespaceLabeled(ctx context.Context) error {
	return s.until(ctx, func(ctx context.Context) error {
		namespace := &corev1.Namespace{}
		if err := s.Consumer.Get(ctx, client.ObjectKey{Name: s.Namespace}, namespace); err != nil {
			return fmt.Errorf("reading the local namespace: %w", err)
		}
		if namespace.Labels[offloadingv1beta1.SchedulingEnabledLabel] != "true" {
			return fmt.Errorf("the namespace has no label %s=true", offloadingv1beta1.SchedulingEnabledLabel)
		}
		return nil
	})
}

// namespaceWithdrawn deletes the NamespaceOffloading.
func (s *session) namespaceWithdrawn(ctx context.Context) error {
	if err := s.Consumer.Delete(ctx, s.offloading()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the NamespaceOffloading: %w", err)
	}
	return s.until(ctx, func(ctx context.Context) error {
		if err := absent(ctx, s.Provider, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.remote}}); err != nil {
			return err
		}
		if err := absent(ctx, s.Consumer, s.offloading()); err != nil {
			return err
		}
		status, err := s.mapping(ctx)
		if err != nil {
			return err
		}
		if status != nil {
			return fmt.Errorf("the NamespaceMap still maps %s to %s", s.Namespace, status.RemoteNamespace)
		}
		namespace := &corev1.Namespace{}
		if err := s.Consumer.Get(ctx, client.ObjectKey{Name: s.Namespace}, namespace); err != nil {
			return fmt.Errorf("reading the local namespace: %w", err)
		}
		if _, ok := namespace.Labels[offloadingv1beta1.SchedulingEnabledLabel]; ok {
			return fmt.Errorf("the namespace still has the label %s", offloadingv1beta1.SchedulingEnabledLabel)
		}
		return nil
	})
}

// absent returns an error while an object exists.
func absent(ctx context.Context, c client.Client, object client.Object) error {
	err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	default:
		return fmt.Errorf("%T %s still exists, with the finalizers %v", object, client.ObjectKeyFromObject(object), object.GetFinalizers())
	}
}
