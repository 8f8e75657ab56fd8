package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// file names the kubeconfig in messages.
func (f *Flags) file() string {
	if f.Kubeconfig == "" {
		return "the kubeconfig"
	}
	return "the kubeconfig " + f.Kubeconfig
}

// checkContext returns an error unless the context exists, with its cluster and its user. A
// context that a flag names is an error of the command line.
func (f *Flags) checkContext(raw *clientcmdapi.Config) error {
	name := raw.CurrentContext
	if f.Context != "" {
		name = f.Context
	}
	if err := f.checkParts(raw); err != nil {
		return err
	}
	current := raw.Contexts[name]
	if current != nil {
		return f.checkPartsOf(name, current, raw)
	}
	switch {
	case f.Context == "" && f.Cluster != "":
		return nil // The cluster and the user are named.
	case f.Context != "":
		return output.Usagef("context %q does not exist in %s", name, f.file())
	case name != "":
		return fmt.Errorf("the current context %q does not exist in %s: set --%scontext", name, f.file(), f.prefix)
	case len(raw.Contexts) > 0:
		return fmt.Errorf("%s has no current context: set --%scontext", f.file(), f.prefix)
	default:
		return nil // An empty file, which is reported as such, or a pod's own cluster.
	}
}

// checkParts returns an error unless the cluster and the user that flags name exist.
func (f *Flags) checkParts(raw *clientcmdapi.Config) error {
	switch {
	case f.Cluster != "" && raw.Clusters[f.Cluster] == nil:
		return output.Usagef("cluster %q does not exist in %s", f.Cluster, f.file())
	case f.User != "" && raw.AuthInfos[f.User] == nil:
		return output.Usagef("user %q does not exist in %s", f.User, f.file())
	default:
		return nil
	}
}

// checkPartsOf returns an error unless the cluster and the user of a context exist, or flags name others.
func (f *Flags) checkPartsOf(name string, current *clientcmdapi.Context, raw *clientcmdapi.Config) error {
	switch {
	case f.Cluster == "" && raw.Clusters[current.Cluster] == nil:
		return fmt.Errorf("%s has no cluster %q, which context %q names", f.file(), current.Cluster, name)
	case f.User == "" && current.AuthInfo != "" && raw.AuthInfos[current.AuthInfo] == nil:
		return fmt.Errorf("%s has no user %q, which context %q names", f.file(), current.AuthInfo, name)
	default:
		return nil
	}
}

// checkCredentials returns an error for credentials that no server can accept: a plugin that is not
// installed, or a client certificate that has expired.
func checkCredentials(config *rest.Config, now time.Time) error {
	if plugin := config.ExecProvider; plugin != nil {
		if _, err := exec.LookPath(plugin.Command); err != nil {
			return fmt.Errorf("the credential plugin %q is not installed: %w", plugin.Command, err)
		}
	}
	data := config.CertData
	if len(data) == 0 && config.CertFile != "" {
		// The loader has found that the file can be read.
		data, _ = os.ReadFile(config.CertFile)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("the client certificate is invalid: %w", err)
	}
	if now.After(certificate.NotAfter) {
		return fmt.Errorf("the client certificate expired at %s: renew it", certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
