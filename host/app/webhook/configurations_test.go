package webhook

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
)

func TestEventsOfWebhookConfigurationsAreDelivered(t *testing.T) {
	informers := &informertest.FakeInformers{Scheme: clientgoscheme.Scheme}
	changes, err := watchConfigurations(t.Context(), informers)
	require.NoError(t, err)
	assert.Empty(t, changes)
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	informer, err := informers.FakeInformerFor(t.Context(), mutating)
	require.NoError(t, err)
	informer.Add(mutating)
	informer.Update(mutating, mutating)
	<-changes
	assert.Empty(t, changes, "events that nothing has read yet are one value")
	informer, err = informers.FakeInformerFor(t.Context(), validating)
	require.NoError(t, err)
	informer.Add(validating)
	<-changes
}
