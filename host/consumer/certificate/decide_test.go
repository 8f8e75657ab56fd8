package certificate_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/consumer/certificate"
)

// newRequest returns the request of the virtual kubelet of milan-1 after alterations.
func newRequest(t *testing.T, alter func(*x509.CertificateRequest), alterObject func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	template := &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "system:node:milan-1", Organization: []string{"system:nodes"}},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 5)},
	}
	if alter != nil {
		alter(template)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: "kubernetes.io/kubelet-serving", Username: "system:serviceaccount:liqo-tenant-milan:milan-1",
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			Usages:  []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	if alterObject != nil {
		alterObject(csr)
	}
	return csr
}

// kubeletPod returns the pod of a virtual kubelet after an alteration.
func kubeletPod(alter func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "vk-milan-1-0", Namespace: "liqo-tenant-milan", Labels: map[string]string{
			offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet, offloadingv1beta1.VirtualNodeLabel: "milan-1",
		}},
		Spec:   corev1.PodSpec{ServiceAccountName: "milan-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.5"}, {IP: "fd00::5"}}},
	}
	if alter != nil {
		alter(pod)
	}
	return pod
}

func TestAddressesOfTheOwnPodAreApproved(t *testing.T) {
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan-1"}}
	// The virtual kubelet can write any address to its Node.
	forged := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
	}}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		ips  []net.IP
		pod  string
		want bool
		wait bool
	}{
		"the address of the own pod":               {[]*corev1.Pod{kubeletPod(nil)}, []net.IP{net.IPv4(10, 0, 0, 5)}, "", true, false},
		"both addresses of the own pod":            {[]*corev1.Pod{kubeletPod(nil)}, []net.IP{net.IPv4(10, 0, 0, 5), net.ParseIP("fd00::5")}, "vk-milan-1-0", true, false},
		"the address of a node":                    {[]*corev1.Pod{kubeletPod(nil)}, []net.IP{net.IPv4(10, 0, 0, 1)}, "", false, false},
		"the address of a node and of the own pod": {[]*corev1.Pod{kubeletPod(nil)}, []net.IP{net.IPv4(10, 0, 0, 5), net.IPv4(10, 0, 0, 1)}, "", false, false},
		"no pod":                             {nil, []net.IP{net.IPv4(10, 0, 0, 5)}, "", false, false},
		"the pod of another virtual kubelet": {[]*corev1.Pod{kubeletPod(func(p *corev1.Pod) { p.Labels[offloadingv1beta1.VirtualNodeLabel] = "milan-2" })}, []net.IP{net.IPv4(10, 0, 0, 5)}, "", false, false},
		"a pod of another account":           {[]*corev1.Pod{kubeletPod(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" })}, []net.IP{net.IPv4(10, 0, 0, 5)}, "", false, false},
		"a pod in another namespace":         {[]*corev1.Pod{kubeletPod(func(p *corev1.Pod) { p.Namespace = "shop" })}, []net.IP{net.IPv4(10, 0, 0, 5)}, "", false, false},
		"a pod that has ended":               {[]*corev1.Pod{kubeletPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, []net.IP{net.IPv4(10, 0, 0, 5)}, "", false, false},
		"a pod in the host network":          {[]*corev1.Pod{kubeletPod(func(p *corev1.Pod) { p.Spec.HostNetwork = true })}, []net.IP{net.IPv4(10, 0, 0, 5)}, "", false, false},
		"a token of another pod":             {[]*corev1.Pod{kubeletPod(nil)}, []net.IP{net.IPv4(10, 0, 0, 5)}, "miner", false, false},
		"a pod without an address yet":       {[]*corev1.Pod{kubeletPod(func(p *corev1.Pod) { p.Status = corev1.PodStatus{} })}, []net.IP{net.IPv4(10, 0, 0, 5)}, "", false, true},
		"a replica without an address yet":   {[]*corev1.Pod{kubeletPod(func(p *corev1.Pod) { p.Name = "vk-milan-1-1"; p.Status = corev1.PodStatus{} }), kubeletPod(nil)}, []net.IP{net.IPv4(10, 0, 0, 5)}, "", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			csr := newRequest(t, func(r *x509.CertificateRequest) { r.IPAddresses = tc.ips }, func(c *certificatesv1.CertificateSigningRequest) {
				if tc.pod != "" {
					c.Spec.Extra = map[string]certificatesv1.ExtraValue{"authentication.kubernetes.io/pod-name": {tc.pod}}
				}
			})
			objects := []client.Object{vn.DeepCopy(), forged.DeepCopy()}
			for _, pod := range tc.pods {
				objects = append(objects, pod)
			}
			approved, result := reconcile(t, csr, objects...)
			assert.Equal(t, tc.want, approved)
			assert.Equal(t, tc.wait, result.RequeueAfter > 0)
		})
	}
}

// reconcile reconciles a request once and reports whether it is approved.
func reconcile(t *testing.T, csr *certificatesv1.CertificateSigningRequest, objects ...client.Object) (approved bool, result ctrl.Result) {
	t.Helper()
	c := fakeclient.Builder(append(objects, csr)...).Build()
	r := &certificate.Reconciler{Client: approvalClient{c}, APIReader: c, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))}
	result, err := r.Reconcile(t.Context(), csr.DeepCopy())
	require.NoError(t, err)
	got := &certificatesv1.CertificateSigningRequest{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(csr), got))
	for _, condition := range got.Status.Conditions {
		approved = approved || condition.Type == certificatesv1.CertificateApproved
	}
	return approved, result
}

func TestCertificateOfTheOwnNodeIsApproved(t *testing.T) {
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan-1"}}
	type csr = certificatesv1.CertificateSigningRequest
	for name, tc := range map[string]struct {
		alter       func(*x509.CertificateRequest)
		alterObject func(*csr)
		want        bool
	}{
		"the own node":            {nil, nil, true},
		"the own node on EKS":     {nil, func(c *csr) { c.Spec.SignerName = "beta.eks.amazonaws.com/app-serving" }, true},
		"another node":            {func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:master" }, nil, false},
		"another group":           {func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }, nil, false},
		"an additional group":     {func(r *x509.CertificateRequest) { r.Subject.Organization = append(r.Subject.Organization, "x") }, nil, false},
		"a DNS name":              {func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes"} }, nil, false},
		"no address":              {func(r *x509.CertificateRequest) { r.IPAddresses = nil }, nil, false},
		"a client certificate":    {nil, func(c *csr) { c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageClientAuth) }, false},
		"no server certificate":   {nil, func(c *csr) { c.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature} }, false},
		"another signer":          {nil, func(c *csr) { c.Spec.SignerName = "kubernetes.io/kube-apiserver-client" }, false},
		"another service account": {nil, func(c *csr) { c.Spec.Username = "system:serviceaccount:liqo-tenant-milan:default" }, false},
		"another namespace":       {nil, func(c *csr) { c.Spec.Username = "system:serviceaccount:default:milan-1" }, false},
		"a user":                  {nil, func(c *csr) { c.Spec.Username = "milan-1" }, false},
		"an incomplete user name": {nil, func(c *csr) { c.Spec.Username = "system:serviceaccount:liqo-tenant-milan" }, false},
		"not a request":           {nil, func(c *csr) { c.Spec.Request = []byte("rubbish") }, false},
		"a denied request": {nil, func(c *csr) {
			c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			approved, _ := reconcile(t, newRequest(t, tc.alter, tc.alterObject), vn.DeepCopy(), kubeletPod(nil))
			assert.Equal(t, tc.want, approved)
		})
	}
}

// approvalClient adds the subresource approval to a fake client.
type approvalClient struct{ client.Client }

// SubResource implements client.Client.
func (a approvalClient) SubResource(name string) client.SubResourceClient {
	if name == "approval" {
		name = "status"
	}
	return a.Client.SubResource(name)
}
