package main

import (
	"crypto/x509"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func TestTheCommonRootsAreThoseOfTheBundle(t *testing.T) {
	want, now := x509.NewCertPool(), commonRoots()
	all, verified, refused := 0, 0, 0
	for root := range bundle.Roots() {
		all++
		certificate, err := x509.ParseCertificate(root.Certificate)
		require.NoError(t, err)
		want.AddCert(certificate)
		// A root is its own chain, unless its constraint refuses it.
		_, err = certificate.Verify(x509.VerifyOptions{Roots: now, CurrentTime: certificate.NotAfter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		if root.Constraint != nil && root.Constraint([]*x509.Certificate{certificate}) != nil {
			refused++
			assert.Error(t, err, certificate.Subject)
			continue
		}
		verified++
		require.NoError(t, err, certificate.Subject)
	}
	assert.Greater(t, all, 100)
	assert.True(t, want.Equal(now), "%d roots, of which %d verify and %d are refused", all, verified, refused)
}
