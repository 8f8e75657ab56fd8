package process_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/process"
)

func TestValidateReturnsEveryInvalidOption(t *testing.T) {
	require.NoError(t, (&process.Options{ClusterID: "rome", Namespace: "longshore"}).Validate())
	err := (&process.Options{ClusterID: "Rome"}).Validate()
	for _, want := range []string{`--cluster-id: invalid cluster ID "Rome"`, "--liqo-namespace is required"} {
		assert.ErrorContains(t, err, want)
	}
}

// A manager whose informer failed was Ready all the time.
func TestAProcessIsReadyWhenItsCachesAreSynced(t *testing.T) {
	for name, synced := range map[string]bool{"synced": true, "an informer cannot list its kind": false} {
		t.Run(name, func(t *testing.T) {
			err := process.Synced(&informertest.FakeInformers{Synced: &synced})(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
			assert.Equal(t, synced, err == nil, "%v", err)
		})
	}
}

func TestNew(t *testing.T) {
	broken := errors.New("broken")
	var seen ctrl.Options
	keep := func(o *ctrl.Options) error {
		seen = *o
		return nil
	}
	nothing := func(ctrl.Manager) error { return nil }
	for name, tc := range map[string]struct {
		definition process.Definition
		want       error
		wantLease  string
	}{
		"with a lease":    {process.Definition{Name: "the process", Lease: "lease", Alter: keep, Add: nothing}, nil, "lease"},
		"without a lease": {process.Definition{Name: "the process", Alter: keep, Add: nothing, Ready: func(*http.Request) error { return nil }}, nil, ""},
		"Alter fails":     {process.Definition{Name: "the process", Alter: func(*ctrl.Options) error { return broken }, Add: nothing}, broken, ""},
		"Add fails":       {process.Definition{Name: "the process", Add: func(ctrl.Manager) error { return broken }}, broken, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen = ctrl.Options{}
			// New sends no requests.
			app, err := process.New(&process.Options{
				Config: &rest.Config{Host: "https://127.0.0.1:1"}, ClusterID: "rome", Namespace: "longshore", MetricsAddress: "0", HealthProbeAddress: "0",
			}, tc.definition)
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			assert.NotNil(t, app)
			assert.Equal(t, tc.wantLease, seen.LeaderElectionID)
			assert.Equal(t, tc.wantLease != "", seen.LeaderElection)
			assert.Equal(t, "longshore", seen.LeaderElectionNamespace)
			assert.True(t, seen.Scheme.Recognizes(offloadingv1beta1.GroupVersion.WithKind("ShadowPod")))
		})
	}
}

func TestPodIdentity(t *testing.T) {
	for name, tc := range map[string]struct{ pod, uid, want string }{
		"a pod":                                   {"manager-0", "uid-1", "manager-0_uid-1"},
		"a later pod with the same name":          {"manager-0", "uid-2", "manager-0_uid-2"},
		"outside of a pod":                        {"", "", ""},
		"a chart of before, which gives no UID":   {"manager-0", "", ""},
		"a UID without a name is not that of one": {"", "uid-1", ""},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, process.PodIdentity(tc.pod, tc.uid)) })
	}
}
