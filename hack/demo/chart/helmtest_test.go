package chart_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/app/check"
	"github.com/longshore-dev/longshore/host/app/scheme"
)

const (
	checkName = "longshore-check"
	// checkTimeout is how long each check is tried. On a busy machine, a request may take a second.
	checkTimeout = 5 * time.Second
)

// testHelmTest runs helm test, and does what a node does with its pod: it runs the command with the
// rights of the pod's service account. No webhook answers here and no manager runs, which the
// command reports: it has the rights to see both.
func (r *release) testHelmTest(t *testing.T) {
	t.Helper()
	testing := action.NewReleaseTesting(r.config(t))
	testing.Namespace, testing.Timeout = "longshore", hookSoon
	done := make(chan error, 1)
	go func() {
		_, deleteHooks, err := testing.Run(releaseName)
		done <- errors.Join(err, deleteHooks())
	}()
	pod := &corev1.Pod{}
	planetest.Until(t, func(t planetest.T) bool {
		return r.admin.Get(t.Context(), client.ObjectKey{Namespace: "longshore", Name: checkName}, pod) == nil
	}, hookSoon, hookTick, "Helm creates the pod")
	assert.Equal(t, []string{"/usr/bin/longshore"}, pod.Spec.Containers[0].Command)
	assert.Equal(t, []string{"check", "--liqo-namespace=longshore"}, pod.Spec.Containers[0].Args)
	assert.Equal(t, checkName, pod.Spec.ServiceAccountName)

	config, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:longshore:" + checkName}
	kinds, err := scheme.New()
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: kinds})
	require.NoError(t, err)
	planetest.Until(t, func(t planetest.T) bool {
		var out bytes.Buffer
		err := check.Run(t.Context(), check.Options{Client: c, Namespace: "longshore", Timeout: checkTimeout, PollInterval: hookTick, Out: &out})
		require.Equal(t, "FAIL the API server reaches the webhook\nFAIL every policy is ready\n", out.String())
		require.ErrorContains(t, err, `failed calling webhook "nsoff.validate.liqo.io"`)
		require.ErrorContains(t, err, "OffloadingPolicy default-podplacement has no current status: the manager has not observed it")
		return true
	}, hookSoon, hookTick, "the bindings are in force")

	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodSucceeded
	require.NoError(t, r.admin.Status().Patch(t.Context(), pod, client.MergeFrom(before)))
	require.NoError(t, <-done)
	planetest.Until(t, func(t planetest.T) bool {
		return apierrors.IsNotFound(r.admin.Get(t.Context(), client.ObjectKey{Namespace: "longshore", Name: checkName}, &corev1.ServiceAccount{}))
	}, hookSoon, hookTick, "the hook's objects are deleted")
}
