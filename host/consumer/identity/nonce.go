package identity

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const (
	// minNonceBytes and maxNonceBytes bound what is signed: 64 bytes is what providers make.
	// Shorter or other texts could be messages of another protocol (S7).
	minNonceBytes = 32
	maxNonceBytes = 128

	reasonNotSigned = "NonceNotSigned"
	actionSign      = "Sign"
)

// NonceSigner signs the nonces of providers.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
type NonceSigner struct {
	// Client reads Secrets of tenant namespaces from the cache (package tenantsecrets).
	Client client.Client
	// Events records on the Secrets.
	Events events.EventRecorder
	Keys   *Keys
}

// SetupWithManager registers the watch on the Secrets.
func (s *NonceSigner) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nonce-signer").
		For(&corev1.Secret{}, builder.WithPredicates(predicate.NewPredicateFuncs(isSignedNonce))).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), s))
}

func isSignedNonce(object client.Object) bool {
	_, ok := object.GetLabels()[authentication.SignedNonceLabel]
	return ok
}

// Reconcile signs the nonce in a Secret of a provider's tenant namespace. A valid signature
// stays as it is, since those of ECDSA differ each time.
func (s *NonceSigner) Reconcile(ctx context.Context, secret *corev1.Secret) (ctrl.Result, error) {
	if !isSignedNonce(secret) || !secret.DeletionTimestamp.IsZero() || len(secret.Data[authentication.NonceKey]) == 0 {
		return ctrl.Result{}, nil
	}
	provider := liqocorev1beta1.ClusterID(secret.Labels[liqocorev1beta1.RemoteClusterIDLabel])
	_, problem, err := authentication.ReadTenantNamespace(ctx, s.Client, secret.Namespace, provider)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem == "" {
		problem = nonceProblem(secret.Data[authentication.NonceKey])
	}
	if problem != "" {
		s.Events.Eventf(secret, nil, corev1.EventTypeWarning, reasonNotSigned, actionSign, "The nonce is not signed: %s", problem)
		return ctrl.Result{}, nil
	}
	key, _, err := s.Keys.Get(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	nonce := bytes.Clone(secret.Data[authentication.NonceKey])
	if authentication.Verify(key.Public(), nonce, secret.Data[authentication.SignedNonceKey]) == nil {
		return ctrl.Result{}, nil
	}
	signature, err := authentication.Sign(key, nonce)
	if err != nil {
		return ctrl.Result{}, err
	}
	signed := secret.DeepCopy()
	signed.Data[authentication.SignedNonceKey] = signature
	if err := s.Client.Update(ctx, signed); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the signature for cluster %q: %w", provider, err)
	}
	return ctrl.Result{}, nil
}

// nonceProblem returns why a text is not a provider's nonce, or "".
func nonceProblem(nonce []byte) string {
	decoded, err := base64.StdEncoding.DecodeString(string(nonce))
	if err != nil || len(decoded) < minNonceBytes || len(decoded) > maxNonceBytes {
		return fmt.Sprintf("The text is not a nonce, which is base64 of %d to %d bytes. Copy it from the provider.", minNonceBytes, maxNonceBytes)
	}
	return ""
}
