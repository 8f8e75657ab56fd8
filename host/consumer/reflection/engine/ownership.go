package engine

import (
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Owned reports whether a remote object has both ownership labels of the reflection from
// this consumer to this provider.
func Owned(object client.Object, facts Facts) bool {
	labels := object.GetLabels()
	return labels[offloadingv1beta1.OriginLabel] == facts.HomeClusterID &&
		labels[offloadingv1beta1.DestinationLabel] == facts.ProviderClusterID
}

// NameConflict returns the event on a local object whose remote name is taken by an
// unmanaged object.
func NameConflict(facts Facts, kind, remoteName string) RecordEvent {
	return RecordEvent{
		Type:   EventWarning,
		Reason: ReasonFailedReflection,
		Message: kind + " " + remoteName + " already exists in namespace " + facts.RemoteNamespace +
			" of cluster " + facts.ProviderClusterID + " and is not managed by reflection. Rename one of the two, or delete the remote one.",
	}
}

// KindOf returns the kind of an object, also of one whose Go type says it.
func KindOf(object client.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(object).Elem().Name()
}

// NotReflected is the message of an event on a local object that is not reflected.
func NotReflected(facts Facts, reason string) string {
	return "Not reflected to cluster " + facts.ProviderClusterID + ": " + reason
}
