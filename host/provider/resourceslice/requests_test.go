package resourceslice

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
	"github.com/longshore-dev/longshore/host/provider/certificate"
)

func (p *provider) requests(t *testing.T) []certificatesv1.CertificateSigningRequest {
	t.Helper()
	requests := &certificatesv1.CertificateSigningRequestList{}
	require.NoError(t, p.client.List(t.Context(), requests))
	return requests.Items
}

// send has the consumer replace its certificate request.
func (p *provider) send(t *testing.T, csr []byte) error {
	t.Helper()
	p.slice.Spec.CSR = csr
	require.NoError(t, p.client.Update(t.Context(), p.slice))
	return p.reconcile(t)
}

// TestANewRequestReplacesTheLast has a consumer that changes its certificate request all the time.
func TestANewRequestReplacesTheLast(t *testing.T) {
	p := newProvider(t)
	limited := 0
	for range 60 {
		if err := p.send(t, requestOf(t, newKey(t), "gpu")); err != nil {
			require.ErrorIs(t, err, certificate.ErrTooManyRequests)
			limited++
		}
		require.LessOrEqual(t, len(p.requests(t)), 1)
	}
	assert.Positive(t, limited, "a consumer cannot have certificates signed as often as it wants")
	p.clock.SetTime(p.clock.Now().Add(time.Minute))
	require.NoError(t, p.reconcile(t), "it is served again later")
	requests := p.requests(t)
	require.Len(t, requests, 1)
	assert.Equal(t, p.slice.Spec.CSR, requests[0].Spec.Request, "the last request is the one that counts")
}

// TestSlicesShareABoundOfRequests has a consumer with many slices, and a signer that signs nothing.
func TestSlicesShareABoundOfRequests(t *testing.T) {
	p := newProvider(t)
	for i := range 40 {
		p.clock.SetTime(p.clock.Now().Add(time.Minute))
		slice := p.slice.DeepCopy()
		slice.Name, slice.UID, slice.ResourceVersion, slice.Status = fmt.Sprintf("gpu-%d", i), "", "", authv1beta1.ResourceSliceStatus{}
		slice.Spec.CSR = requestOf(t, newKey(t), slice.Name)
		require.NoError(t, p.client.Create(t.Context(), slice))
		_, err := p.Reconcile(t.Context(), slice)
		if i < 5 {
			require.NoError(t, err)
		} else if err != nil {
			require.ErrorIs(t, err, certificate.ErrTooManyRequests)
		}
	}
	assert.Len(t, p.requests(t), 10)
}

// TestARequestGoesWhenItIsIssued signs as kube-controller-manager does.
func TestARequestGoesWhenItIsIssued(t *testing.T) {
	p := newProvider(t)
	key := newKey(t)
	require.NoError(t, p.send(t, requestOf(t, key, "gpu")))
	pending := p.requests(t)
	require.Len(t, pending, 1)
	pending[0].Status.Certificate = selfSigned(t, key, certificateEnd)
	pending[0].Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
	require.NoError(t, p.client.Status().Update(t.Context(), &pending[0]))
	require.NoError(t, p.reconcile(t))
	assert.Empty(t, p.requests(t))
	assert.Equal(t, pending[0].Status.Certificate, p.slice.Status.AuthParams.SignedCRT)
}

// TestTheSecretOfASliceEndsWithIt is also about Secrets of earlier versions, which have no owner.
func TestTheSecretOfASliceEndsWithIt(t *testing.T) {
	p := newProvider(t)
	secret := &corev1.Secret{}
	require.NoError(t, p.client.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "liqo-remote-certificate-gpu"}, secret))
	require.Len(t, secret.OwnerReferences, 1, "the garbage collector deletes it")
	assert.Equal(t, p.slice.UID, secret.OwnerReferences[0].UID)
	assert.False(t, ptr.Deref(secret.OwnerReferences[0].BlockOwnerDeletion, true), "the manager has no right on the finalizers of slices")
}

// TestRequestsEndWithTheirSlice has requests that are neither signed nor refused.
func TestRequestsEndWithTheirSlice(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *provider){
		"the slice is deleted": func(t *testing.T, p *provider) { require.NoError(t, p.client.Delete(t.Context(), p.slice)) },
		"the slice is being deleted": func(t *testing.T, p *provider) {
			p.slice.Finalizers = []string{"example.com/stays"}
			require.NoError(t, p.client.Update(t.Context(), p.slice))
			require.NoError(t, p.client.Delete(t.Context(), p.slice))
		},
		"the slice asks for nothing": func(t *testing.T, p *provider) {
			p.slice.Spec.CSR = nil
			require.NoError(t, p.client.Update(t.Context(), p.slice))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			leftovers := &certificate.Leftovers{Client: p.client}
			foreign := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Labels: map[string]string{certificate.RequestLabel: "true"}}}
			require.NoError(t, p.client.Create(t.Context(), foreign))
			require.NoError(t, p.send(t, requestOf(t, newKey(t), "gpu")))
			sweep := func() {
				for _, request := range p.requests(t) {
					_, err := leftovers.Reconcile(t.Context(), &request)
					require.NoError(t, err)
				}
			}
			sweep()
			require.Len(t, p.requests(t), 2)
			end(t, p)
			sweep()
			requests := p.requests(t)
			require.Len(t, requests, 1)
			assert.Equal(t, "foreign", requests[0].Name)
		})
	}
}

// TestALargeRequestIsRefused pads a request in ways that leave it valid.
func TestALargeRequestIsRefused(t *testing.T) {
	valid := requestOf(t, newKey(t), "gpu")
	padding := bytes.Repeat([]byte("padding\n"), 1<<14)
	for name, csr := range map[string][]byte{
		"text before it":  append(bytes.Clone(padding), valid...),
		"lines within it": bytes.Replace(valid, []byte("-----END"), append(bytes.Repeat([]byte("\n"), 1<<17), []byte("-----END")...), 1),
		"headers":         bytes.Replace(valid, []byte("REQUEST-----\n"), append([]byte("REQUEST-----\nPadding: "), append(bytes.Repeat([]byte("x"), 1<<17), "\n\n"...)...), 1),
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			require.NoError(t, p.send(t, csr))
			assert.Empty(t, p.requests(t))
			assert.Equal(t, authv1beta1.ResourceSliceConditionDenied, p.condition(authv1beta1.ResourceSliceConditionTypeAuthentication))
			assert.ErrorContains(t, authentication.CheckCSR(csr, authentication.SliceSubject("rome", "gpu"), nil), "bytes")
		})
	}
}

// TestARequestIsNotMadeTwice is about what a restart of the manager leaves.
func TestARequestIsNotMadeTwice(t *testing.T) {
	p := newProvider(t)
	require.NoError(t, p.send(t, requestOf(t, newKey(t), "gpu")))
	first := p.requests(t)
	p.Issuer = &certificate.Issuer{Client: p.client, APIReader: p.client, Clock: p.clock}
	require.NoError(t, p.reconcile(t))
	assert.Equal(t, first, p.requests(t))
	require.NoError(t, p.client.Delete(t.Context(), &first[0]))
	assert.True(t, apierrors.IsNotFound(p.client.Get(t.Context(), client.ObjectKeyFromObject(&first[0]), &first[0])))
	require.NoError(t, p.reconcile(t))
	assert.Len(t, p.requests(t), 1)
}
