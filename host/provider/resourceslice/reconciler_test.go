package resourceslice

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/internal/testkit/hostile"
	"github.com/longshore-dev/longshore/host/peering/authentication"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/provider/certificate"
)

// certificateEnd is when the certificate of the slice of a provider ends.
var certificateEnd = time.Unix(5000, 0)

// provider reconciles the slice gpu of rome, which was accepted with a certificate.
type provider struct {
	*Reconciler
	client client.Client
	clock  *clocktesting.FakePassiveClock
	slice  *authv1beta1.ResourceSlice
	tenant *authv1beta1.Tenant
	// unavailable is the error of the API server for Secrets.
	unavailable error
}

func selfSigned(t *testing.T, key crypto.Signer, end time.Time) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func newProvider(t *testing.T, functions ...policytest.Func) *provider {
	t.Helper()
	key := newKey(t)
	p := &provider{
		clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
		slice: &authv1beta1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "liqo-tenant-rome", UID: "slice-1", Labels: map[string]string{
				liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: "rome",
			}},
			Spec: authv1beta1.ResourceSliceSpec{
				ConsumerClusterID: ptr.To(liqocorev1beta1.ClusterID("rome")), CSR: requestOf(t, key, "gpu"),
				Resources: list(map[corev1.ResourceName]string{"cpu": "8"}),
			},
		},
		tenant: &authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "liqo-tenant-rome"},
			Spec:       authv1beta1.TenantSpec{ClusterID: "rome", AuthzPolicy: ptr.To(authv1beta1.TolerateNoHandshake)},
		},
	}
	issued := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "liqo-remote-certificate-gpu", Namespace: "liqo-tenant-rome"},
		Data:       map[string][]byte{"csr": p.slice.Spec.CSR, "certificate": selfSigned(t, key, certificateEnd)},
	}
	p.client = fakeclient.Builder(authentication.TenantNamespace("rome"), p.slice, p.tenant, issued).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if _, ok := object.(*corev1.Secret); ok && p.unavailable != nil {
					return p.unavailable
				}
				return c.Get(ctx, key, object, options...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
				if name == "approval" { // which the fake client does not know
					return nil
				}
				return c.SubResource(name).Update(ctx, object, options...)
			},
		}).Build()
	p.Reconciler = &Reconciler{
		Client: p.client, Events: events.NewFakeRecorder(100), Clock: p.clock, Policies: chains(t, functions...),
		Issuer:   &certificate.Issuer{Client: p.client, APIReader: p.client, Clock: p.clock},
		Endpoint: &certificate.Endpoint{Override: "milan.example.com", Client: p.client, APIReader: p.client},
		Offer:    Offer{Defaults: list(map[corev1.ResourceName]string{"cpu": "4", "pods": "110"})},
	}
	require.NoError(t, p.reconcile(t))
	require.Equal(t, authv1beta1.ResourceSliceConditionAccepted, p.condition(authv1beta1.ResourceSliceConditionTypeAuthentication))
	require.Equal(t, "8", p.slice.Status.Resources.Cpu().String())
	require.Nil(t, p.quota(t).Spec.Cordoned)
	return p
}

// reconcile reconciles the slice as the API server has it, twice: a second pass changes nothing.
func (p *provider) reconcile(t *testing.T) error {
	t.Helper()
	var err error
	for range 2 {
		current := &authv1beta1.ResourceSlice{}
		require.NoError(t, p.client.Get(t.Context(), client.ObjectKeyFromObject(p.slice), current))
		_, err = p.Reconcile(t.Context(), current)
	}
	require.NoError(t, p.client.Get(t.Context(), client.ObjectKeyFromObject(p.slice), p.slice))
	return err
}

// change has the slice changed by its consumer.
func (p *provider) change(t *testing.T, edit func(*authv1beta1.ResourceSlice)) {
	t.Helper()
	edit(p.slice)
	require.NoError(t, p.client.Update(t.Context(), p.slice))
	require.NoError(t, p.reconcile(t))
}

func (p *provider) setTenant(t *testing.T, condition authv1beta1.TenantCondition) {
	t.Helper()
	p.tenant.Spec.TenantCondition = condition
	require.NoError(t, p.client.Update(t.Context(), p.tenant))
	require.NoError(t, p.reconcile(t))
}

func (p *provider) condition(kind authv1beta1.ResourceSliceConditionType) authv1beta1.ResourceSliceConditionStatus {
	for _, c := range p.slice.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func (p *provider) quota(t *testing.T) *offloadingv1beta1.Quota {
	t.Helper()
	quota := &offloadingv1beta1.Quota{}
	require.NoError(t, p.client.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: romeUser}, quota))
	return quota
}

func (p *provider) isGranted(t *testing.T) bool {
	t.Helper()
	accepted := p.condition(authv1beta1.ResourceSliceConditionTypeResources) == authv1beta1.ResourceSliceConditionAccepted
	cordoned := ptr.Deref(p.quota(t).Spec.Cordoned, false)
	assert.Equal(t, accepted, !cordoned, "the Quota follows the condition")
	return accepted && !cordoned
}

func setClass(class authv1beta1.ResourceSliceClass) func(*authv1beta1.ResourceSlice) {
	return func(s *authv1beta1.ResourceSlice) { s.Spec.Class = class }
}

func request(cpu string) func(*authv1beta1.ResourceSlice) {
	return func(s *authv1beta1.ResourceSlice) {
		s.Spec.Resources = list(map[corev1.ResourceName]string{"cpu": cpu})
	}
}

// A consumer asks for amounts that nothing may compute with, and then for others.
func TestHostileRequests(t *testing.T) {
	p := newProvider(t)
	for text, amount := range hostile.Quantities() {
		p.change(t, func(s *authv1beta1.ResourceSlice) { s.Spec.Resources = corev1.ResourceList{corev1.ResourceCPU: amount} })
		assert.False(t, p.isGranted(t), "%.30s", text)
		p.change(t, request("1"))
		assert.True(t, p.isGranted(t), "after %.30s", text)
	}
	// What an earlier version, or another controller, has granted.
	bomb := list(map[corev1.ResourceName]string{"cpu": "1e2000000000"})
	p.slice.Spec.Class, p.slice.Status.Resources = "gpu", bomb
	require.NoError(t, p.client.Status().Update(t.Context(), p.slice))
	p.change(t, setClass("gpu"))
	assert.True(t, ptr.Deref(p.quota(t).Spec.Cordoned, false))
	quota := p.quota(t)
	quota.Spec.Resources = bomb
	require.NoError(t, p.client.Update(t.Context(), quota))
	p.slice.Spec.Class, p.slice.Status.Resources = DefaultClass, bomb
	p.change(t, setClass(DefaultClass))
	assert.True(t, p.isGranted(t))
	assert.Equal(t, "1", p.slice.Status.Resources.Cpu().String())
}

// TestAConsumerKeepsNoGrantByARequestThatIsNotDecided has a consumer evade a policy that does not grant
// its slice any more.
func TestAConsumerKeepsNoGrantByARequestThatIsNotDecided(t *testing.T) {
	for name, evade := range map[string]func(*authv1beta1.ResourceSlice){
		"an invalid request": request("-1"), "a class without a controller": setClass("x"),
		"a class that no annotation can have": setClass(authv1beta1.ResourceSliceClass(strings.Repeat("x", 1<<18))),
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			p.change(t, evade)
			assert.False(t, p.isGranted(t))
			p.Policies = chains(t, denies)
			p.change(t, func(s *authv1beta1.ResourceSlice) { request("8")(s); setClass(DefaultClass)(s) })
			assert.False(t, p.isGranted(t))
			p.Policies = chains(t)
			require.NoError(t, p.reconcile(t))
			assert.True(t, p.isGranted(t), "it is granted again when the policies grant it")
		})
	}
}

func TestAClassThatIsDisabledGrantsNoMore(t *testing.T) {
	p := newProvider(t)
	p.Offer.ClassDisabled = true
	require.NoError(t, p.reconcile(t))
	assert.False(t, p.isGranted(t))
}

// TestAnotherControllerGrantsItsClass has the controllers of two further classes.
func TestAnotherControllerGrantsItsClass(t *testing.T) {
	p := newProvider(t)
	grantBy := func(cpu string) {
		p.slice.Status.Resources = list(map[corev1.ResourceName]string{"cpu": cpu})
		accept(&p.slice.Status, grantedMessage, metav1.NewTime(p.clock.Now()))
		require.NoError(t, p.client.Status().Update(t.Context(), p.slice))
		require.NoError(t, p.reconcile(t))
	}
	p.change(t, setClass("gpu"))
	require.False(t, p.isGranted(t))
	grantBy("2")
	assert.True(t, p.isGranted(t))
	assert.Equal(t, "2", p.quota(t).Spec.Resources.Cpu().String())
	p.change(t, request("16"))
	assert.True(t, p.isGranted(t), "the controller of the class decides about the request")
	p.change(t, setClass("x"))
	assert.False(t, p.isGranted(t), "what one class granted is not that of another")
	grantBy("1")
	assert.True(t, p.isGranted(t))
	p.change(t, setClass(""))
	assert.True(t, p.isGranted(t))
	assert.Equal(t, "16", p.quota(t).Spec.Resources.Cpu().String(), "the policies grant the default class")
	p.change(t, setClass(DefaultClass))
	assert.True(t, p.isGranted(t), "both names are those of one class")
}

func TestTheTenantIsCordonedWhateverItsSlicesSay(t *testing.T) {
	p := newProvider(t)
	p.change(t, func(s *authv1beta1.ResourceSlice) {
		s.Annotations = map[string]string{authv1beta1.CordonTenantAnnotation: "false"}
	})
	require.True(t, p.isGranted(t))
	p.setTenant(t, authv1beta1.TenantConditionCordoned)
	assert.Equal(t, authv1beta1.ResourceSliceConditionAccepted, p.condition(authv1beta1.ResourceSliceConditionTypeResources), "an existing slice keeps its condition")
	assert.True(t, *p.quota(t).Spec.Cordoned)
	p.change(t, setClass("x"))
	p.setTenant(t, authv1beta1.TenantConditionActive)
	assert.False(t, p.isGranted(t), "the class changed during the cordon")
	p.change(t, setClass(""))
	assert.True(t, p.isGranted(t))
}

func (p *provider) refuseRequests(t *testing.T) {
	t.Helper()
	requests := &certificatesv1.CertificateSigningRequestList{}
	require.NoError(t, p.client.List(t.Context(), requests))
	require.Len(t, requests.Items, 1)
	refused := &requests.Items[0]
	refused.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Message: "not in this cluster"}}
	require.NoError(t, p.client.Status().Update(t.Context(), refused))
}

// TestCredentialsStayWhileTheyAreValid has renewals that fail.
func TestCredentialsStayWhileTheyAreValid(t *testing.T) {
	for name, fail := range map[string]struct {
		cause func(*testing.T, *provider)
		is    error
	}{
		"the API server does not answer": {func(_ *testing.T, p *provider) { p.unavailable = errors.New("timeout") }, nil},
		"the signer refuses the renewal": {func(t *testing.T, p *provider) { p.refuseRequests(t) }, certificate.ErrRefused},
		"no address is known":            {func(_ *testing.T, p *provider) { p.Endpoint.Override = "" }, certificate.ErrNoEndpoint},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			p.clock.SetTime(certificateEnd.Add(-time.Minute)) // due for renewal
			require.NoError(t, p.reconcile(t))
			fail.cause(t, p)
			issued := p.slice.Status.AuthParams.DeepCopy()
			err := p.reconcile(t)
			require.Error(t, err, "it is tried again")
			if fail.is != nil {
				require.ErrorIs(t, err, fail.is)
			}
			assert.Equal(t, authv1beta1.ResourceSliceConditionAccepted, p.condition(authv1beta1.ResourceSliceConditionTypeAuthentication))
			assert.Equal(t, issued, p.slice.Status.AuthParams)
			assert.True(t, p.isGranted(t))

			p.Policies = chains(t, denies)
			require.Error(t, p.reconcile(t))
			assert.False(t, p.isGranted(t), "the policies decide meanwhile")
			p.Policies = chains(t)
			require.Error(t, p.reconcile(t))
			require.True(t, p.isGranted(t))

			p.clock.SetTime(certificateEnd)
			require.Error(t, p.reconcile(t))
			assert.Equal(t, authv1beta1.ResourceSliceConditionDenied, p.condition(authv1beta1.ResourceSliceConditionTypeAuthentication), "the certificate has ended")
			assert.True(t, *p.quota(t).Spec.Cordoned)
		})
	}
}

func TestWithoutCredentialsAnErrorDenies(t *testing.T) {
	p := newProvider(t)
	p.slice.Status = authv1beta1.ResourceSliceStatus{}
	require.NoError(t, p.client.Status().Update(t.Context(), p.slice))
	p.unavailable = errors.New("timeout")
	require.Error(t, p.reconcile(t))
	assert.Equal(t, authv1beta1.ResourceSliceConditionDenied, p.condition(authv1beta1.ResourceSliceConditionTypeAuthentication))
	assert.Empty(t, p.condition(authv1beta1.ResourceSliceConditionTypeResources))
	p.unavailable = nil
	require.NoError(t, p.reconcile(t))
	assert.True(t, p.isGranted(t))
}
