package certificate

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	serviceAccountPrefix = "system:serviceaccount:"
	commonNamePrefix     = "system:node:"
	organization         = "system:nodes"
)

// signers are those of kubelets' serving certificates, of Kubernetes and of EKS
// (offloading.md 3.12).
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

// Check says why a request is not that of the virtual kubelet of this node: it may ask
// for the serving certificate of its own node, and for no other name.
func Check(csr *certificatesv1.CertificateSigningRequest, node string) error {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return errors.New("the request is no PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("parsing the request: %w", err)
	}
	switch {
	case request.Subject.CommonName != commonNamePrefix+node:
		return fmt.Errorf("the request is for %q, and only %q may be asked for", request.Subject.CommonName, commonNamePrefix+node)
	case !slices.Equal(request.Subject.Organization, []string{organization}):
		return fmt.Errorf("the request is for the groups %q, and only %q may be asked for", request.Subject.Organization, organization)
	case len(request.DNSNames) > 0 || len(request.EmailAddresses) > 0 || len(request.URIs) > 0 || len(request.IPAddresses) == 0:
		return errors.New("the request must have IP addresses and no other names")
	}
	for _, usage := range csr.Spec.Usages {
		switch usage {
		case certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return fmt.Errorf("the request is for usage %q: a serving certificate needs none but server auth", usage)
		}
	}
	if !slices.Contains(csr.Spec.Usages, certificatesv1.UsageServerAuth) {
		return errors.New("the request is not for usage server auth")
	}
	return nil
}
