// Package secret is Pod flow, stage 5: the definition with which the reflection engine
// copies Secrets to the provider, so that offloaded pods find what they mount
// (wire 4.7).
package secret

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// Keys on a remote Secret that holds the tokens of one pod (4.8).
const (
	podTokenPodKey     = "offloading.liqo.io/service-account-for-pod-name"
	podTokenAccountKey = "offloading.liqo.io/service-account-name"
)

// Options configure the definition.
type Options struct {
	Origin remote.Origin
	// Policy is DenyList or AllowList (--secret-reflection-type).
	Policy offloadingv1beta1.ReflectionType
	// Workers is the number of objects handled at once (--secret-reflection-workers).
	Workers int
	// ReflectTokens also copies the tokens of service accounts, which only the
	// API-server support of old clusters needs (3.5, mode Legacy).
	ReflectTokens bool
}

// Definition copies Secrets.
type Definition struct{ options Options }

var (
	_ engine.Definition = (*Definition)(nil)
	_ engine.Replacer   = (*Definition)(nil)
)

// New returns the definition.
func New(options Options) *Definition { return &Definition{options: options} }

// Resource implements engine.Definition.
func (d *Definition) Resource() engine.Resource {
	kind := engine.Kind{
		New:     func() client.Object { return &corev1.Secret{} },
		NewList: func() client.ObjectList { return &corev1.SecretList{} },
	}
	return engine.Resource{
		Name: "secret", Local: kind, Remote: kind,
		Policy: d.options.Policy, Filter: true, LeaderOnly: true, Workers: max(d.options.Workers, 1),
	}
}

// Decide implements engine.Definition.
func (d *Definition) Decide(in engine.Input) ([]engine.Action, error) {
	local, _ := in.Local.(*corev1.Secret)
	there, _ := in.Remote.(*corev1.Secret)
	switch {
	case there != nil && isPodToken(there):
		return []engine.Action{engine.Keep{Reason: "it holds the tokens of a pod and is not a copy"}}, nil
	case local != nil && local.Type == corev1.SecretTypeServiceAccountToken && !d.options.ReflectTokens && !in.Skipped:
		return d.withhold(in, there), nil
	}
	return engine.Mirror(in, func() (runtime.ApplyConfiguration, error) {
		return remote.Secret(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, d.options.Origin), nil
	})
}

// withhold decides about a service account's token, which opens the consumer's API
// server and therefore stays at home.
func (d *Definition) withhold(in engine.Input, there *corev1.Secret) []engine.Action {
	actions := []engine.Action{engine.RecordEvent{
		Type: engine.EventNormal, Reason: engine.ReasonReflectionDisabled,
		Message: "Not reflected to cluster " + in.Facts.ProviderClusterID + ": it is the token of a service account of this cluster",
	}}
	if there != nil && engine.Owned(there, in.Facts) && there.DeletionTimestamp == nil {
		actions = append(actions, engine.DeleteRemote{})
	}
	return actions
}

// isPodToken reports whether a remote Secret holds the tokens of one pod (4.8), by the
// keys among its labels and annotations.
func isPodToken(secret *corev1.Secret) bool {
	has := func(key string) bool {
		_, label := secret.Labels[key]
		_, annotation := secret.Annotations[key]
		return label || annotation
	}
	return has(podTokenPodKey) && has(podTokenAccountKey)
}

// Replaces implements engine.Replacer: no update changes the type of a remote Secret, or
// the content of an immutable one (T47).
func (*Definition) Replaces(wanted, copied client.Object) bool {
	want, isSecret := wanted.(*corev1.Secret)
	there, isSecretToo := copied.(*corev1.Secret)
	if !isSecret || !isSecretToo {
		return false
	}
	if remote.SecretType(want) != there.Type {
		return true
	}
	if there.Immutable == nil || !*there.Immutable {
		return false
	}
	return want.Immutable == nil || !*want.Immutable || !equality.Semantic.DeepEqual(want.Data, there.Data)
}
