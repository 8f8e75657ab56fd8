// Package identity keeps a consumer's credentials for its providers: the cluster's key pair,
// signatures over providers' nonces, and the kubeconfig Secrets of Identities, which it renews.
package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const (
	reasonKubeconfigEnsured    = "KubeconfigEnsured"
	reasonNotInTenantNamespace = "NotInTenantNamespace"
	reasonKeyReplaced          = "KeyReplaced"
	actionEnsureKubeconfig     = "EnsureKubeconfig"
)

// Reconciler makes the kubeconfig Secret of each Identity, and the Renew of those of a control
// plane.
//
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities/status,verbs=patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities/finalizers,verbs=update
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=renews,verbs=get;list;watch;create;update
type Reconciler struct {
	// Client reads Secrets of tenant namespaces from the cache (package tenantsecrets).
	Client client.Client
	// Events records on Identities.
	Events events.EventRecorder
	Keys   *Keys
	// ClusterID is the own cluster's identity.
	ClusterID liqocorev1beta1.ClusterID
}

// SetupWithManager registers watches on Identities, and on the Secrets and Renews that they own.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(r.Keys); err != nil {
		return fmt.Errorf("registering the cluster's key pair: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).Named("identity").
		For(&authv1beta1.Identity{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.Secret{}).
		Owns(&authv1beta1.Renew{}).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// Reconcile brings what belongs to one Identity in line with it.
func (r *Reconciler) Reconcile(ctx context.Context, identity *authv1beta1.Identity) (ctrl.Result, error) {
	if !identity.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // The garbage collector removes what it owns.
	}
	_, problem, err := authentication.ReadTenantNamespace(ctx, r.Client, identity.Namespace, identity.Spec.ClusterID)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != "" {
		r.Events.Eventf(identity, nil, corev1.EventTypeWarning, reasonNotInTenantNamespace, actionEnsureKubeconfig, "No kubeconfig is made: %s", problem)
		return ctrl.Result{}, nil
	}
	if identity.Spec.Type == authv1beta1.ControlPlaneIdentityType {
		if renewed, err := r.renew(ctx, identity); renewed || err != nil {
			return ctrl.Result{}, err // The update enqueues the Identity.
		}
	}
	return ctrl.Result{}, r.ensureSecret(ctx, identity)
}

// renew keeps the Renew of a control plane's Identity, and takes fresh credentials from its
// status. It reports whether it updated the Identity.
func (r *Reconciler) renew(ctx context.Context, identity *authv1beta1.Identity) (bool, error) {
	want := authentication.Renew(identity, r.ClusterID)
	renew := &authv1beta1.Renew{}
	renew.Name, renew.Namespace = want.Name, want.Namespace
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, renew, func() error {
		if renew.Labels == nil {
			renew.Labels = map[string]string{}
		}
		maps.Copy(renew.Labels, want.Labels)
		renew.Spec = want.Spec
		return controllerutil.SetControllerReference(identity, renew, r.Client.Scheme())
	})
	if err != nil {
		return false, fmt.Errorf("writing Renew %q: %w", want.Name, err)
	}
	return r.take(ctx, identity, renew.Status.AuthParams)
}

// take takes the credentials of a Renew into the Identity, unless the Identity has had them before:
// then an administrator has replaced them since, and the provider has not written newer ones. It reports
// whether it changed the Identity's spec.
func (r *Reconciler) take(ctx context.Context, identity *authv1beta1.Identity, fresh *authv1beta1.AuthParams) (bool, error) {
	if fresh == nil || len(fresh.SignedCRT) == 0 {
		return false, nil
	}
	applied, err := hashOf(fresh)
	if err != nil || identity.Annotations[authv1beta1.AppliedRenewAnnotation] == applied {
		return false, err
	}
	// A Renew that is older than the Identity's own credentials must not bring back the
	// previous certificate.
	if !isNewer(fresh.SignedCRT, identity.Spec.AuthParams.SignedCRT) {
		return false, nil
	}
	updated := identity.DeepCopy()
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, authv1beta1.AppliedRenewAnnotation, applied)
	updated.Spec.AuthParams = *fresh
	changed := !equality.Semantic.DeepEqual(identity.Spec, updated.Spec)
	if err := r.Client.Update(ctx, updated); err != nil {
		return false, fmt.Errorf("updating the credentials of Identity %q: %w", identity.Name, err)
	}
	*identity = *updated
	return changed, nil
}

// hashOf identifies credentials.
func hashOf(params *authv1beta1.AuthParams) (string, error) {
	encoded, err := json.Marshal(params)
	if err != nil {
		return "", fmt.Errorf("encoding credentials: %w", err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}

// isNewer reports whether a certificate ends after another one. One that is not usable is older
// than any.
func isNewer(certificate, other []byte) bool {
	if bytes.Equal(certificate, other) {
		return true // Only the address or the authority changed.
	}
	candidate, err := authentication.ParseCertificate(certificate)
	if err != nil {
		return false
	}
	current, err := authentication.ParseCertificate(other)
	return err != nil || candidate.NotAfter.After(current.NotAfter)
}

// privateKey returns the PEM private key of an Identity's certificate, or nil. It is the cluster's
// key; after that was replaced, the earlier key stays in the kubeconfig until the provider has
// issued a certificate for the new one, since a certificate is of no use with another key. An
// Identity without a certificate gets the cluster's key.
func (r *Reconciler) privateKey(ctx context.Context, identity *authv1beta1.Identity) ([]byte, error) {
	key, private, err := r.Keys.Get(ctx)
	if err != nil {
		return nil, err
	}
	certificate := identity.Spec.AuthParams.SignedCRT
	if len(certificate) == 0 || authentication.IsKeyOf(key.Public(), certificate) {
		return private, nil
	}
	secret := &corev1.Secret{}
	name := client.ObjectKey{Namespace: identity.Namespace, Name: authentication.KubeconfigSecretName(identity.Name)}
	if err := r.Client.Get(ctx, name, secret); err != nil {
		return nil, client.IgnoreNotFound(err) //nolint:wrapcheck // Reading from the cache.
	}
	earlier := authentication.KubeconfigKey(secret)
	if parsed, err := authentication.ParseKey(earlier); err != nil || !authentication.IsKeyOf(parsed.Public(), certificate) {
		return nil, nil
	}
	return earlier, nil
}

// ensureSecret writes the kubeconfig Secret and names it in the status.
func (r *Reconciler) ensureSecret(ctx context.Context, identity *authv1beta1.Identity) error {
	private, err := r.privateKey(ctx, identity)
	if err != nil {
		return err
	}
	if private == nil {
		r.Events.Eventf(identity, nil, corev1.EventTypeWarning, reasonKeyReplaced, actionEnsureKubeconfig,
			"No kubeconfig is made: the certificate is not for the key in Secret %s/%s. Run longshorectl authenticate to get one for this key.",
			r.Keys.Namespace, authentication.KeysSecretName)
		return nil
	}
	want, err := authentication.KubeconfigSecret(identity, private)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{}
	secret.Name, secret.Namespace = want.Name, want.Namespace
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error {
		if owner := secret.OwnerReferences; secret.ResourceVersion != "" && len(owner) == 0 {
			return fmt.Errorf("kubeconfig Secret %s/%s exists and is not managed by an Identity: delete one of the two", secret.Namespace, secret.Name)
		}
		for _, pair := range []struct{ have, want *map[string]string }{{&secret.Labels, &want.Labels}, {&secret.Annotations, &want.Annotations}} {
			if *pair.have == nil {
				*pair.have = map[string]string{}
			}
			maps.Copy(*pair.have, *pair.want)
		}
		secret.Data = want.Data
		return controllerutil.SetControllerReference(identity, secret, r.Client.Scheme())
	})
	if err != nil {
		return fmt.Errorf("writing kubeconfig Secret %q: %w", want.Name, err)
	}
	if result != controllerutil.OperationResultNone {
		r.Events.Eventf(identity, secret, corev1.EventTypeNormal, reasonKubeconfigEnsured, actionEnsureKubeconfig, "Secret %s has the kubeconfig.", secret.Name)
	}
	if ref := identity.Status.KubeconfigSecretRef; ref != nil && ref.Name == secret.Name {
		return nil
	}
	before := identity.DeepCopy()
	identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: secret.Name}
	if err := r.Client.Status().Patch(ctx, identity, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("patching the status of Identity %q: %w", identity.Name, err)
	}
	return nil
}
