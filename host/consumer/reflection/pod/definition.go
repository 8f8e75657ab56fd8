// Package pod is Pod flow, stage 5: the definition with which the reflection engine drives
// pods. A local pod bound to the virtual node becomes a ShadowPod in the provider, the
// status of the remote pod comes back (stage 7), and neither side lets go of the other
// out of order (stage 8, wire 3.6).
//
// Everything is decided here and nothing is sent here. The spec of a ShadowPod is forged
// once, at its creation, and never again (T8); labels and annotations follow the local
// pod for as long as both live.
package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Options are what the definition needs beyond what the engine observes.
type Options struct {
	// Origin says which virtual node of which cluster forges.
	Origin remote.Origin
	// Evaluator runs the policies.
	Evaluator view.Evaluator
	// Situation returns what the policies are told of the virtual node, as it is now: its
	// offloadingPatch (nil when it has none) and its labels. A change of it is followed by
	// a call of the engine's PoliciesChanged.
	Situation func() (*offloadingv1beta1.OffloadingPatch, contract.VirtualNode)
	// Workers is the number of pods handled at once (--pod-reflection-workers).
	Workers int
	// DisableIPReflection leaves the pod's addresses out of the local status.
	DisableIPReflection bool
	// MapIP translates an address of the provider's pods into the one under which the
	// consumer reaches it; nil when both clusters see the same addresses.
	MapIP func(string) string
}

// Definition drives pods.
type Definition struct{ options Options }

var (
	_ engine.Definition = (*Definition)(nil)
	_ engine.Fallback   = (*Definition)(nil)
)

// New returns the definition.
func New(options Options) *Definition { return &Definition{options: options} }

// Resource implements engine.Definition.
func (d *Definition) Resource() engine.Resource {
	dependent := engine.Kind{
		New:     func() client.Object { return &corev1.Pod{} },
		NewList: func() client.ObjectList { return &corev1.PodList{} },
		Trim:    trimRemotePod,
	}
	return engine.Resource{
		Name: "pod",
		Local: engine.Kind{
			New:     func() client.Object { return &corev1.Pod{} },
			NewList: func() client.ObjectList { return &corev1.PodList{} },
		},
		Remote: engine.Kind{
			New:     func() client.Object { return &offloadingv1beta1.ShadowPod{} },
			NewList: func() client.ObjectList { return &offloadingv1beta1.ShadowPodList{} },
			Trim:    trimShadowPod,
		},
		Dependent:     &dependent,
		LocalFields:   fields.OneTermEqualSelector(nodeNameField, d.options.Origin.NodeName),
		LocalFieldsOf: nodeName,
		RemoteLabels:  labels.Set{offloadingv1beta1.NodeNameLabel: d.options.Origin.NodeName},
		Policy:        offloadingv1beta1.CustomLiqo,
		Workers:       max(d.options.Workers, 1),
	}
}

// nodeNameField selects the pods of one Node.
const nodeNameField = "spec.nodeName"

func nodeName(object client.Object) fields.Set {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil
	}
	return fields.Set{nodeNameField: pod.Spec.NodeName}
}

// trimShadowPod drops the spec: it is frozen, so nothing ever compares it.
func trimShadowPod(object client.Object) {
	if shadow, ok := object.(*offloadingv1beta1.ShadowPod); ok {
		shadow.Spec = offloadingv1beta1.ShadowPodSpec{}
	}
}

// trimRemotePod drops the spec, but for how long the pod's end takes: only metadata and
// status are read.
func trimRemotePod(object client.Object) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Spec = corev1.PodSpec{TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds}
	}
}
