package engine

import (
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Owned reports whether a remote object belongs to the reflection from home to
// provider: both ownership labels are there (wire 4.1).
func Owned(object client.Object, facts Facts) bool {
	labels := object.GetLabels()
	return labels[offloadingv1beta1.OriginLabel] == facts.HomeClusterID &&
		labels[offloadingv1beta1.DestinationLabel] == facts.ProviderClusterID
}

// Stranger is what the owner of a local object is told when an object that is not ours
// has its name in the provider (T39).
func NameConflict(facts Facts, kind, remoteName string) RecordEvent {
	return RecordEvent{
		Type:   EventWarning,
		Reason: ReasonFailedReflection,
		Message: "A " + kind + " named " + remoteName + " already exists in namespace " + facts.RemoteNamespace +
			" of cluster " + facts.ProviderClusterID + " and was not created by reflection; it is left alone",
	}
}

// NotReflected is what the owner of a local object is told that stays at home, and why.
func NotReflected(facts Facts, why string) string {
	return "Not reflected to cluster " + facts.ProviderClusterID + ": " + why
}

// Mirror decides about a resource whose objects are copied to the provider and nothing
// comes back: ConfigMaps, Secrets, Services. forge builds the remote configuration; it
// is called only when there is something to reflect.
func Mirror(in Input, forge func() (runtime.ApplyConfiguration, error)) ([]Action, error) {
	switch {
	case in.Remote != nil && !Owned(in.Remote, in.Facts):
		if in.Local == nil {
			return []Action{Keep{Reason: "the remote object is a stranger's"}}, nil
		}
		return []Action{NameConflict(in.Facts, "object", in.Remote.GetName())}, nil
	case in.Remote != nil && in.Remote.GetDeletionTimestamp() != nil:
		return []Action{Keep{Reason: "the remote object is being deleted; its end comes as an event"}}, nil
	case in.Local == nil || in.Skipped:
		return withdraw(in), nil
	}
	config, err := forge()
	if err != nil {
		return nil, err
	}
	return []Action{Apply{Config: config}}, nil
}

// withdraw is the decision about an object that is gone or excluded.
func withdraw(in Input) []Action {
	var actions []Action
	if in.Remote != nil {
		actions = append(actions, DeleteRemote{})
	}
	if in.Local != nil && in.SkipAnnotated {
		actions = append(actions, RecordEvent{
			Type:    EventNormal,
			Reason:  ReasonReflectionDisabled,
			Message: NotReflected(in.Facts, "annotation "+offloadingv1beta1.SkipReflectionAnnotation),
		})
	}
	if len(actions) == 0 {
		actions = append(actions, Keep{Reason: "nothing to reflect"})
	}
	return actions
}
