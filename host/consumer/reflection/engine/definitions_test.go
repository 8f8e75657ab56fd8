package engine

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

var owned = map[string]string{
	offloadingv1beta1.OriginLabel:      home,
	offloadingv1beta1.DestinationLabel: provider,
}

// maps is a definition that mirrors ConfigMaps.
type maps struct{}

func (maps) Resource() Resource {
	kind := Kind{
		New:     func() client.Object { return &corev1.ConfigMap{} },
		NewList: func() client.ObjectList { return &corev1.ConfigMapList{} },
	}
	return Resource{Name: "configmap", Local: kind, Remote: kind, Policy: offloadingv1beta1.DenyList, Filter: true, Workers: 1}
}

func (maps) Decide(in Input) ([]Action, error) {
	switch {
	case in.Remote != nil && !Owned(in.Remote, in.Facts):
		return []Action{NameConflict(in.Facts, "configmap", in.Key.Name)}, nil
	case in.Remote != nil && in.Remote.GetDeletionTimestamp() != nil:
		return []Action{Keep{Reason: "the remote object is being deleted"}}, nil
	case in.Local == nil && in.Remote == nil:
		return nil, nil
	case in.Local == nil:
		return []Action{DeleteRemote{}}, nil
	case in.SkipAnnotated:
		return []Action{DeleteRemote{}, RecordEvent{Type: EventNormal, Reason: ReasonReflectionDisabled, Message: "skipped"}}, nil
	}
	return []Action{Apply{Config: corev1apply.ConfigMap(in.Key.Name, in.Facts.RemoteNamespace).
		WithLabels(labels.Merge(in.Labels, owned)).WithAnnotations(in.Annotations).
		WithData(in.Local.(*corev1.ConfigMap).Data)}}, nil
}

// pods is a definition with three objects, like the real one but smaller.
type pods struct {
	decide func(in Input) ([]Action, error)
}

func (pods) Resource() Resource {
	pod := Kind{New: func() client.Object { return &corev1.Pod{} }, NewList: func() client.ObjectList { return &corev1.PodList{} }}
	return Resource{
		Name: "pod", Local: pod, Dependent: &pod,
		Remote: Kind{
			New:     func() client.Object { return &offloadingv1beta1.ShadowPod{} },
			NewList: func() client.ObjectList { return &offloadingv1beta1.ShadowPodList{} },
		},
		LocalFields:   fields.OneTermEqualSelector("spec.nodeName", nodeName),
		LocalFieldsOf: func(o client.Object) fields.Set { return fields.Set{"spec.nodeName": o.(*corev1.Pod).Spec.NodeName} },
		RemoteLabels:  labels.Set{offloadingv1beta1.NodeNameLabel: nodeName},
		Policy:        offloadingv1beta1.CustomLiqo, Workers: 2,
	}
}

func shadow(in Input) *offloadingv1beta1.ShadowPod {
	return &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Name:   in.Key.Name,
		Labels: labels.Merge(owned, labels.Set{offloadingv1beta1.NodeNameLabel: nodeName}),
	}}
}

func (p pods) Decide(in Input) ([]Action, error) {
	if p.decide != nil {
		return p.decide(in)
	}
	value := "true"
	switch {
	case in.Local == nil && in.Remote != nil && in.Remote.GetDeletionTimestamp() == nil:
		return []Action{DeleteRemote{}}, nil
	case in.Local == nil:
		return []Action{Keep{}}, nil
	case in.Remote == nil:
		return []Action{Create{Object: shadow(in)}, PatchLocal{Labels: map[string]*string{"offloaded": &value}}}, nil
	case in.Dependent != nil:
		local, dependent := in.Local.(*corev1.Pod), in.Dependent.(*corev1.Pod)
		return []Action{PatchLocalStatus{Old: &local.Status, New: &dependent.Status}}, nil
	}
	return []Action{Keep{}}, nil
}

func (p pods) Fallback(in Input) ([]Action, error) {
	return []Action{RecordEvent{Type: EventWarning, Reason: ReasonReflectionDisabled, Message: "not offloaded"}}, nil
}

// perNamespace is [maps] that watches only mapped namespaces.
type perNamespace struct{ maps }

func (perNamespace) Resource() Resource {
	resource := maps{}.Resource()
	resource.LocalPerNamespace = true
	return resource
}
