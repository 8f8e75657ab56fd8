package kubelet

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

func TestTheSchemeHasTheKindsOfEveryDefinition(t *testing.T) {
	s, err := newScheme()
	require.NoError(t, err)
	a := &App{options: DefaultOptions()}
	// Pods need the policies that a running process has; every plane test has pods.
	a.options.ReflectionWorkers["pod"] = 0
	definitions := a.definitions()
	require.NotEmpty(t, definitions)
	for _, definition := range definitions {
		t.Run(definition.Resource().Name, func(t *testing.T) {
			_, err := engine.NewClient(&rest.Config{}, s, definition)
			require.NoError(t, err)
		})
	}
}
