// Package remotecluster reads client configurations from kubeconfig Secrets.
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

// KubeconfigKey is the key of the kubeconfig in a Secret.
const KubeconfigKey = "kubeconfig"

// awsKeys are the keys of a Secret with an EKS identity, which has all of them.
var awsKeys = []string{"awsAccessKeyID", "awsSecretAccessKey", "awsRegion", "awsEksClusterID", "awsIamUserArn"}

// Config returns the client configuration of a provider. Errors name the Secret, the key and
// the necessary correction. A kubeconfig that refers to files or programs is an error: it comes
// from another cluster and must not read files or run programs in this one. The configuration is one of
// [Guard].
func Config(secret *corev1.Secret, limits Limits) (*rest.Config, error) {
	name := secret.Namespace + "/" + secret.Name
	if !slices.ContainsFunc(awsKeys, func(key string) bool { return len(secret.Data[key]) == 0 }) {
		return nil, fmt.Errorf("kubeconfig Secret %s has an EKS identity (%s …), which is not supported", name, awsKeys[0])
	}
	content := secret.Data[KubeconfigKey]
	if len(content) == 0 {
		return nil, fmt.Errorf("kubeconfig Secret %s has no key %q", name, KubeconfigKey)
	}
	kubeconfig, err := clientcmd.Load(content)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig Secret %s: key %q is not a kubeconfig: %w", name, KubeconfigKey, err)
	}
	if err := validate(kubeconfig); err != nil {
		return nil, fmt.Errorf("kubeconfig Secret %s: %w", name, err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*kubeconfig, kubeconfig.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig Secret %s: %w", name, err)
	}
	if len(config.CertData) > 0 {
		if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
			return nil, fmt.Errorf("kubeconfig Secret %s: invalid client certificate: %w", name, err)
		}
	}
	guarded, err := Guard(config, limits)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig Secret %s: %w", name, err)
	}
	return guarded, nil
}

// validate returns an error for a kubeconfig that is incomplete or refers to files or programs.
func validate(kubeconfig *clientcmdapi.Config) error {
	context, ok := kubeconfig.Contexts[kubeconfig.CurrentContext]
	if !ok {
		return fmt.Errorf("current-context %q does not exist", kubeconfig.CurrentContext)
	}
	cluster, ok := kubeconfig.Clusters[context.Cluster]
	if !ok || cluster.Server == "" {
		return fmt.Errorf("cluster %q of context %q has no server", context.Cluster, kubeconfig.CurrentContext)
	}
	user, ok := kubeconfig.AuthInfos[context.AuthInfo]
	if !ok {
		return fmt.Errorf("user %q of context %q does not exist", context.AuthInfo, kubeconfig.CurrentContext)
	}
	if user.Exec != nil || user.AuthProvider != nil {
		return fmt.Errorf("user %q runs a program, which is not supported: use a certificate or a token", context.AuthInfo)
	}
	if cluster.CertificateAuthority != "" || user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "" {
		return errors.New("the kubeconfig refers to files, which is not supported: embed them as …-data")
	}
	return nil
}

// Expired returns when the client certificate expired, and whether it expired before now.
func Expired(config *rest.Config, now time.Time) (time.Time, bool) {
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil || pair.Leaf == nil || !now.After(pair.Leaf.NotAfter) {
		return time.Time{}, false
	}
	return pair.Leaf.NotAfter, true
}
