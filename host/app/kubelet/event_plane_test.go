package kubelet_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// The controllers of a provider report failures of load balancers, Ingresses and volumes by events
// only, and the author of the object sees the consumer only.
func TestWarningsAboutReflectedObjectsComeBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	objects := map[string]client.Object{
		"Service": &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}},
		"Ingress": &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{DefaultBackend: &backend}},
		"PersistentVolumeClaim": &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("liqo"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
	}
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig))
	for _, object := range objects {
		r.create(r.rome, object)
	}
	r.mapNamespace()
	options := r.options()
	options.EnableStorage = true
	r.runKubelet(options)
	versions := map[string]string{"Service": "v1", "Ingress": "networking.k8s.io/v1", "PersistentVolumeClaim": "v1"}
	warn := func(kind, eventType, suffix string) {
		r.create(r.milan, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "shop-rome", Name: suffix + "." + string(objects[kind].GetUID())},
			InvolvedObject: corev1.ObjectReference{APIVersion: versions[kind], Kind: kind, Namespace: "shop-rome", Name: "web", UID: "remote"},
			Type:           eventType, Reason: "Failed", Message: "the reason of " + kind, Count: 1,
			Source: corev1.EventSource{Component: "controller"}, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
		})
	}
	for kind := range objects {
		warn(kind, corev1.EventTypeNormal, "a-normal")
		warn(kind, corev1.EventTypeWarning, "web")
	}
	for kind, object := range objects {
		event := &corev1.Event{}
		planetest.Until(t, func(t planetest.T) bool {
			err := r.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web." + string(object.GetUID())}, event)
			return err == nil
		}, soon, tick, "the warning about a "+kind)
		assert.Equal(t, corev1.ObjectReference{
			APIVersion: versions[kind], Kind: kind, Namespace: "shop", Name: "web", UID: object.GetUID(),
		}, event.InvolvedObject)
		assert.Equal(t, "controller (remote)", event.Source.Component)
		assert.Equal(t, "the reason of "+kind, event.Message)
		err := r.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "a-normal." + string(object.GetUID())}, event)
		require.True(t, apierrors.IsNotFound(err), "what is not a warning stays in the provider: %v", err)
	}
}
