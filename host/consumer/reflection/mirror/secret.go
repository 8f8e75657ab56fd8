package mirror

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// secret mirrors Secrets. A service account's token gives access to the
// consumer's API server and is withheld.
var secret = kind[*corev1.Secret]{
	name:      "secret",
	areMany:   true,
	empty:     func() client.Object { return &corev1.Secret{} },
	emptyList: func() client.ObjectList { return &corev1.SecretList{} },
	forge: func(local *corev1.Secret, in engine.Input, o Options) (runtime.ApplyConfiguration, error) {
		return remote.Secret(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, o.Origin), nil
	},
	perNamespace: true,
	purpose: func(current *corev1.Secret) string {
		if isPodToken(current) {
			return "the tokens of a remote pod"
		}
		return ""
	},
	withhold: func(local *corev1.Secret, o Options) string {
		switch {
		case local.Type == corev1.SecretTypeServiceAccountToken:
			return "it is the token of a service account of this cluster"
		case slices.Contains(o.WithheldTypes, string(local.Type)):
			return "Secrets of type " + string(local.Type) + " are of use in this cluster only; the chart's value reflection.secretTypesNotReflected lists these types"
		}
		return ""
	},
	// Neither the type of a Secret nor the content of an immutable one can be updated.
	replaces: func(desired, current *corev1.Secret) (bool, string) {
		return remote.SecretType(desired) != current.Type ||
			isSet(current.Immutable) && (!isSet(desired.Immutable) || !equality.Semantic.DeepEqual(desired.Data, current.Data)), ""
	},
}

// isPodToken reports whether a remote Secret holds the tokens of one pod: its
// labels or annotations have both keys.
func isPodToken(secret *corev1.Secret) bool {
	has := func(key string) bool {
		_, label := secret.Labels[key]
		_, annotation := secret.Annotations[key]
		return label || annotation
	}
	return has(remote.TokenPodKey) && has(remote.TokenAccountKey)
}
