package quota

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/provider/metadata"
)

// Abandoned returns what ShadowPods and pods of a consumer hold that no Quota counts: their users were those of
// ResourceSlices that are gone. The tenant namespace names the consumer. The user has a Quota, or is about to get one.
// The reader is a cache.
func Abandoned(ctx context.Context, reader client.Reader, tenant, user string) (corev1.ResourceList, error) {
	namespaces, err := namespacesOfPeer(ctx, reader, tenant)
	if err != nil || len(namespaces) == 0 {
		return nil, err
	}
	quotas, existing := &offloadingv1beta1.QuotaList{}, &authv1beta1.ResourceSliceList{}
	if err := reader.List(ctx, quotas, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Quotas: %w", err)
	}
	if err := reader.List(ctx, existing, client.InNamespace(tenant), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the ResourceSlices of namespace %q: %w", tenant, err)
	}
	counted, sum := countedUsers(quotas.Items, tenant, existing.Items), corev1.ResourceList{}
	counted[LabelValue(user)] = true
	for _, namespace := range namespaces {
		shadows, pods := &offloadingv1beta1.ShadowPodList{}, &corev1.PodList{}
		for _, list := range []client.ObjectList{shadows, pods} {
			if err := reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
				return nil, fmt.Errorf("listing the pods of namespace %q: %w", namespace, err)
			}
		}
		add(sum, abandonedBy(counted, shadows.Items, pods.Items))
	}
	return sum, nil
}

// Ending returns what pods of a user hold whose ShadowPods are gone. The reader is a cache.
func Ending(ctx context.Context, reader client.Reader, user string) (corev1.ResourceList, error) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.MatchingLabels{offloadingv1beta1.CreatorUserLabel: LabelValue(user)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods of user %q: %w", user, err)
	}
	var ending []*corev1.Pod
	for i := range pods.Items {
		pod, shadow := &pods.Items[i], &offloadingv1beta1.ShadowPod{}
		err := reader.Get(ctx, client.ObjectKeyFromObject(pod), shadow)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading ShadowPod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if Outlives(pod, func(uid types.UID) bool { return err == nil && uid == shadow.UID }) {
			ending = append(ending, pod)
		}
	}
	return HeldBy(ending), nil
}

// OfConsumer returns the Quotas in all namespaces of the consumer that a namespace belongs to.
func OfConsumer(ctx context.Context, reader client.Reader, namespace string) ([]offloadingv1beta1.Quota, error) {
	namespaces, err := namespacesOfPeer(ctx, reader, namespace)
	if err != nil || len(namespaces) == 0 {
		return nil, err
	}
	quotas := &offloadingv1beta1.QuotaList{}
	if err := reader.List(ctx, quotas, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Quotas: %w", err)
	}
	return slices.DeleteFunc(quotas.Items, func(q offloadingv1beta1.Quota) bool { return !slices.Contains(namespaces, q.Namespace) }), nil
}

// namespacesOfPeer returns the names of all namespaces of the peer that a namespace belongs to. No peer can write the
// label that says so.
func namespacesOfPeer(ctx context.Context, reader client.Reader, name string) ([]string, error) {
	namespace, all := &corev1.Namespace{}, &corev1.NamespaceList{}
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	peer := namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel]
	if peer == "" {
		return nil, nil
	}
	if err := reader.List(ctx, all, client.MatchingLabels{liqocorev1beta1.RemoteClusterIDLabel: peer}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the namespaces of cluster %q: %w", peer, err)
	}
	names := make([]string, 0, len(all.Items))
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	return names, nil
}

// countedUsers returns the label values of the users whose pods a Quota counts. That of a ResourceSlice that is gone,
// which the garbage collector has not deleted yet, counts no longer: a slice that its consumer has created since was
// granted something. It is pure.
func countedUsers(quotas []offloadingv1beta1.Quota, tenant string, existing []authv1beta1.ResourceSlice) map[string]bool {
	counted := map[string]bool{}
	for i := range quotas {
		owner := metav1.GetControllerOf(&quotas[i])
		isOf := func(slice authv1beta1.ResourceSlice) bool { return slice.UID == owner.UID }
		if quotas[i].Namespace != tenant || owner == nil || slices.ContainsFunc(existing, isOf) {
			counted[LabelValue(quotas[i].Spec.User)] = true
		}
	}
	return counted
}

// abandonedBy returns what ShadowPods of users that no Quota counts request, and what pods of such users hold whose
// ShadowPods are gone. It is pure.
func abandonedBy(counted map[string]bool, shadows []offloadingv1beta1.ShadowPod, pods []corev1.Pod) corev1.ResourceList {
	isCounted := func(object metav1.Object) bool {
		user := object.GetLabels()[offloadingv1beta1.CreatorUserLabel]
		return user == "" || counted[user]
	}
	sum, live := corev1.ResourceList{}, map[types.UID]bool{}
	for i := range shadows {
		live[shadows[i].UID] = true
		if isCounted(&shadows[i]) || isFinished(&shadows[i]) {
			continue
		}
		// No pod can come of one without requests: it was created without this check.
		if requests, err := requestsOfPod(&shadows[i]); err == nil {
			add(sum, requests)
		}
	}
	var outliving []*corev1.Pod
	for i := range pods {
		if !isCounted(&pods[i]) && Outlives(&pods[i], func(uid types.UID) bool { return live[uid] }) {
			outliving = append(outliving, &pods[i])
		}
	}
	add(sum, HeldBy(outliving))
	return sum
}

// Outlives reports whether a pod runs for no ShadowPod, also one that the garbage collector has not deleted yet. One
// that has its ShadowPod counts with it. exists reports whether a ShadowPod exists.
func Outlives(pod *corev1.Pod, exists func(types.UID) bool) bool {
	if podend.IsTerminal(pod.Status.Phase) || pod.DeletionTimestamp == nil && !metadata.WasCreatedFor(pod, offloadingv1beta1.ShadowPodGVK) {
		return false
	}
	return !slices.ContainsFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool { return exists(owner.UID) })
}
