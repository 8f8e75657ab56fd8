// Package remotecluster turns a kubeconfig Secret into a client configuration, or into
// a sentence that says what is wrong with the Secret.
package remotecluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// KubeconfigKey is the Secret's key that holds the kubeconfig (wire P2.7).
const KubeconfigKey = "kubeconfig"

// awsKeys make a Secret one of an EKS identity when all are present (wire P2.7).
var awsKeys = []string{"awsAccessKeyID", "awsSecretAccessKey", "awsRegion", "awsEksClusterID", "awsIamUserArn"}

// Config reads the client configuration of a provider. The error is written for the
// person who made the Secret: it names the Secret, the key and what to do. Files named
// in the kubeconfig are refused: the Secret must carry all it needs, and a kubeconfig
// of another cluster must not read files or run programs here.
func Config(secret *corev1.Secret) (*rest.Config, error) {
	name := secret.Namespace + "/" + secret.Name
	if !slices.ContainsFunc(awsKeys, func(key string) bool { return len(secret.Data[key]) == 0 }) {
		return nil, fmt.Errorf("kubeconfig Secret %s is of an EKS identity (%s …): these are not supported", name, awsKeys[0])
	}
	content := secret.Data[KubeconfigKey]
	if len(content) == 0 {
		return nil, fmt.Errorf("kubeconfig Secret %s has no key %q", name, KubeconfigKey)
	}
	kubeconfig, err := clientcmd.Load(content)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig Secret %s: key %q is no kubeconfig: %w", name, KubeconfigKey, err)
	}
	if err := check(kubeconfig); err != nil {
		return nil, fmt.Errorf("kubeconfig Secret %s: %w", name, err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*kubeconfig, kubeconfig.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig Secret %s: %w", name, err)
	}
	if len(config.CertData) > 0 {
		if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
			return nil, fmt.Errorf("kubeconfig Secret %s: the client certificate of its user is broken: %w", name, err)
		}
	}
	return config, nil
}

// check says what keeps a kubeconfig from being used here.
func check(kubeconfig *clientcmdapi.Config) error {
	context, ok := kubeconfig.Contexts[kubeconfig.CurrentContext]
	if !ok {
		return fmt.Errorf("current-context %q is not among its contexts", kubeconfig.CurrentContext)
	}
	cluster, ok := kubeconfig.Clusters[context.Cluster]
	if !ok || cluster.Server == "" {
		return fmt.Errorf("cluster %q of context %q has no server", context.Cluster, kubeconfig.CurrentContext)
	}
	user, ok := kubeconfig.AuthInfos[context.AuthInfo]
	if !ok {
		return fmt.Errorf("user %q of context %q is missing", context.AuthInfo, kubeconfig.CurrentContext)
	}
	if user.Exec != nil || user.AuthProvider != nil {
		return fmt.Errorf("user %q wants to run a program: give a certificate or a token instead", context.AuthInfo)
	}
	if cluster.CertificateAuthority != "" || user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "" {
		return errors.New("it names files: embed them as …-data instead")
	}
	return nil
}

// Expired says when the client certificate ended, if it did before now.
func Expired(config *rest.Config, now time.Time) (time.Time, bool) {
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil || pair.Leaf == nil || !now.After(pair.Leaf.NotAfter) {
		return time.Time{}, false
	}
	return pair.Leaf.NotAfter, true
}
