package foreigncluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func connection(value networkingv1beta1.ConnectionStatusType) *networkingv1beta1.Connection {
	return &networkingv1beta1.Connection{Status: networkingv1beta1.ConnectionStatus{Value: value}}
}

func TestTheNetworkingModule(t *testing.T) {
	condition := func(kind liqocorev1beta1.ConditionType, status liqocorev1beta1.ConditionStatusType) liqocorev1beta1.Condition {
		return liqocorev1beta1.Condition{Type: kind, Status: status}
	}
	const (
		configurationStatus = liqocorev1beta1.NetworkConfigurationStatusCondition
		connectionStatus    = liqocorev1beta1.NetworkConnectionStatusCondition
		gateway             = liqocorev1beta1.NetworkGatewayPresenceCondition
	)
	ofConfiguration := []liqocorev1beta1.Condition{condition(configurationStatus, "Ready"), condition(connectionStatus, "Established")}
	configuration := &networkingv1beta1.Configuration{}
	for name, tc := range map[string]struct {
		previous liqocorev1beta1.Module
		facts    facts
		enabled  bool
		want     map[liqocorev1beta1.ConditionType]string
	}{
		"without Configuration, it is disabled": {},
		"with a Configuration, it is enabled": {
			facts: facts{configuration: configuration, connection: connection("Connected")}, enabled: true,
			want: map[liqocorev1beta1.ConditionType]string{configurationStatus: "NetworkConfigurationPresence", connectionStatus: "ConnectionEstablished"},
		},
		"without Connection, it is not connected": {
			facts: facts{configuration: configuration}, enabled: true,
			want: map[liqocorev1beta1.ConditionType]string{configurationStatus: "NetworkConfigurationPresence", connectionStatus: "ConnectionMissing"},
		},
		"a Connection without status is pending": {
			facts: facts{configuration: configuration, connection: connection("")}, enabled: true,
			want: map[liqocorev1beta1.ConditionType]string{configurationStatus: "NetworkConfigurationPresence", connectionStatus: "ConnectionPending"},
		},
		"a Connection that fails is an error": {
			facts: facts{configuration: configuration, connection: connection("Error")}, enabled: true,
			want: map[liqocorev1beta1.ConditionType]string{configurationStatus: "NetworkConfigurationPresence", connectionStatus: "ConnectionError"},
		},
		"the conditions of a fabric stay": {
			previous: liqocorev1beta1.Module{Enabled: true, Conditions: []liqocorev1beta1.Condition{{Type: gateway, Reason: "GatewayPresence"}, condition(connectionStatus, "Error")}},
			facts:    facts{configuration: configuration, connection: connection("Connected")}, enabled: true,
			want: map[liqocorev1beta1.ConditionType]string{
				configurationStatus: "NetworkConfigurationPresence", connectionStatus: "ConnectionEstablished", gateway: "GatewayPresence",
			},
		},
		"without Configuration, a fabric enables it": {
			previous: liqocorev1beta1.Module{Enabled: true, Conditions: []liqocorev1beta1.Condition{{Type: connectionStatus, Reason: "ConnectionEstablished"}}},
			enabled:  true, want: map[liqocorev1beta1.ConditionType]string{connectionStatus: "ConnectionEstablished"},
		},
		"after the Configuration, it is disabled": {
			previous: liqocorev1beta1.Module{Enabled: true, Conditions: ofConfiguration},
		},
	} {
		t.Run(name, func(t *testing.T) {
			module := networking(&tc.previous, &tc.facts, metav1.Now())
			assert.Equal(t, tc.enabled, module.Enabled)
			got := map[liqocorev1beta1.ConditionType]string{}
			for _, c := range module.Conditions {
				require.NotContains(t, got, c.Type)
				got[c.Type] = c.Reason
			}
			if tc.want == nil {
				tc.want = map[liqocorev1beta1.ConditionType]string{}
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestTheStatusOfAPeerShowsItsConfiguration(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "rome"}}
	other := networkingv1beta1.Configuration{ObjectMeta: *meta.DeepCopy()}
	other.Name, other.Labels[liqocorev1beta1.RemoteClusterIDLabel] = "paris", "paris"
	fc := &liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}, Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: "rome"}}
	c := fakeclient.Builder(fc, &other).Build()
	r := &Reconciler{Client: c, Clock: testclock.NewFakePassiveClock(time.Unix(1, 0))}
	isEnabled := func() bool {
		t.Helper()
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "rome"}})
		require.NoError(t, err)
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(fc), fc))
		return fc.Status.Modules.Networking.Enabled
	}
	assert.False(t, isEnabled())
	configuration := &networkingv1beta1.Configuration{ObjectMeta: meta}
	require.NoError(t, c.Create(t.Context(), configuration))
	assert.True(t, isEnabled())
	require.NoError(t, c.Delete(t.Context(), configuration))
	assert.False(t, isEnabled())
}
