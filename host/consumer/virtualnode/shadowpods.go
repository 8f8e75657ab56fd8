package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// providerTimeout limits requests to a provider: other VirtualNodes wait for them.
const providerTimeout = 5 * time.Second

const (
	// shadowPodsPage is how many ShadowPods are read and deleted at once.
	shadowPodsPage = 100
	// maxDeletionErrors is how many ShadowPods that cannot be deleted end the attempt.
	maxDeletionErrors = 3
)

// providerLimits bound the answers of a provider: all peers share this process. The metadata of a page of
// ShadowPods has far less.
func (r *release) providerLimits() remotecluster.Limits {
	return remotecluster.Limits{Response: 8 << 20, Values: 200_000, Timeout: providerTimeout, Types: r.Client.Scheme()}
}

// withdrawShadowPods deletes the remaining ShadowPods of a VirtualNode whose virtual kubelet has
// stopped: those of pods that are not drained (DaemonSets), that were created during the drain,
// or that were force-deleted. It deletes them only in namespaces that are kept for another
// VirtualNode; the provider deletes the others with the NamespaceMap.
func (r *release) withdrawShadowPods(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	fc, err := foreignCluster(ctx, r.Client, vn)
	if err != nil || fc != nil && fc.PermanentlyUnreachable() {
		return err
	}
	siblings, err := r.siblings(ctx, vn)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(siblings, func(other offloadingv1beta1.VirtualNode) bool { return other.Name == vn.Name }) {
		return nil // The ShadowPods may belong to the other VirtualNode.
	}
	namespaces, err := r.remainingNamespaces(ctx, vn, len(siblings) > 0)
	if err != nil || len(namespaces) == 0 {
		return err
	}
	providers, err := r.connect(ctx, vn, siblings)
	if err != nil {
		return err
	}
	if len(providers) == 0 {
		r.Events.Eventf(vn, nil, corev1.EventTypeWarning, reasonShadowPodsKept, actionStop,
			"No kubeconfig Secret for cluster %s is usable. Delete the ShadowPods with label %s=%s in that cluster, if there are any.",
			vn.Spec.ClusterID, offloadingv1beta1.NodeNameLabel, vn.Name)
		return nil
	}
	var errs []error
	for _, provider := range providers {
		err := deleteAllShadowPods(ctx, provider, namespaces, vn)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// remainingNamespaces returns the remote namespaces that are kept when the VirtualNode is
// deleted, sorted.
func (r *release) remainingNamespaces(ctx context.Context, vn *offloadingv1beta1.VirtualNode, hasSiblings bool) ([]string, error) {
	list, err := namespaceMaps(ctx, r.Client, vn)
	if err != nil {
		return nil, err
	}
	namespaces := map[string]bool{}
	for i := range list {
		list[i].RemoveVirtualNode(client.ObjectKeyFromObject(vn).String())
		if !hasSiblings && len(list[i].VirtualNodes()) == 0 {
			continue
		}
		for _, current := range list[i].Status.CurrentMapping {
			namespaces[current.RemoteNamespace] = true
		}
	}
	return slices.Sorted(maps.Keys(namespaces)), nil
}

func deleteAllShadowPods(ctx context.Context, provider client.Client, namespaces []string, vn *offloadingv1beta1.VirtualNode) error {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	var errs []error
	for _, namespace := range namespaces {
		errs = append(errs, deleteShadowPods(ctx, provider, namespace, vn))
	}
	return errors.Join(errs...)
}

func deleteShadowPods(ctx context.Context, provider client.Client, namespace string, vn *offloadingv1beta1.VirtualNode) error {
	var errs []error
	for next := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(offloadingv1beta1.GroupVersion.WithKind("ShadowPodList"))
		if err := provider.List(ctx, list, client.InNamespace(namespace), client.Limit(shadowPodsPage), client.Continue(next), client.MatchingLabels{
			offloadingv1beta1.NodeNameLabel: vn.Name, offloadingv1beta1.DestinationLabel: string(vn.Spec.ClusterID),
		}); err != nil {
			return errors.Join(append(errs, fmt.Errorf("listing ShadowPods in namespace %q of cluster %q: %w", namespace, vn.Spec.ClusterID, err))...)
		}
		for i := range list.Items {
			if err := client.IgnoreNotFound(provider.Delete(ctx, &list.Items[i], uidPrecondition(&list.Items[i]))); err != nil {
				errs = append(errs, fmt.Errorf("deleting ShadowPod %s/%.253s of cluster %q: %w", namespace, list.Items[i].Name, vn.Spec.ClusterID, err))
			}
			if len(errs) == maxDeletionErrors {
				return errors.Join(errs...)
			}
		}
		if next = list.Continue; next == "" {
			return errors.Join(errs...)
		}
	}
}

// connect returns clients of the provider in the order of preference: with the VirtualNode's
// Secret, which may have been deleted or invalid, and with those of the provider's other
// VirtualNodes.
func (r *release) connect(ctx context.Context, vn *offloadingv1beta1.VirtualNode, siblings []offloadingv1beta1.VirtualNode) ([]client.Client, error) {
	var providers []client.Client
	var errs []error
	for _, candidate := range append([]offloadingv1beta1.VirtualNode{*vn}, siblings...) {
		if candidate.Spec.KubeconfigSecretRef == nil {
			continue
		}
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: candidate.Namespace, Name: candidate.Spec.KubeconfigSecretRef.Name}
		if err := r.APIReader.Get(ctx, key, secret); err != nil {
			if !apierrors.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("reading kubeconfig Secret %s: %w", key, err))
			}
			continue
		}
		config, err := remotecluster.Config(secret, r.providerLimits())
		if err != nil {
			continue // The condition of the VirtualNode reports an invalid Secret.
		}
		provider, err := r.Connect(config)
		if err != nil {
			errs = append(errs, fmt.Errorf("connecting with Secret %s: %w", key, err))
			continue
		}
		providers = append(providers, provider)
	}
	if len(providers) > 0 {
		return providers, nil
	}
	return nil, errors.Join(errs...)
}
