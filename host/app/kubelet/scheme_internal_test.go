package kubelet

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/kit/address"
)

func TestSchemeHasTheKindsOfEveryDefinition(t *testing.T) {
	s, err := newScheme()
	require.NoError(t, err)
	options := DefaultOptions()
	v := &App{addresses: &address.Table{}, options: &options}
	require.Len(t, v.definitions(), 8, "without access to the API server, no tokens are sent (T33)")
	options.EnableAPIServerSupport = true
	require.Len(t, v.definitions(), 9, "without an address, remote pods reach it over the network (T33)")
	options.HomeAPIServerHost, options.HomeAPIServerPort = "api.rome.example.com", "6443"
	definitions := v.definitions()
	require.Len(t, definitions, 9)
	options.DisableIPReflection = true
	require.Len(t, v.definitions(), 9)
	isDisabled := func(name string) bool {
		for _, definition := range v.definitions() {
			if resource := definition.Resource(); resource.Name == name {
				return resource.RemoteOnce
			}
		}
		t.Fatalf("%s has no definition", name)
		return false
	}
	require.True(t, isDisabled("endpointslice"), "those that were sent are removed (T53)")
	require.False(t, isDisabled("configmap"))
	options.ReflectionWorkers["configmap"] = 0
	require.True(t, isDisabled("configmap"))
	for _, definition := range definitions {
		t.Run(definition.Resource().Name, func(t *testing.T) {
			_, err := engine.NewClient(&rest.Config{}, s, definition)
			require.NoError(t, err)
		})
	}
}

// Amounts of kinds that the scheme does not have are not looked at: what the kubelet API reads of the metrics of a
// provider has amounts.
func TestSchemeHasMetrics(t *testing.T) {
	s, err := newScheme()
	require.NoError(t, err)
	require.True(t, s.Recognizes(metricsv1beta1.SchemeGroupVersion.WithKind("PodMetricsList")))
}
