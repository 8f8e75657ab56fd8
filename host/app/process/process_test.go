package process_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

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

func TestADefinitionIsAllThatIsSpecial(t *testing.T) {
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
		"one of several replicas":   {process.Definition{Name: "the one", Lease: "lease", Alter: keep, Add: nothing}, nil, "lease"},
		"every replica":             {process.Definition{Name: "the one", Alter: keep, Add: nothing, Ready: func(*http.Request) error { return nil }}, nil, ""},
		"what is special is broken": {process.Definition{Name: "the one", Alter: func(*ctrl.Options) error { return broken }, Add: nothing}, broken, ""},
		"what it does is broken":    {process.Definition{Name: "the one", Add: func(ctrl.Manager) error { return broken }}, broken, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen = ctrl.Options{}
			// Nothing is asked before it runs.
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
