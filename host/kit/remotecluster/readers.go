package remotecluster

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// SameRights reports whether two configurations lead to the same server, in the same way, as users
// with the same rights there: the same user, or users of the same organization. A provider gives the
// virtual kubelets of a consumer their rights in remote namespaces by the organization of their
// certificates, one user for each ResourceSlice (T70).
func SameRights(a, b *rest.Config) bool {
	return SameConnection(a, b) || SameConnection(withoutCertificate(a), withoutCertificate(b)) && sameOrganization(a, b)
}

func withoutCertificate(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.CertData, c.KeyData = nil, nil
	return c
}

func sameOrganization(a, b *rest.Config) bool {
	first, second := certificateOf(a), certificateOf(b)
	return first != nil && second != nil && len(first.Subject.Organization) > 0 &&
		slices.Equal(first.Subject.Organization, second.Subject.Organization)
}

// certificateOf returns the client certificate of a configuration, nil if it has none.
func certificateOf(c *rest.Config) *x509.Certificate {
	block, _ := pem.Decode(c.CertData)
	if block == nil {
		return nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return certificate
}

var errNoReader = errors.New("no virtual node uses this connection any more")

// Readers are users of a server with the same rights, whose reads are shared. They are an
// http.RoundTripper, which sends a request as the user whose certificate expires last: the shared
// reads go on when a user leaves, and when its certificate is not renewed. It is safe for concurrent
// use.
type Readers struct {
	mu  sync.Mutex
	all []*reader
}

type reader struct {
	http.RoundTripper

	expires time.Time // the zero time without a certificate
}

// Add adds the user of a configuration, until remove is called.
func (r *Readers) Add(config *rest.Config) (remove func(), err error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("composing the connection to the provider: %w", err)
	}
	added := &reader{RoundTripper: transport}
	if certificate := certificateOf(config); certificate != nil {
		added.expires = certificate.NotAfter
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, added)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = slices.DeleteFunc(r.all, func(other *reader) bool { return other == added })
	}, nil
}

// Config returns a configuration like that of a user, which sends its requests through the Readers.
func (r *Readers) Config(user *rest.Config) (*rest.Config, error) {
	server, _, err := rest.DefaultServerUrlFor(user)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the provider: %w", err)
	}
	config := rest.AnonymousClientConfig(user)
	config.Host, config.TLSClientConfig, config.Proxy, config.Transport = server.String(), rest.TLSClientConfig{}, nil, r
	return config, nil
}

// RoundTrip implements http.RoundTripper.
func (r *Readers) RoundTrip(request *http.Request) (*http.Response, error) {
	chosen := r.choose()
	if chosen == nil {
		return nil, errNoReader
	}
	return chosen.RoundTrip(request) //nolint:wrapcheck // an http.RoundTripper returns the error of the next
}

func (r *Readers) choose() *reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return nil
	}
	return slices.MaxFunc(r.all, func(a, b *reader) int { return a.expires.Compare(b.expires) })
}
