package kubelet

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// authenticationMap is the ConfigMap with the certificate authority of the API server's
	// clients; it exists in every cluster.
	authenticationMap = "extension-apiserver-authentication"
	clientCAKey       = "client-ca-file"
)

// ClientAuthorities returns a function that reads the PEM certificates which verify clients
// of the kubelet API: those of a file, or, if its name is empty, those of the cluster.
func ClientAuthorities(file string, clientset kubernetes.Interface) func(context.Context) ([]byte, error) {
	if file != "" {
		return func(context.Context) ([]byte, error) {
			pem, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("reading --kubelet-client-ca-file: %w", err)
			}
			return pem, nil
		}
	}
	return func(ctx context.Context) ([]byte, error) {
		configMap, err := clientset.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, authenticationMap, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", metav1.NamespaceSystem, authenticationMap, err)
		}
		return []byte(configMap.Data[clientCAKey]), nil
	}
}
