// Package authentication is the pure part of a peering's handshake: keys,
// signatures over nonces, certificate requests, and the objects that carry them. The
// controllers of both sides and longshorectl are built on it. Only [ReadTenantNamespace] reads.
//
// The provider makes a nonce, the consumer signs it and asks for a certificate in a Tenant,
// the provider verifies both, has the certificate signed and returns it in the Tenant's
// status, and the consumer keeps it in an Identity, from which its kubeconfig Secret is
// made:
//
//	provider  Secret liqo-nonce          host/provider/tenant
//	consumer  Secret liqo-signed-nonce   host/consumer/identity
//	provider  Tenant                     host/provider/tenant
//	consumer  Identity, kubeconfig       host/consumer/identity
package authentication
