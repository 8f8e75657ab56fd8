package main

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/native"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/consumer/admission/podplacement"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// The two webhooks that are compared must do the same.
func TestTheTypicalWebhookDoesWhatThePolicyDoes(t *testing.T) {
	s, err := scheme.New()
	require.NoError(t, err)
	facts := admissionFacts()
	chains := chain.New(chain.Options{})
	require.NoError(t, chains.Swap([]chain.Binding{{
		Name: "placement", Point: contract.PodMutation, Policy: policytest.Native(defaults.Name, defaults.Manifest(), native.Functions()),
	}}))
	data, err := admissionReview()
	require.NoError(t, err)
	var review admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(data, &review))
	size := len(review.Request.Object.Raw)
	assert.InDelta(t, 7000, size, 700, "the pod has %d bytes", size)

	results := map[string]corev1.PodSpec{}
	for name, handler := range map[string]admission.Handler{
		"ours":    &podplacement.Handler{Reader: facts, Policies: chains, RuntimeClassName: "liqo"},
		"typical": &typicalWebhook{decoder: admission.NewDecoder(s), facts: facts},
	} {
		request := admission.Request{AdmissionRequest: *review.Request}
		response := handler.Handle(t.Context(), request)
		require.True(t, response.Allowed, response.Result)
		require.NoError(t, response.Complete(request))
		patch, err := jsonpatch.DecodePatch(response.Patch)
		require.NoError(t, err)
		after, err := patch.Apply(request.Object.Raw)
		require.NoError(t, err)
		var pod corev1.Pod
		require.NoError(t, json.Unmarshal(after, &pod))
		results[name] = pod.Spec
	}
	assert.Equal(t, results["typical"], results["ours"])
}
