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

	"github.com/longshore-dev/longshore/host/kit/podend"
)

const (
	serviceAccountPrefix = "system:serviceaccount:"
	commonNamePrefix     = "system:node:"
	organization         = "system:nodes"
)

// signers are the signers of kubelets' serving certificates in Kubernetes and EKS.
var signers = []string{certificatesv1.KubeletServingSignerName, "beta.eks.amazonaws.com/app-serving"}

// IsPending reports whether a request is neither approved nor denied, and has the signer and
// the kind of user of a virtual kubelet's request.
func IsPending(csr *certificatesv1.CertificateSigningRequest) bool {
	return slices.Contains(signers, csr.Spec.SignerName) && strings.HasPrefix(csr.Spec.Username, serviceAccountPrefix) &&
		len(csr.Status.Conditions) == 0 && len(csr.Status.Certificate) == 0 && csr.DeletionTimestamp == nil
}

// Requester returns the VirtualNode whose virtual kubelet has the identity of the request: its
// service account has the name of the VirtualNode.
func Requester(csr *certificatesv1.CertificateSigningRequest) (types.NamespacedName, bool) {
	namespace, name, ok := strings.Cut(strings.TrimPrefix(csr.Spec.Username, serviceAccountPrefix), ":")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok && namespace != "" && name != ""
}

// Check returns the addresses of a request, or an error if it is not a request for the serving
// certificate of this node with IP addresses only.
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
		return nil, fmt.Errorf("the common name is %q instead of %q", request.Subject.CommonName, commonNamePrefix+node)
	case !slices.Equal(request.Subject.Organization, []string{organization}):
		return nil, fmt.Errorf("the organization is %q instead of %q", request.Subject.Organization, organization)
	case len(request.DNSNames) > 0 || len(request.EmailAddresses) > 0 || len(request.URIs) > 0 || len(request.IPAddresses) == 0:
		return nil, errors.New("the request must contain IP addresses and no other names")
	}
	for _, usage := range csr.Spec.Usages {
		switch usage {
		case certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return nil, fmt.Errorf("usage %q is not one of a serving certificate", usage)
		}
	}
	if !slices.Contains(csr.Spec.Usages, certificatesv1.UsageServerAuth) {
		return nil, errors.New("usage server auth is missing")
	}
	return request.IPAddresses, nil
}

// podNameKey is the key of the pod of a service account token in a user's extra information.
const podNameKey = "authentication.kubernetes.io/pod-name"

// requesterPods returns the pods that may have sent the request: those with the virtual
// kubelet's service account, or only the pod that the token is bound to. Pods in the host
// network are excluded, because they have the address of a real kubelet.
func requesterPods(csr *certificatesv1.CertificateSigningRequest, account string, pods []corev1.Pod) []corev1.Pod {
	bound := csr.Spec.Extra[podNameKey]
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool {
		return pod.Spec.ServiceAccountName != account || pod.Spec.HostNetwork ||
			podend.IsTerminal(pod.Status.Phase) ||
			len(bound) > 0 && !slices.Contains(bound, pod.Name)
	})
}

// hasAddresses reports whether one of the pods has all addresses. If none has, isUnknown
// reports whether a pod has no address yet. The Node's addresses are not used, because the
// virtual kubelet writes them.
func hasAddresses(pods []corev1.Pod, addresses []net.IP) (has, isUnknown bool) {
	for i := range pods {
		isUnknown = isUnknown || len(pods[i].Status.PodIPs) == 0
		isOwn := func(address net.IP) bool {
			return slices.ContainsFunc(pods[i].Status.PodIPs, func(own corev1.PodIP) bool { return address.Equal(net.ParseIP(own.IP)) })
		}
		if !slices.ContainsFunc(addresses, func(address net.IP) bool { return !isOwn(address) }) {
			return true, false
		}
	}
	return false, isUnknown
}
