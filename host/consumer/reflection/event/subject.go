package event

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

const podKind = "Pod"

// subject is a kind of objects that events are about.
type subject struct {
	kind schema.GroupVersionKind
	// remote is the kind of the remote object, if it is another.
	remote schema.GroupVersionKind
	// resource is the name of the reflected resource.
	resource string
	// local looks up the local objects.
	local engine.Related
}

// podOf returns the pods of a virtual node, from the informer of their own definition.
func podOf(node string) subject {
	return subject{
		kind: corev1.SchemeGroupVersion.WithKind(podKind), resource: "pod",
		local: engine.Related{
			Kind: engine.Kind{
				New:     func() client.Object { return &corev1.Pod{} },
				NewList: func() client.ObjectList { return &corev1.PodList{} },
				Encoded: true,
			},
			Fields: fields.OneTermEqualSelector("spec.nodeName", node),
		},
	}
}

// isAbout reports whether an event is about a remote object of the subject.
func (s *subject) isAbout(about *corev1.ObjectReference) bool {
	kind := s.kind
	if !s.remote.Empty() {
		kind = s.remote
	}
	return kind.Kind == about.Kind && (about.APIVersion == "" || kind.Group == about.GroupVersionKind().Group)
}

// objects are the kinds whose controllers in a provider fail without a trace in the consumer: a
// provisioner, a load balancer, an ingress controller, Longshore's own for ShadowEndpointSlices. Their
// status is not reflected.
var objects = []subject{
	{
		kind: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), resource: "persistentvolumeclaim",
		local: engine.Related{Kind: engine.Kind{
			New:     func() client.Object { return &corev1.PersistentVolumeClaim{} },
			NewList: func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} },
		}},
	},
	{
		kind: corev1.SchemeGroupVersion.WithKind("Service"), resource: "service",
		local: engine.Related{Kind: engine.Kind{
			New:     func() client.Object { return &corev1.Service{} },
			NewList: func() client.ObjectList { return &corev1.ServiceList{} },
		}},
	},
	{
		kind: networkingv1.SchemeGroupVersion.WithKind("Ingress"), resource: "ingress",
		local: engine.Related{Kind: engine.Kind{
			New:     func() client.Object { return &networkingv1.Ingress{} },
			NewList: func() client.ObjectList { return &networkingv1.IngressList{} },
		}},
	},
	{
		kind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), remote: offloadingv1beta1.ShadowEndpointSliceGVK, resource: "endpointslice",
		local: engine.Related{Kind: engine.Kind{
			New:     func() client.Object { return &discoveryv1.EndpointSlice{} },
			NewList: func() client.ObjectList { return &discoveryv1.EndpointSliceList{} },
		}},
	},
}
