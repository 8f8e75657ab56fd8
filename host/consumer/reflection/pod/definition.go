// Package pod is Pod flow, stage 5: the definition with which the reflection engine offloads
// pods. A local pod bound to the virtual node becomes a ShadowPod in the provider, the status
// of the remote pod is written to the local pod, and both ends are deleted in order.
//
// The package decides and sends nothing. The spec of a ShadowPod is built when it is created.
// What Kubernetes lets change in a running pod follows the local pod, as do labels and
// annotations.
//
// Do not use the pod controller of the virtual-kubelet library in its place. That controller marks a
// pod with restartPolicy Never as Failed when its provider returns an error, and a lost connection
// must not fail a Job. Of the library, Longshore uses the node controller and the HTTP handlers of the
// kubelet, unchanged.
package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Options configure the definition.
type Options struct {
	// Origin identifies the consumer, the provider and the virtual node.
	Origin remote.Origin
	// Evaluator runs the policies.
	Evaluator view.Evaluator
	// VirtualNode returns the current offloadingPatch of the virtual node (nil when it has
	// none) and the facts about it that policies read. After a change the caller calls
	// PoliciesChanged of the engine.
	VirtualNode func() (*offloadingv1beta1.OffloadingPatch, contract.VirtualNode)
	// APIServer returns the address of the consumer's API server for remote pods, the zero value if
	// they do not reach it, or an error while the address is not known: pods that use it are not
	// offloaded before. nil for that of Origin. After a change the caller calls PoliciesChanged of
	// the engine.
	APIServer func() (remote.APIServer, error)
	// Workers is the number of pods handled at once (--pod-reflection-workers).
	Workers int
	// DisableIPReflection omits the pod's addresses from the local status.
	DisableIPReflection bool
	// MapIP translates an address of a remote pod into the one under which the consumer
	// reaches it, "" while it is not known; nil when both clusters use the same addresses. After
	// a change the caller calls PoliciesChanged of the engine.
	MapIP func(string) string
}

// Definition offloads pods.
type Definition struct {
	options Options
	endings *endings
}

var (
	_ engine.Definition = (*Definition)(nil)
	_ engine.Fallback   = (*Definition)(nil)
)

// New returns the definition.
func New(options Options) *Definition { return &Definition{options: options, endings: newEndings()} }

// Resource implements engine.Definition.
func (d *Definition) Resource() engine.Resource {
	dependent := engine.Kind{
		New:     func() client.Object { return &corev1.Pod{} },
		NewList: func() client.ObjectList { return &corev1.PodList{} },
		Trim:    trimRemotePod, Encoded: true, HasEnded: hasEnded,
	}
	return engine.Resource{
		Name: "pod",
		Local: engine.Kind{
			New:     func() client.Object { return &corev1.Pod{} },
			NewList: func() client.ObjectList { return &corev1.PodList{} },
			Encoded: true,
		},
		Remote: engine.Kind{
			New:     func() client.Object { return &offloadingv1beta1.ShadowPod{} },
			NewList: func() client.ObjectList { return &offloadingv1beta1.ShadowPodList{} },
			Trim:    trimShadowPod, Encoded: true,
		},
		Dependent:     &dependent,
		LocalFields:   fields.OneTermEqualSelector(nodeNameField, d.options.Origin.NodeName),
		LocalFieldsOf: nodeNameOf,
		RemoteLabels:  labels.Set{offloadingv1beta1.NodeNameLabel: d.options.Origin.NodeName},
		Policy:        offloadingv1beta1.CustomLiqo,
		Workers:       max(d.options.Workers, 1),
	}
}

// nodeNameField selects the pods of one Node.
const nodeNameField = "spec.nodeName"

func nodeNameOf(object client.Object) fields.Set {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil
	}
	return fields.Set{nodeNameField: pod.Spec.NodeName}
}

// trimShadowPod drops the spec, except the fields that may change and the address of the API server:
// some hundred bytes a pod.
func trimShadowPod(object client.Object) {
	shadow, ok := object.(*offloadingv1beta1.ShadowPod)
	if !ok {
		return
	}
	trimmed := podupdate.Trim(&shadow.Spec.Pod)
	if len(trimmed.Containers) > 0 {
		trimmed.Containers[0].Env = remote.APIServerVariables(shadow.Spec.Pod.Containers[0].Env)
	}
	shadow.Spec.Pod = trimmed
}

// hasEnded reports whether a remote pod runs no container: the API server sets the grace period to 0
// before it removes a pod whose kubelet has confirmed the end.
func hasEnded(object client.Object) bool {
	period := object.GetDeletionGracePeriodSeconds()
	pod, ok := object.(*corev1.Pod)
	return period != nil && *period == 0 || ok && isFinished(pod)
}

// trimRemotePod drops the spec except the grace period, and of the metadata what the ShadowPod has too.
func trimRemotePod(object client.Object) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Spec = corev1.PodSpec{TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds}
		pod.OwnerReferences = nil
		pod.Labels = pick(pod.Labels, offloadingv1beta1.OriginLabel, offloadingv1beta1.DestinationLabel, offloadingv1beta1.NodeNameLabel)
		pod.Annotations = pick(pod.Annotations, remote.LocalPodUIDAnnotation, podupdate.AppliedAnnotation)
	}
}

// pick returns a map with the given keys only.
func pick(all map[string]string, keys ...string) map[string]string {
	picked := make(map[string]string, len(keys))
	for _, key := range keys {
		if value, ok := all[key]; ok {
			picked[key] = value
		}
	}
	return picked
}
