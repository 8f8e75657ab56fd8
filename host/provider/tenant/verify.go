package tenant

import (
	"crypto"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// refusal is why a Tenant has no credentials: a reason of its condition Ready, and a message
// for the administrators.
type refusal struct {
	reason, message string
}

// Reasons of the condition Ready.
const (
	reasonReady            = "HandshakeComplete"
	reasonTolerated        = "HandshakeNotRequired"
	reasonNoNonce          = "NonceMissing"
	reasonInvalidKey       = "InvalidPublicKey"
	reasonInvalidSignature = "InvalidSignature"
	reasonInvalidRequest   = "InvalidCertificateRequest"
	reasonPending          = "CertificatePending"
	reasonRefused          = "CertificateRefused"
	reasonNoAddress        = "APIServerAddressUnknown"
	reasonDrained          = "Drained"
	reasonIDInUse          = "ClusterIDInUse"
)

// toleratesNoHandshake reports whether an administrator waives the handshake.
func toleratesNoHandshake(tenant *authv1beta1.Tenant) bool {
	return ptr.Deref(tenant.Spec.AuthzPolicy, authv1beta1.KeysExchange) == authv1beta1.TolerateNoHandshake
}

// verify checks a Tenant's handshake against the nonce that was made for its cluster.
// It is pure; nil means that the consumer has the key that it claims.
func verify(tenant *authv1beta1.Tenant, nonce *corev1.Secret) *refusal {
	if nonce == nil || len(nonce.Data[authentication.NonceKey]) == 0 {
		return &refusal{reasonNoNonce, fmt.Sprintf("Secret %s of the tenant namespace has no nonce for cluster %s. "+
			"Run longshorectl peer or longshorectl create nonce.", authentication.NonceSecretName, tenant.Spec.ClusterID)}
	}
	key, err := authentication.ParsePublicKey(tenant.Spec.PublicKey)
	if err != nil {
		return &refusal{reasonInvalidKey, fmt.Sprintf("The public key in spec.publicKey is not usable: %s.", err)}
	}
	return verifyKey(tenant, key, nonce.Data[authentication.NonceKey])
}

func verifyKey(tenant *authv1beta1.Tenant, key crypto.PublicKey, nonce []byte) *refusal {
	if err := authentication.Verify(key, nonce, tenant.Spec.Signature); err != nil {
		return &refusal{reasonInvalidSignature, fmt.Sprintf("The signature in spec.signature is refused: %s. "+
			"The consumer must sign the nonce of this tenant namespace.", err)}
	}
	if err := authentication.CheckCSR(tenant.Spec.CSR, authentication.ControlPlaneSubject(tenant.Spec.ClusterID), key); err != nil {
		return &refusal{reasonInvalidRequest, fmt.Sprintf("The certificate request in spec.csr is refused: %s.", err)}
	}
	return nil
}
