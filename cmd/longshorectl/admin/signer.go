package admin

import (
	"fmt"
	"strings"

	"k8s.io/client-go/discovery"
)

// CheckSigner fails if it is known in advance that a provider issues no credentials: they are client certificates,
// which not each API server has signed. Of a cluster whose version cannot be read, nothing is known.
func (c *Cluster) CheckSigner() error {
	if c.config == nil {
		return nil
	}
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return fmt.Errorf("connecting to the %s: %w", c.Role, err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		return nil //nolint:nilerr // The next request says what is wrong.
	}
	return c.checkVersion(version.GitVersion)
}

// checkVersion fails for the version of an API server that has no client certificates signed.
func (c *Cluster) checkVersion(version string) error {
	if !strings.Contains(version, "-eks-") {
		return nil
	}
	return fmt.Errorf("the %s at %s is an EKS cluster (%s), which cannot be a provider: EKS signs no client certificates, with which consumers log in. "+
		"It can be a consumer: use another cluster as the provider", c.Role, c.Host, version)
}
