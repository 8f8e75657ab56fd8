package main

import (
	"crypto/x509"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// commonRoots returns the certificate authorities that every system trusts, as package
// x509roots/fallback does. Those without a constraint are kept encoded until a certificate is
// verified with them, which saves more than a mebibyte: few processes ever need one.
func commonRoots() *x509.CertPool {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
			continue
		}
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			continue // a test compares the pool with the bundle
		}
		pool.AddCertWithConstraint(certificate, root.Constraint)
	}
	return pool
}
