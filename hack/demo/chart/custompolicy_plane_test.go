package chart_test

import (
	"context"
	"encoding/base64"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/chart"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/app/process"
	appscheme "github.com/longshore-dev/longshore/host/app/scheme"
)

// Policies of the values, with a module in the values and with one in a ConfigMap, are loaded by
// a component that has the rights of the webhook, and become ready.
func TestCustomPoliciesBecomeReadyAgainstARealAPIServer(t *testing.T) {
	t.Parallel()
	config, admin, _ := cluster(t)
	module, err := os.ReadFile("../../../conformance/frozen/modules/current.wasm")
	require.NoError(t, err)
	values := func(label string) map[string]any {
		return map[string]any{"clusterID": "rome", "policies": map[string]any{"custom": map[string]any{
			"inline":   map[string]any{"module": map[string]any{"base64": base64.StdEncoding.EncodeToString(append(module, label...))}, "order": 1},
			"existing": map[string]any{"module": map[string]any{"configMap": map[string]any{"name": "mine"}}, "order": 2, "mode": "Shadow"},
		}}}
	}
	install := func(label string) {
		t.Helper()
		objects, err := chart.Render(values(label), chart.Options{})
		require.NoError(t, err)
		for _, object := range objects {
			switch object.GetKind() {
			case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap", "OffloadingPolicy":
				require.NoError(t, apply(t, admin, object), object.GetName())
			}
		}
	}
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "mine"}, BinaryData: map[string][]byte{"module.wasm": module},
	}))
	install("")
	runPolicies(t, config)
	runManagerOf(t, config, "rome")
	ready := func(name string) (digest string) {
		planetest.Until(t, func(t planetest.T) bool {
			policy := &policyv1alpha1.OffloadingPolicy{}
			require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: name}, policy))
			condition := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.ReadyCondition)
			digest = policy.Status.Digest
			require.NotNil(t, condition)
			require.Equal(t, metav1.ConditionTrue, condition.Status, "%s: %s", condition.Reason, condition.Message)
			return condition.ObservedGeneration == policy.Generation
		}, established, poll, "policy %s is ready", name)
		return digest
	}
	for _, name := range []string{"inline", "existing", "default-podplacement"} {
		ready(name)
	}
	t.Run("an upgrade replaces the module", func(t *testing.T) {
		before := ready("inline")
		// A custom section without content.
		install("\x00\x02\x01x")
		assert.NotEqual(t, before, ready("inline"))
	})
}

// runPolicies runs what loads policies in the webhook, with the rights of its account.
func runPolicies(t *testing.T, config *rest.Config) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:longshore:longshore-webhook"}
	scheme, err := appscheme.New()
	require.NoError(t, err)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: policies.CacheOf([]string{"longshore"})}},
	})
	require.NoError(t, err)
	loaded, err := policies.New(t.Context(), mgr, policies.Options{
		Identity: policies.OfPod(mgr.GetAPIReader(), "webhook", client.ObjectKey{Namespace: "longshore"}),
		CacheDir: t.TempDir(), ModuleNamespaces: []string{"longshore"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
		assert.NoError(t, loaded.Close(context.WithoutCancel(ctx)))
	})
}

// runManagerOf runs the manager of a cluster with the rights of its account.
func runManagerOf(t *testing.T, config *rest.Config, clusterID string) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:longshore:longshore-manager"}
	app, err := manager.New(manager.Options{ShadowPodWorkers: 2, ShadowEndpointSliceWorkers: 2, PodSecurityLevel: "baseline", Options: process.Options{
		Config: config, ClusterID: clusterID, Namespace: "longshore", MetricsAddress: "0", HealthProbeAddress: "0",
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
}
