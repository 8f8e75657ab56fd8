package authentication

import (
	"crypto/x509"
	"time"
)

// renewalShare is the part of a certificate's lifetime that is left when it is renewed:
// one third (wire P2.8).
const renewalShare = 3

// RenewAt returns when a certificate is due for renewal.
func RenewAt(certificate *x509.Certificate) time.Time {
	lifetime := certificate.NotAfter.Sub(certificate.NotBefore)
	return certificate.NotAfter.Add(-lifetime / renewalShare)
}
