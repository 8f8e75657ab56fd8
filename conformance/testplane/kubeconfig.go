package testplane

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// AdminUser is the user of the cluster's kubeconfig; its group is system:masters.
const AdminUser = "admin"

const (
	adminFile     = "admin"
	managerFile   = "kube-controller-manager"
	schedulerFile = "kube-scheduler"
	kwokFile      = "kwok"
)

// Kubeconfig is the path of the administrator's kubeconfig. It holds its certificates
// inside, so it can be copied.
func (c *Cluster) Kubeconfig() string { return c.pki(adminFile + ".kubeconfig") }

// CAFile is the path of the certificate authority of the API server and of all client
// certificates.
func (c *Cluster) CAFile() string { return c.pki("ca.crt") }

// CAPEM is the content of CAFile.
func (c *Cluster) CAPEM() []byte { return append([]byte(nil), c.ca.pem...) }

// FrontProxyCAFile is the path of the authority behind aggregated API servers.
func (c *Cluster) FrontProxyCAFile() string { return c.pki("front-proxy-ca.crt") }

// ServiceAccountKeyFile is the path of the key that signs service account tokens.
func (c *Cluster) ServiceAccountKeyFile() string { return c.pki("service-account.key") }

// Server is the URL of the API server.
func (c *Cluster) Server() string { return "https://" + c.Endpoint() }

// RESTConfig returns a new client configuration of the administrator. Its rate limit is
// far above what two cores serve: tests measure the system, not their own client.
func (c *Cluster) RESTConfig() *rest.Config {
	config := rest.CopyConfig(c.rest)
	config.QPS, config.Burst = 2000, 4000
	return config
}

// IssueClientCert signs a client certificate for the user cn in the groups orgs, as
// hand-made peering needs it.
func (c *Cluster) IssueClientCert(cn string, orgs []string) (certPEM, keyPEM []byte, err error) {
	return c.ca.issue(subject{name: cn, groups: orgs})
}

// IssueServingCert signs a certificate for a server at the given IP addresses and host
// names (a webhook, a virtual kubelet), by the authority in CAFile.
func (c *Cluster) IssueServingCert(cn string, orgs []string, hosts ...string) (certPEM, keyPEM []byte, err error) {
	s := subject{name: cn, groups: orgs, server: true}
	s.ips, s.hosts = splitHosts(hosts)
	return c.ca.issue(s)
}

// KubeconfigFor returns a kubeconfig with everything inside for a user with this
// certificate; server "" is the API server itself, another one for example a fault
// proxy in front of it.
func (c *Cluster) KubeconfigFor(server string, certPEM, keyPEM []byte) ([]byte, error) {
	if server == "" {
		server = c.Server()
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.CAPEM()}
	config.AuthInfos[c.Name] = &clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}
	config.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name}
	config.CurrentContext = c.Name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return content, nil
}

func (c *Cluster) writeUserKubeconfig(file string, user subject) error {
	cert, key, err := c.ca.issue(user)
	if err != nil {
		return err
	}
	content, err := c.KubeconfigFor("", cert, key)
	if err != nil {
		return err
	}
	if file == adminFile {
		if c.rest, err = clientcmd.RESTConfigFromKubeConfig(content); err != nil {
			return fmt.Errorf("reading the administrator's kubeconfig: %w", err)
		}
	}
	return writePrivate(c.pki(file+".kubeconfig"), content)
}
