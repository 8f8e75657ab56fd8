package certificate

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	serviceAccountPrefix = "system:serviceaccount:"
	commonNamePrefix     = "system:node:"
	organization         = "system:nodes"
)

// signers are those of kubelets' serving certificates, of Kubernetes and of EKS
// (wire 3.12).
var signers = []string{certificatesv1.KubeletServingSignerName, "beta.eks.amazonaws.com/app-serving"}

// Concerns reports whether a request still waits for somebody, and is one that a virtual
// kubelet could have made.
func Concerns(csr *certificatesv1.CertificateSigningRequest) bool {
	return slices.Contains(signers, csr.Spec.SignerName) && strings.HasPrefix(csr.Spec.Username, serviceAccountPrefix) &&
		len(csr.Status.Conditions) == 0 && len(csr.Status.Certificate) == 0 && csr.DeletionTimestamp == nil
}

// Requester returns the VirtualNode whose virtual kubelet has the identity of the
// request: the service account of a virtual kubelet is named like it.
func Requester(csr *certificatesv1.CertificateSigningRequest) (types.NamespacedName, bool) {
	namespace, name, ok := strings.Cut(strings.TrimPrefix(csr.Spec.Username, serviceAccountPrefix), ":")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok && namespace != "" && name != ""
}

// Check returns the addresses that a request asks for, or says why it is not that of the
// virtual kubelet of this node: it may ask for the serving certificate of its own node, and
// for no DNS name.
func Check(csr *certificatesv1.CertificateSigningRequest, node string) ([]net.IP, error) {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return nil, errors.New("the request is not PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the request: %w", err)
	}
	switch {
	case request.Subject.CommonName != commonNamePrefix+node:
		return nil, fmt.Errorf("the request is for %q, and only %q may be asked for", request.Subject.CommonName, commonNamePrefix+node)
	case !slices.Equal(request.Subject.Organization, []string{organization}):
		return nil, fmt.Errorf("the request is for the groups %q, and only %q may be asked for", request.Subject.Organization, organization)
	case len(request.DNSNames) > 0 || len(request.EmailAddresses) > 0 || len(request.URIs) > 0 || len(request.IPAddresses) == 0:
		return nil, errors.New("the request must have IP addresses and no other names")
	}
	for _, usage := range csr.Spec.Usages {
		switch usage {
		case certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return nil, fmt.Errorf("the request is for usage %q: a serving certificate needs none but server auth", usage)
		}
	}
	if !slices.Contains(csr.Spec.Usages, certificatesv1.UsageServerAuth) {
		return nil, errors.New("the request is not for usage server auth")
	}
	return request.IPAddresses, nil
}

// podNameKey is the key of a service account token's pod among what is known of a user.
const podNameKey = "authentication.kubernetes.io/pod-name"

// requesterPods returns those of the pods in the VirtualNode's namespace that may have made
// the request: pods of its virtual kubelet, with its account. A token that is bound to a pod
// leaves that one only. A pod in the network of its node has the address of a real kubelet.
func requesterPods(csr *certificatesv1.CertificateSigningRequest, virtualNode string, pods []corev1.Pod) []corev1.Pod {
	bound := csr.Spec.Extra[podNameKey]
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool {
		return pod.Spec.ServiceAccountName != virtualNode || pod.Spec.HostNetwork ||
			pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed ||
			len(bound) > 0 && !slices.Contains(bound, pod.Name)
	})
}

// hasAddresses reports whether all addresses are those of one of the pods, and whether that
// may change because the address of a pod is not known yet. The addresses of the Node do not
// count: the virtual kubelet writes them itself.
func hasAddresses(pods []corev1.Pod, addresses []net.IP) (has, unknown bool) {
	for i := range pods {
		unknown = unknown || len(pods[i].Status.PodIPs) == 0
		isOwn := func(address net.IP) bool {
			return slices.ContainsFunc(pods[i].Status.PodIPs, func(own corev1.PodIP) bool { return address.Equal(net.ParseIP(own.IP)) })
		}
		if !slices.ContainsFunc(addresses, func(address net.IP) bool { return !isOwn(address) }) {
			return true, false
		}
	}
	return false, unknown
}
