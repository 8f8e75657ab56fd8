package foreigncluster

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func TestPauses(t *testing.T) {
	for name, tc := range map[string]struct {
		failures       int
		interval, want time.Duration
	}{
		"the peer answers":             {0, 15 * time.Second, 15 * time.Second},
		"a first failure":              {1, 15 * time.Second, 3 * time.Second},
		"it does not answer":           {2, 15 * time.Second, 15 * time.Second},
		"it still does not":            {3, 15 * time.Second, 30 * time.Second},
		"it has not for long":          {1000, 15 * time.Second, time.Minute},
		"an interval beyond the limit": {9, time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, pauseAfter(tc.failures, tc.interval))
		})
	}
}

func TestOneLostProbeIsNoOutage(t *testing.T) {
	fails := errors.New("timeout")
	for name, tc := range map[string]struct {
		before   liqocorev1beta1.ConditionStatusType
		failures int
		err      error
		want     liqocorev1beta1.ConditionStatusType
	}{
		"it answers the first time":          {"", 0, nil, liqocorev1beta1.ConditionStatusEstablished},
		"it does not answer the first time":  {"", 1, fails, liqocorev1beta1.ConditionStatusError},
		"one probe is lost":                  {liqocorev1beta1.ConditionStatusEstablished, 1, fails, ""},
		"two are lost":                       {liqocorev1beta1.ConditionStatusEstablished, 2, fails, liqocorev1beta1.ConditionStatusError},
		"it still does not answer":           {liqocorev1beta1.ConditionStatusError, 5, fails, ""},
		"it answers again":                   {liqocorev1beta1.ConditionStatusError, 0, nil, liqocorev1beta1.ConditionStatusEstablished},
		"it still answers":                   {liqocorev1beta1.ConditionStatusEstablished, 0, nil, ""},
		"it answers after an unknown status": {liqocorev1beta1.ConditionStatusNone, 0, nil, liqocorev1beta1.ConditionStatusEstablished},
	} {
		t.Run(name, func(t *testing.T) {
			fc := &liqocorev1beta1.ForeignCluster{}
			if tc.before != "" {
				fc.Status.Conditions = []liqocorev1beta1.Condition{{Type: liqocorev1beta1.APIServerStatusCondition, Status: tc.before}}
			}
			got := judge(fc, tc.failures, tc.err)
			if tc.want == "" {
				assert.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			assert.Equal(t, tc.want, got.Status)
		})
	}
}

// apiServer is one that answers with a status, and counts what it is asked.
type apiServer struct {
	*httptest.Server
	status atomic.Int64
	asked  atomic.Int64
	path   atomic.Value
	// hangs is set if it answers nothing but whether it lives.
	hangs atomic.Bool
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.status.Store(http.StatusOK)
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.path.Store(r.Method + " " + r.URL.RequestURI())
		if s.hangs.Load() && r.URL.Path != "/livez" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Location", "https://"+r.Host+"/elsewhere")
		w.WriteHeader(int(s.status.Load()))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) kubeconfig(t *testing.T) *corev1.Secret {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["milan"] = &clientcmdapi.Cluster{
		Server: s.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	}
	config.AuthInfos["rome"] = &clientcmdapi.AuthInfo{Token: "token"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "milan", AuthInfo: "rome"}
	config.CurrentContext = "c"
	content, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeconfig-controlplane-milan", Namespace: "liqo-tenant-milan", Labels: map[string]string{
			"liqo.io/remote-cluster-id": "milan", "liqo.io/identity-type": "ControlPlane",
		}, Annotations: map[string]string{"liqo.io/remote-tenant-namespace": "liqo-tenant-rome"}},
		Data: map[string][]byte{"kubeconfig": content},
	}
}

const probeRequest = "GET /apis/authentication.liqo.io/v1beta1/namespaces/liqo-tenant-rome/resourceslices?limit=1"

// A provider that says that it lives, and answers nothing else, keeps what waits for its answers.
func TestAProviderThatOnlySaysThatItLivesDoesNotAnswer(t *testing.T) {
	server := newAPIServer(t)
	server.hangs.Store(true)
	p := &Prober{Timeout: 50 * time.Millisecond}
	known, err := p.peer("milan", server.kubeconfig(t))
	require.NoError(t, err)
	require.Error(t, p.probe(t.Context(), known))
	assert.Equal(t, probeRequest, server.path.Load())
}

func TestProbes(t *testing.T) {
	server := newAPIServer(t)
	fc := &liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: "milan"}}
	secret := server.kubeconfig(t)
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	p := &Prober{
		Client: fakeclient.Builder(fc, secret).Build(), Clock: clock,
		Interval: 15 * time.Second, Timeout: time.Minute,
	}
	probe := func() time.Duration {
		t.Helper()
		result, err := p.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "milan"}})
		require.NoError(t, err)
		return result.RequeueAfter
	}
	condition := func() *liqocorev1beta1.Condition {
		t.Helper()
		require.NoError(t, p.Client.Get(t.Context(), client.ObjectKeyFromObject(fc), fc))
		if len(fc.Status.Conditions) == 0 {
			return nil
		}
		return &fc.Status.Conditions[0]
	}

	assert.Zero(t, probe())
	assert.Nil(t, condition(), "an API server refuses a status without role, which the reconciler writes")
	assert.Zero(t, server.asked.Load(), "the condition is not delayed to the second probe")
	before := fc.DeepCopy()
	fc.Status.Role = liqocorev1beta1.ProviderRole
	require.NoError(t, p.Client.Status().Update(t.Context(), fc))
	assert.True(t, appears.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: fc}))
	assert.False(t, appears.Update(event.UpdateEvent{ObjectOld: fc, ObjectNew: fc}))

	pause := probe()
	assert.Equal(t, probeRequest, server.path.Load())
	assert.Equal(t, reasonAPIServerReady, condition().Reason)
	assert.InDelta(t, 15*time.Second, pause, float64(2*time.Second), "the interval, with jitter")
	assert.Equal(t, pause, probe(), "events do not make it ask more often")
	assert.EqualValues(t, 1, server.asked.Load())

	for _, status := range []int64{http.StatusFound, http.StatusUnauthorized} {
		server.status.Store(status)
		clock.Step(time.Minute)
		assert.Less(t, probe(), 5*time.Second, "a first failure is checked again soon")
		assert.Equal(t, reasonAPIServerReady, condition().Reason)
		clock.Step(time.Minute)
		probe()
		assert.Equal(t, reasonAPIServerNotReady, condition().Reason)
		assert.Equal(t, probeRequest, server.path.Load(), "redirections are not followed")

		server.status.Store(http.StatusForbidden)
		clock.Step(time.Minute)
		probe()
		assert.Equal(t, reasonAPIServerReady, condition().Reason, "an identity without the right to the path is accepted")
	}

	secret.Data["kubeconfig"] = []byte("{")
	require.NoError(t, p.Client.Update(t.Context(), secret))
	probe()
	probe()
	assert.Equal(t, reasonAPIServerNotReady, condition().Reason)

	require.NoError(t, p.Client.Delete(t.Context(), secret))
	assert.Zero(t, probe())
	assert.Nil(t, condition(), "a peer that is not a provider has no such condition")
}

// A kubeconfig that was written by hand may have neither TLS nor credentials.
func TestAProbeDoesNotChangeTheDefaultClient(t *testing.T) {
	config := clientcmdapi.NewConfig()
	config.Clusters["milan"] = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}
	config.AuthInfos["rome"] = &clientcmdapi.AuthInfo{}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "milan", AuthInfo: "rome"}
	config.CurrentContext = "c"
	content, err := clientcmd.Write(*config)
	require.NoError(t, err)
	p := &Prober{}
	known, err := p.peer("milan", &corev1.Secret{Data: map[string][]byte{"kubeconfig": content}})
	require.NoError(t, err)
	assert.NotSame(t, http.DefaultClient, known.http)
	assert.Nil(t, http.DefaultClient.Transport)
}
