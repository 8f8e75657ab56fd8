package authentication

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"time"
)

const (
	// renewalShare is the part of a certificate's lifetime that is left when it is renewed at
	// the latest: one third.
	renewalShare = 3
	// renewalSpread is the part of the lifetime before that, one tenth, over which renewals are
	// spread: many certificates are issued together, when a cluster is restored for example.
	renewalSpread = 10
)

// RenewAt returns when a certificate is due for renewal. It is the same for the same
// certificate.
func RenewAt(certificate *x509.Certificate) time.Time {
	lifetime := certificate.NotAfter.Sub(certificate.NotBefore)
	sum := sha256.Sum256(certificate.Raw)
	early := binary.BigEndian.Uint64(sum[:]) % uint64(max(lifetime/renewalSpread, 1))
	return certificate.NotAfter.Add(-lifetime/renewalShare - time.Duration(early))
}
