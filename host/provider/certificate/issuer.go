// Package certificate has the cluster sign the client certificates of consumers:
// it creates and approves CertificateSigningRequests, and keeps the results in the tenant
// namespace, so that each is signed once and renewed in time.
package certificate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const (
	// RequestLabel is "true" on CertificateSigningRequests made for consumers.
	RequestLabel = "liqo.io/remote-tenant-csr"

	// secretName is the Secret with the control plane's certificate; a dash and the name of
	// a ResourceSlice follow for that of the slice.
	secretName = "liqo-remote-certificate"

	requestKey     = "csr"
	certificateKey = "certificate"

	requestPrefix  = "liqo-identity-"
	approvalReason = "IdentityManagerApproval"
	hashBytes      = 16

	// identityAnnotation has the tenant namespace and, after a slash, the name of the ResourceSlice.
	identityAnnotation = "longshore.dev/certificate-of"

	// maxOpenRequests is how many requests for ResourceSlices one consumer has at a time: requests are
	// objects of the cluster, and the signer answers each within seconds.
	maxOpenRequests = 10
	// A consumer gets burst certificates for its ResourceSlices at once, and then one per interval.
	burst    = 30
	interval = 10 * time.Second
)

var (
	// ErrRefused is the cause when the signer denies or fails a request: it will not be signed.
	ErrRefused = errors.New("the cluster's signer refused the certificate")
	// ErrTooManyRequests is the cause when a consumer asks for more certificates than it may at a time.
	ErrTooManyRequests = errors.New("too many certificate requests")
)

// Request asks for the certificate of one identity. Its certificate request must have been
// checked: it is approved as it is.
type Request struct {
	// Namespace is the tenant namespace of Consumer.
	Namespace string
	Consumer  liqocorev1beta1.ClusterID
	// Slice is the name of the ResourceSlice; empty for the control plane.
	Slice string
	// CSR is the PEM certificate request.
	CSR []byte
	// Owner is the Tenant or the ResourceSlice, with which the Secret of the certificate ends.
	Owner client.Object
}

func (r *Request) identity() string { return r.Namespace + "/" + r.Slice }

func (r *Request) secretName() string {
	if r.Slice == "" {
		return secretName
	}
	return secretName + "-" + r.Slice
}

// Issued is a certificate.
type Issued struct {
	// PEM encoding of the certificate.
	PEM []byte
	// RenewAt is when it is due for renewal; past while a renewal is pending.
	RenewAt time.Time
}

// Issuer obtains certificates.
//
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kube-apiserver-client,verbs=approve
type Issuer struct {
	Client client.Client
	// APIReader reads Secrets and requests past the cache: a certificate must not be asked
	// for twice because the cache is stale.
	APIReader client.Reader
	Clock     clock.PassiveClock

	mu sync.Mutex
	// limiters of the consumers, which are as many as the Tenants.
	limiters map[liqocorev1beta1.ClusterID]*rate.Limiter
}

// Issue returns the certificate of an identity, or nil while it is not signed yet; the
// CertificateSigningRequest, which has RequestLabel and the consumer's label, changes then. A
// certificate request other than the stored one replaces it, since a consumer that was
// installed again has another key.
func (i *Issuer) Issue(ctx context.Context, r Request) (*Issued, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: r.Namespace, Name: r.secretName()}
	if err := i.APIReader.Get(ctx, key, secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	current := stored(secret, r.CSR)
	if current != nil && i.Clock.Now().Before(current.RenewAt) {
		return current, i.adopt(ctx, secret, r)
	}
	csr, err := i.sign(ctx, r, secret.Data[certificateKey])
	if err != nil || csr == nil {
		// A certificate that is due for renewal is valid until then.
		return current, err
	}
	signed := csr.Status.Certificate
	if err := i.store(ctx, key, secret, r, signed); err != nil {
		return nil, err
	}
	if err := i.Client.Delete(ctx, csr); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("deleting CertificateSigningRequest %q, whose certificate is stored: %w", csr.Name, err)
	}
	return parse(signed)
}

// adopt has a stored certificate end with its Tenant or ResourceSlice: earlier versions set no owner, and
// the slice may be a new one of the same name.
func (i *Issuer) adopt(ctx context.Context, secret *corev1.Secret, r Request) error {
	before := secret.DeepCopy()
	if err := i.own(secret, r); err != nil || equality.Semantic.DeepEqual(before, secret) {
		return err
	}
	if err := i.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("setting the owner of Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}

func (i *Issuer) own(secret *corev1.Secret, r Request) error {
	if err := controllerutil.SetOwnerReference(r.Owner, secret, i.Client.Scheme(), controllerutil.WithBlockOwnerDeletion(false)); err != nil {
		return fmt.Errorf("setting the owner of Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// stored returns the certificate that a Secret keeps for a certificate request, or nil.
func stored(secret *corev1.Secret, csr []byte) *Issued {
	if !bytes.Equal(secret.Data[requestKey], csr) {
		return nil
	}
	issued, err := parse(secret.Data[certificateKey])
	if err != nil {
		return nil // It is not usable, so another one is asked for.
	}
	return issued
}

func parse(encoded []byte) (*Issued, error) {
	certificate, err := authentication.ParseCertificate(encoded)
	if err != nil {
		return nil, err
	}
	return &Issued{PEM: encoded, RenewAt: authentication.RenewAt(certificate)}, nil
}

// sign returns the request with its signed certificate, or nil while there is none. previous is the
// stored certificate: its renewal is another request.
func (i *Issuer) sign(ctx context.Context, r Request, previous []byte) (*certificatesv1.CertificateSigningRequest, error) {
	want := forge(r, previous)
	csr := &certificatesv1.CertificateSigningRequest{}
	err := i.APIReader.Get(ctx, client.ObjectKeyFromObject(want), csr)
	if apierrors.IsNotFound(err) {
		if err := i.admit(ctx, r); err != nil {
			return nil, err
		}
		csr = want
		log.FromContext(ctx).Info("Requesting a client certificate", "request", want.Name, "consumer", r.Consumer, "resourceSlice", r.Slice)
		if err = i.Client.Create(ctx, csr); err != nil {
			return nil, fmt.Errorf("creating CertificateSigningRequest %q: %w", want.Name, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading CertificateSigningRequest %q: %w", want.Name, err)
	}
	if !isRequestFor(csr, want) {
		return nil, fmt.Errorf("CertificateSigningRequest %q exists and asks for something else: delete it", csr.Name)
	}
	for _, condition := range csr.Status.Conditions {
		if condition.Type == certificatesv1.CertificateDenied || condition.Type == certificatesv1.CertificateFailed {
			return nil, fmt.Errorf("CertificateSigningRequest %q is %s: %s: %w", csr.Name, condition.Type, condition.Message, ErrRefused)
		}
	}
	if isApproved(csr) {
		if len(csr.Status.Certificate) == 0 {
			return nil, nil
		}
		return csr, nil
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: approvalReason,
		Message: fmt.Sprintf("Cluster %s is a tenant of this cluster", r.Consumer), LastUpdateTime: metav1.NewTime(i.Clock.Now()),
	})
	if err := i.Client.SubResource("approval").Update(ctx, csr); err != nil {
		return nil, fmt.Errorf("approving CertificateSigningRequest %q: %w", csr.Name, err)
	}
	return nil, nil
}

// admit makes room for a new request: the earlier ones of the same identity are deleted, and so is a
// refused one, which has kept its request from being made again. It fails when the
// consumer asks too often. An administrator of the provider writes the request of the control plane, which is
// always admitted.
func (i *Issuer) admit(ctx context.Context, r Request) error {
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := i.APIReader.List(ctx, requests, client.MatchingLabels{RequestLabel: "true", liqocorev1beta1.RemoteClusterIDLabel: string(r.Consumer)}); err != nil {
		return fmt.Errorf("listing the CertificateSigningRequests of cluster %q: %w", r.Consumer, err)
	}
	open := 0
	for n := range requests.Items {
		switch identity, ok := identityOf(&requests.Items[n]); {
		case !ok:
		case identity != r.identity():
			open++
		default:
			if err := i.Client.Delete(ctx, &requests.Items[n]); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting the earlier CertificateSigningRequest %q: %w", requests.Items[n].Name, err)
			}
		}
	}
	switch {
	case r.Slice == "":
		return nil
	case open >= maxOpenRequests:
		return fmt.Errorf("cluster %q has %d certificate requests that are not signed; delete ResourceSlices, or have the requests signed: %w", r.Consumer, open, ErrTooManyRequests)
	case !i.limiter(r.Consumer).AllowN(i.Clock.Now(), 1):
		return fmt.Errorf("cluster %q asks for a certificate more often than every %s; the request is tried again: %w", r.Consumer, interval, ErrTooManyRequests)
	}
	return nil
}

func (i *Issuer) limiter(consumer liqocorev1beta1.ClusterID) *rate.Limiter {
	i.mu.Lock()
	defer i.mu.Unlock()
	limiter := i.limiters[consumer]
	if limiter == nil {
		if i.limiters == nil {
			i.limiters = map[liqocorev1beta1.ClusterID]*rate.Limiter{}
		}
		limiter = rate.NewLimiter(rate.Every(interval), burst)
		i.limiters[consumer] = limiter
	}
	return limiter
}

// identityOf returns for which identity Longshore has made a request; others may create requests, too.
func identityOf(csr client.Object) (string, bool) {
	identity, ok := csr.GetAnnotations()[identityAnnotation]
	return identity, ok && strings.HasPrefix(csr.GetName(), requestPrefix)
}

// forge builds the request object. Its name says what it is for, so that it is found again
// after a restart.
func forge(r Request, previous []byte) *certificatesv1.CertificateSigningRequest {
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(r.Namespace), []byte(r.secretName()), r.CSR, previous} {
		fmt.Fprintf(sum, "%d:", len(part)) // Writing to a hash never fails.
		sum.Write(part)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name:        requestPrefix + hex.EncodeToString(sum.Sum(nil)[:hashBytes]),
			Labels:      map[string]string{RequestLabel: "true", liqocorev1beta1.RemoteClusterIDLabel: string(r.Consumer)},
			Annotations: map[string]string{identityAnnotation: r.identity()},
		},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    r.CSR,
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{
				certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth,
			},
		},
	}
}

// isRequestFor reports whether an existing request asks for what is wanted: others may create
// requests, and approval must not sign theirs.
func isRequestFor(csr, want *certificatesv1.CertificateSigningRequest) bool {
	return bytes.Equal(csr.Spec.Request, want.Spec.Request) && csr.Spec.SignerName == want.Spec.SignerName &&
		slices.Equal(csr.Spec.Usages, want.Spec.Usages)
}

func isApproved(csr *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	})
}

// store keeps a certificate and the request it was signed for.
func (i *Issuer) store(ctx context.Context, key client.ObjectKey, secret *corev1.Secret, r Request, certificate []byte) error {
	secret.Name, secret.Namespace = key.Name, key.Namespace
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	secret.Labels[liqocorev1beta1.RemoteClusterIDLabel] = string(r.Consumer)
	secret.Data = map[string][]byte{requestKey: r.CSR, certificateKey: certificate}
	if err := i.own(secret, r); err != nil {
		return err
	}
	write := i.Client.Update
	if secret.ResourceVersion == "" {
		write = func(ctx context.Context, obj client.Object, _ ...client.UpdateOption) error {
			return i.Client.Create(ctx, obj)
		}
	}
	if err := write(ctx, secret); err != nil {
		return fmt.Errorf("writing Secret %s: %w", key, err)
	}
	return nil
}
