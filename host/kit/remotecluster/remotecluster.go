// Package remotecluster turns a kubeconfig Secret into a client configuration, or into
// a sentence that says what is wrong with the Secret.
package remotecluster

import (
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// KubeconfigKey is the Secret's key that holds the kubeconfig (peering 2.7).
const KubeconfigKey = "kubeconfig"

// awsKeys make a Secret one of an EKS identity when all are present (peering 2.7).
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
	context, ok := kubeconfig.Contexts[kubeconfig.CurrentContext]
	if !ok {
		return nil, fmt.Errorf("kubeconfig Secret %s: current-context %q is not among its contexts", name, kubeconfig.CurrentContext)
	}
	cluster, ok := kubeconfig.Clusters[context.Cluster]
	if !ok || cluster.Server == "" {
		return nil, fmt.Errorf("kubeconfig Secret %s: cluster %q of context %q has no server", name, context.Cluster, kubeconfig.CurrentContext)
	}
	user, ok := kubeconfig.AuthInfos[context.AuthInfo]
	if !ok {
		return nil, fmt.Errorf("kubeconfig Secret %s: user %q of context %q is missing", name, context.AuthInfo, kubeconfig.CurrentContext)
	}
	if user.Exec != nil || user.AuthProvider != nil {
		return nil, fmt.Errorf("kubeconfig Secret %s: user %q wants to run a program: give a certificate or a token instead", name, context.AuthInfo)
	}
	if cluster.CertificateAuthority != "" || user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "" {
		return nil, fmt.Errorf("kubeconfig Secret %s names files: embed them as …-data instead", name)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*kubeconfig, kubeconfig.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig Secret %s: %w", name, err)
	}
	if len(config.CertData) > 0 {
		if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
			return nil, fmt.Errorf("kubeconfig Secret %s: the client certificate of user %q is broken: %w", name, context.AuthInfo, err)
		}
	}
	return config, nil
}

// Expired says when the client certificate ended, if it did before now.
func Expired(config *rest.Config, now time.Time) (time.Time, bool) {
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil || pair.Leaf == nil || !now.After(pair.Leaf.NotAfter) {
		return time.Time{}, false
	}
	return pair.Leaf.NotAfter, true
}
