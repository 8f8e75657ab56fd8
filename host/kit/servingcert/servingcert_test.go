package servingcert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

const name = "webhook.longshore.svc"

func cluster(objects ...client.Object) client.Client {
	return fakeclient.Builder(append(objects,
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "longshore"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a"}, {Name: "b"}},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "longshore"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "c"}},
		})...).Build()
}

func keeper(c client.Client, clock *testclock.FakeClock) *Keeper {
	return &Keeper{
		Client: c, Clock: clock, Secret: client.ObjectKey{Namespace: "longshore", Name: "cert"}, DNSNames: []string{name},
		Mutating: []string{"longshore"}, Validating: []string{"longshore"}, OnError: func(error) {},
	}
}

// trusted is the API server's view: the certificate that a replica serves, against the
// bundle in the configuration.
func trusted(t *testing.T, c client.Client, k *Keeper, now time.Time) error {
	t.Helper()
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "longshore"}, config))
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(config.Webhooks[0].ClientConfig.CABundle))
	cert, err := k.GetCertificate(&tls.ClientHelloInfo{})
	require.NoError(t, err)
	_, err = cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now})
	return err
}

func TestTwoReplicasShareOneCertificate(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c := cluster()
	first, second := keeper(c, clock), keeper(c, clock)
	require.False(t, first.Ready())
	require.NoError(t, first.Ensure(t.Context()))
	require.NoError(t, second.Ensure(t.Context()))
	assert.Equal(t, first.current.Load().Certificate, second.current.Load().Certificate)
	require.NoError(t, trusted(t, c, first, clock.Now()))
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "longshore"}, validating))
	assert.NotEmpty(t, validating.Webhooks[0].ClientConfig.CABundle)
}

func TestRenewalKeepsThePreviousCA(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c := cluster()
	first, second := keeper(c, clock), keeper(c, clock)
	require.NoError(t, first.Ensure(t.Context()))
	require.NoError(t, second.Ensure(t.Context()))
	before := first.current.Load()

	clock.Step(lifetime * 3 / 4)
	require.NoError(t, first.Ensure(t.Context()))
	assert.NotEqual(t, before.Certificate, first.current.Load().Certificate, "renewed in its last third")
	assert.Equal(t, before.Certificate, second.current.Load().Certificate, "the other has not looked yet")
	require.NoError(t, trusted(t, c, first, clock.Now()))
	require.NoError(t, trusted(t, c, second, clock.Now()), "admission does not fail until it does")
	require.NoError(t, second.Ensure(t.Context()))
	assert.Equal(t, first.current.Load().Certificate, second.current.Load().Certificate)

	clock.Step(lifetime * 3 / 4)
	require.NoError(t, first.Ensure(t.Context()))
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), first.Secret, secret))
	authorities, err := parseBundle(secret.Data[KeyCA])
	require.NoError(t, err)
	assert.Len(t, authorities, 2, "an authority that has ended is not carried along")
}

func TestAnInvalidCertificateIsReplaced(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c := cluster()
	other := keeper(c, clock)
	require.NoError(t, other.Ensure(t.Context()))
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), other.Secret, secret))
	unrelated := keeper(cluster(), clock)
	require.NoError(t, unrelated.Ensure(t.Context()))
	otherSecret := &corev1.Secret{}
	require.NoError(t, unrelated.Client.Get(t.Context(), unrelated.Secret, otherSecret))

	for problem, spoil := range map[string]func(){
		"another authority": func() { secret.Data[KeyCA] = otherSecret.Data[KeyCA] },
		"no authority":      func() { delete(secret.Data, KeyCA) },
		"garbage":           func() { secret.Data[KeyCert] = []byte("garbage") },
	} {
		t.Run(problem, func(t *testing.T) {
			require.NoError(t, c.Get(t.Context(), other.Secret, secret))
			spoil()
			require.NoError(t, c.Update(t.Context(), secret))
			k := keeper(c, clock)
			require.NoError(t, k.Ensure(t.Context()))
			assert.NoError(t, trusted(t, c, k, clock.Now()))
		})
	}
}

func TestANewCertificateIsNotServedBeforeItsCAIsWritten(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c := cluster()
	k := keeper(c, clock)
	require.NoError(t, k.Ensure(t.Context()))
	before := k.current.Load()
	clock.Step(lifetime * 3 / 4)
	k.Mutating = []string{"missing"}
	require.ErrorContains(t, k.Ensure(t.Context()), `"missing"`)
	assert.Same(t, before, k.current.Load(), "the old one is still good, and known to the API server")
}

func TestARecreatedConfigurationGetsTheBundleAtItsEvent(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) // Never steps: no periodic check.
	c := cluster()
	k := keeper(c, clock)
	changes := make(chan struct{}, 1)
	k.Changes = changes
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Start(ctx) }()
	bundle := func() []byte {
		config := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "longshore"}, config); err != nil {
			return nil
		}
		return config.Webhooks[0].ClientConfig.CABundle
	}
	require.Eventually(t, func() bool { return len(bundle()) > 0 }, time.Minute, time.Millisecond)
	recreated := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "longshore"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a"}},
	}
	require.NoError(t, c.Delete(t.Context(), recreated.DeepCopy()))
	require.NoError(t, c.Create(t.Context(), recreated))
	changes <- struct{}{}
	require.Eventually(t, func() bool { return len(bundle()) > 0 }, time.Minute, time.Millisecond)
	cancel()
	assert.NoError(t, <-ended)
}

// A certificate that another controller keeps is served until it expires, and neither replaced nor
// created.
func TestAnExternalCertificateIsOnlyRead(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c := cluster()
	k := keeper(c, clock)
	k.External = true
	require.ErrorContains(t, k.Ensure(t.Context()), "waiting for Secret longshore/cert")
	require.False(t, k.Ready())

	require.NoError(t, keeper(c, clock).Ensure(t.Context()))
	require.NoError(t, k.Ensure(t.Context()))
	require.NoError(t, trusted(t, c, k, clock.Now()))
	stored := func() *corev1.Secret {
		secret := &corev1.Secret{}
		require.NoError(t, c.Get(t.Context(), k.Secret, secret))
		return secret
	}
	before := stored()

	clock.Step(lifetime * 3 / 4)
	require.NoError(t, k.Ensure(t.Context()))
	clock.Step(lifetime)
	require.ErrorContains(t, k.Ensure(t.Context()), "another controller must renew the serving certificate")
	assert.True(t, k.Ready(), "the expired certificate is served until there is another")
	assert.Equal(t, before, stored())

	require.NoError(t, keeper(c, clock).Ensure(t.Context()))
	require.NoError(t, k.Ensure(t.Context()))
	require.NoError(t, trusted(t, c, k, clock.Now()))
}

// A self-signed certificate of another controller comes without the previous authority, which the
// other replicas need until they have read it.
func TestTheRenewalOfAnExternalCertificateKeepsThePreviousCA(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	stored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "cert"}}
	c := cluster(stored.DeepCopy())
	renewExternally := func() {
		other := keeper(cluster(), clock)
		require.NoError(t, other.Ensure(t.Context()))
		issued := &corev1.Secret{}
		require.NoError(t, other.Client.Get(t.Context(), other.Secret, issued))
		require.NoError(t, c.Get(t.Context(), other.Secret, stored))
		stored.Data = issued.Data
		require.NoError(t, c.Update(t.Context(), stored))
	}
	authorities := func() int {
		config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "longshore"}, config))
		found, err := parseBundle(config.Webhooks[0].ClientConfig.CABundle)
		require.NoError(t, err)
		return len(found)
	}
	first, second := keeper(c, clock), keeper(c, clock)
	first.External, second.External = true, true
	renewExternally()
	require.NoError(t, first.Ensure(t.Context()))
	require.NoError(t, second.Ensure(t.Context()))
	require.Equal(t, 1, authorities())

	for range 3 {
		before := second.current.Load()
		renewExternally()
		require.NoError(t, first.Ensure(t.Context()))
		require.Equal(t, before.Certificate, second.current.Load().Certificate, "the other has not looked yet")
		require.NoError(t, trusted(t, c, first, clock.Now()))
		require.NoError(t, trusted(t, c, second, clock.Now()), "admission does not fail until it does")
		require.NoError(t, second.Ensure(t.Context()))
		assert.Equal(t, first.current.Load().Certificate, second.current.Load().Certificate)
		require.NoError(t, first.Ensure(t.Context()))
		assert.Equal(t, 2, authorities(), "the present and the previous one")
	}

	clock.Step(lifetime + time.Minute)
	renewExternally()
	require.NoError(t, first.Ensure(t.Context()))
	assert.Equal(t, 1, authorities(), "an authority that has ended is not carried along")
}
