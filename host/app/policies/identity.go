package policies

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/policysource/report"
)

// OfPod returns the identity of a component of this kind that runs in a Pod. Without the
// name of a Pod, the component is the only one of its kind and its report has no owner.
func OfPod(reader client.Reader, kind string, pod client.ObjectKey) report.Identity {
	if pod.Name == "" {
		return report.Identity{Name: kind, Object: client.ObjectKey{Namespace: pod.Namespace, Name: kind}}
	}
	return report.Identity{Name: kind + "/" + pod.Name, Object: pod, Owner: func(ctx context.Context) (*metav1.OwnerReference, error) {
		return ownerOf(ctx, reader, pod, &corev1.Pod{}, corev1.SchemeGroupVersion.WithKind("Pod").ToAPIVersionAndKind)
	}}
}

// OfElected returns the identity of a component whose replicas report one after the other: they
// share one report, which is deleted with the Pod of the replica that wrote it last.
func OfElected(reader client.Reader, kind string, pod client.ObjectKey) report.Identity {
	identity := OfPod(reader, kind, pod)
	identity.Name, identity.Object = kind, client.ObjectKey{Namespace: pod.Namespace, Name: kind}
	return identity
}

// OfVirtualNode returns the identity of a virtual kubelet.
func OfVirtualNode(reader client.Reader, node client.ObjectKey) report.Identity {
	return report.Identity{Name: "virtual-kubelet/" + node.Name, Object: node, Owner: func(ctx context.Context) (*metav1.OwnerReference, error) {
		return ownerOf(ctx, reader, node, &offloadingv1beta1.VirtualNode{}, offloadingv1beta1.GroupVersion.WithKind("VirtualNode").ToAPIVersionAndKind)
	}}
}

func ownerOf(ctx context.Context, reader client.Reader, key client.ObjectKey, object client.Object, kind func() (string, string)) (*metav1.OwnerReference, error) {
	if err := reader.Get(ctx, key, object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	owner := &metav1.OwnerReference{Name: object.GetName(), UID: object.GetUID()}
	owner.APIVersion, owner.Kind = kind()
	return owner, nil
}
