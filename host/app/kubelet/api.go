package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	kubeletapi "github.com/longshore-dev/longshore/host/consumer/kubelet"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

const (
	// awsSigner signs kubelets' serving certificates on EKS.
	awsSigner = "beta.eks.amazonaws.com/app-serving"
	// authenticationMap holds the authority of the API server's clients, in every cluster.
	authenticationMap = "extension-apiserver-authentication"
	clientCAKey       = "client-ca-file"
)

// certificates keeps the serving certificate; it outlives sessions.
type certificates struct {
	get func() (*tls.Certificate, error)
	run func(context.Context)
}

func (a *App) newCertificates(clientset kubernetes.Interface) (*certificates, error) {
	ip := net.ParseIP(a.options.NodeIP)
	signer := certificatesv1.KubeletServingSignerName
	switch CertificateType(a.options.CertificateType) {
	case CertificateSelfSigned:
		return &certificates{get: kubeletapi.NewSelfSigned(a.options.NodeName, ip, time.Now).Certificate}, nil
	case CertificateAWS:
		signer = awsSigner
	case CertificateKubelet:
	}
	signed, err := kubeletapi.NewSigned(clientset, signer, a.options.NodeName, ip, time.Now)
	if err != nil {
		return nil, fmt.Errorf("composing the kubelet API: %w", err)
	}
	return &certificates{get: signed.Certificate, run: signed.Run}, nil
}

func (a *App) newServer(clientset kubernetes.Interface, reflector *engine.Engine, config *rest.Config) (*kubeletapi.Server, error) {
	guard, guardErr := kubeletapi.NewGuard(kubeletapi.GuardOptions{
		NodeName: a.options.NodeName, Authorities: a.clientAuthorities(clientset), Now: time.Now,
		Tokens: clientset.AuthenticationV1().TokenReviews(), Access: clientset.AuthorizationV1().SubjectAccessReviews(),
	})
	provider, providerErr := kubeletapi.NewProvider(config)
	if err := errors.Join(guardErr, providerErr); err != nil {
		return nil, fmt.Errorf("composing the kubelet API: %w", err)
	}
	server, err := kubeletapi.New(kubeletapi.Options{
		Address: a.options.NodeIP, Port: a.options.ListenPort, Certificate: a.certificates.get,
		Guard: guard, Pods: nodePods{reflector}, Provider: provider,
	})
	if err != nil {
		return nil, fmt.Errorf("composing the kubelet API: %w", err)
	}
	return server, nil
}

// clientAuthorities reads who signs the certificate with which the consumer's API server
// comes: a file, or what the cluster publishes for servers like this one.
func (a *App) clientAuthorities(clientset kubernetes.Interface) func(context.Context) ([]byte, error) {
	if file := a.options.KubeletClientCAFile; file != "" {
		return func(context.Context) ([]byte, error) {
			pem, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("reading --kubelet-client-ca-file: %w", err)
			}
			return pem, nil
		}
	}
	return func(ctx context.Context) ([]byte, error) {
		published, err := clientset.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, authenticationMap, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", metav1.NamespaceSystem, authenticationMap, err)
		}
		return []byte(published.Data[clientCAKey]), nil
	}
}

// nodePods are the pods that the reflection has in its cache.
type nodePods struct{ engine *engine.Engine }

// Pods implements kubeletapi.Pods.
func (p nodePods) Pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, object := range p.engine.Local("pod") {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Remote implements kubeletapi.Pods.
func (p nodePods) Remote(namespace, name string) (string, bool) {
	if p.engine.LocalObject("pod", namespace, name) == nil {
		return "", false
	}
	return p.engine.RemoteNamespace(namespace)
}
