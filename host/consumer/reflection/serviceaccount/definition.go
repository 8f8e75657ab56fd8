// Package serviceaccount is Pod flow, stage 5: the definition with which the reflection engine
// sends the tokens of service accounts that remote pods need to reach the API server of the
// consumer.
//
// The tokens of a pod are in one Secret of the remote namespace. They are bound to the local
// pod, so that they are void when it is gone, and requested again before they expire. No
// policy sees them, and the cache does not keep them.
package serviceaccount

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

const (
	// offloadingTime is how long tokens wait for their pod, which is longer than the label of an offloaded pod takes.
	offloadingTime = 5 * time.Minute
	// nodeNameField selects the pods of one Node.
	nodeNameField = "spec.nodeName"
)

// Options configure the definition.
type Options struct {
	// Origin identifies the consumer, the provider and the virtual node, and has the address
	// of the API server.
	Origin remote.Origin
	// APIServer returns the address of the consumer's API server for remote pods, the zero value if
	// they do not reach it, or an error while the address is not known: tokens stay as they are.
	// nil for that of Origin. After a change the caller calls PoliciesChanged of the engine.
	APIServer func() (remote.APIServer, error)
	// CreateToken requests a token of a service account of the consumer.
	CreateToken func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
	// Workers is the number of pods handled at once (--serviceaccount-reflection-workers).
	Workers int
}

// Definition sends tokens.
type Definition struct{ options Options }

var (
	_ engine.Definition = (*Definition)(nil)
	_ engine.Remapper   = (*Definition)(nil)
)

// New returns the definition.
func New(options Options) *Definition { return &Definition{options: options} }

// Resource implements engine.Definition. The local pods are those of the informer that the
// pods' own definition uses.
func (d *Definition) Resource() engine.Resource {
	return engine.Resource{
		Name: "serviceaccount",
		Local: engine.Kind{
			New:     func() client.Object { return &corev1.Pod{} },
			NewList: func() client.ObjectList { return &corev1.PodList{} },
			Encoded: true,
		},
		Remote: engine.Kind{
			New:     func() client.Object { return &corev1.Secret{} },
			NewList: func() client.ObjectList { return &corev1.SecretList{} },
			Trim:    trimSecret, Encoded: true,
		},
		LocalFields: fields.OneTermEqualSelector(nodeNameField, d.options.Origin.NodeName),
		LocalFieldsOf: func(object client.Object) fields.Set {
			pod, ok := object.(*corev1.Pod)
			if !ok {
				return nil
			}
			return fields.Set{nodeNameField: pod.Spec.NodeName}
		},
		RemoteLabels: labels.Set{offloadingv1beta1.NodeNameLabel: d.options.Origin.NodeName},
		Policy:       offloadingv1beta1.CustomLiqo,
		Workers:      max(d.options.Workers, 1),
	}
}

// trimSecret keeps the keys of a Secret and removes the tokens.
func trimSecret(object client.Object) {
	if secret, ok := object.(*corev1.Secret); ok {
		for key := range secret.Data {
			secret.Data[key] = nil
		}
	}
}

// ToRemote implements engine.Remapper.
func (d *Definition) ToRemote(pod string) string { return remote.TokenSecretName(pod) }

// ToLocal implements engine.Remapper.
func (d *Definition) ToLocal(secret string, object func() metav1.Object) string {
	return remote.TokenSecretPod(secret, object)
}

// Decide implements engine.Definition.
func (d *Definition) Decide(in engine.Input) ([]engine.Action, error) {
	pod, _ := in.Local.(*corev1.Pod)
	secret, hasSecret := in.Remote.(*corev1.Secret)
	switch {
	case hasSecret && !engine.Owned(secret, in.Facts):
		if pod == nil {
			return keep("the remote Secret is not managed by reflection"), nil
		}
		return []engine.Action{engine.NameConflict(in.Facts, "Secret", secret.Name)}, nil
	case hasSecret && secret.DeletionTimestamp != nil:
		return []engine.Action{engine.Hold{Reason: "the remote Secret is being deleted"}}, nil
	case pod == nil || podend.IsTerminal(pod.Status.Phase):
		return withdraw(hasSecret, "the pod needs no token"), nil
	case !in.Facts.IsSent():
		return keep("the namespace is no longer offloaded, or being deleted"), nil
	}
	tokens, account, err := d.find(pod)
	if err != nil {
		return keep(err.Error()), nil // A change of the address decides again.
	}
	switch {
	case len(tokens) == 0:
		return withdraw(hasSecret, "the pod needs no token"), nil
	case hasSecret && secret.Annotations[remote.TokenPodUIDKey] != string(pod.UID):
		// The event of the deletion brings the tokens of this pod.
		return []engine.Action{engine.DeleteRemote{}, engine.Hold{Reason: "the tokens are of an earlier pod of the name"}}, nil
	case !in.IsAwaited && pod.Labels[offloadingv1beta1.LocalPodLabel] != "true":
		return waitForPod(in.Facts.Now, secret), nil
	}
	return d.refresh(in, &access{pod, account, tokens}, secret), nil
}

// waitForPod decides about a pod that is not offloaded yet. No token leaves for one that policies keep here: the
// definition of pods awaits the tokens before it sends the pod. Those of a pod that the provider refuses go after a
// while. The virtual kubelet sets the label itself, and its own writes are not events.
func waitForPod(now time.Time, secret *corev1.Secret) []engine.Action {
	if secret == nil {
		return []engine.Action{engine.Requeue{After: offloadingTime, Reason: "the pod is not offloaded yet"}}
	}
	issued, _ := time.Parse(time.RFC3339, secret.Annotations[remote.TokenIssuedKey])
	if left := issued.Add(offloadingTime).Sub(now); left > 0 {
		return []engine.Action{engine.Requeue{After: min(left, offloadingTime), Reason: "the pod is being offloaded"}}
	}
	return []engine.Action{engine.DeleteRemote{}}
}

// find returns the tokens that the remote pod of a pod gets, and their service account. It
// returns an error while the address of the API server is not known.
func (d *Definition) find(pod *corev1.Pod) (tokens []remote.PodToken, account string, err error) {
	origin := d.options.Origin
	if d.options.APIServer != nil {
		if origin, err = origin.ForPod(pod, d.options.APIServer); err != nil {
			return nil, "", err
		}
	}
	tokens, account = remote.PodTokens(pod, origin)
	return tokens, account, nil
}

// forgeRequest returns the request of a token that is bound to a pod.
func forgeRequest(pod *corev1.Pod, token remote.PodToken) *authenticationv1.TokenRequest {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &token.Seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if token.Audience != "" {
		request.Spec.Audiences = []string{token.Audience}
	}
	return request
}

func withdraw(hasSecret bool, reason string) []engine.Action {
	if hasSecret {
		return []engine.Action{engine.DeleteRemote{}}
	}
	return keep(reason)
}

func keep(reason string) []engine.Action { return []engine.Action{engine.Keep{Reason: reason}} }
