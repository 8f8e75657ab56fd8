package kubelet

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

func TestSchemeHasTheKindsOfEveryDefinition(t *testing.T) {
	s, err := newScheme()
	require.NoError(t, err)
	options := DefaultOptions()
	v := &virtualNode{shared: &shared{}, options: &options}
	options.EnableAPIServerSupport = true
	require.Len(t, v.definitions(), 7, "without an address of the API server, no tokens are sent (T33)")
	options.HomeAPIServerHost, options.HomeAPIServerPort = "api.rome.example.com", "6443"
	definitions := v.definitions()
	require.Len(t, definitions, 8)
	options.DisableIPReflection = true
	require.Len(t, v.definitions(), 7, "without EndpointSlices")
	for _, definition := range definitions {
		t.Run(definition.Resource().Name, func(t *testing.T) {
			_, err := engine.NewClient(&rest.Config{}, s, definition)
			require.NoError(t, err)
		})
	}
}
