package policies_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/internal/testkit/policycluster"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/host/policysource/status"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	patience = 2 * time.Minute
	poll     = 20 * time.Millisecond
)

// start runs a component with the built-in policies, and the controller of the status, against
// a real API server with the objects.
func start(tb testing.TB, objects ...client.Object) (client.Client, *policies.Policies) {
	tb.Helper()
	cluster := policycluster.Start(tb)
	admin := cluster.Admin
	for _, o := range objects {
		require.NoError(tb, admin.Create(tb.Context(), o))
	}

	mgr, err := ctrl.NewManager(cluster.API, cluster.Options())
	require.NoError(tb, err)
	loaded, err := policies.New(tb.Context(), mgr, policies.Options{
		Identity: policies.OfPod(mgr.GetAPIReader(), "webhook", client.ObjectKey{Namespace: "longshore"}),
		CacheDir: tb.TempDir(), ModuleNamespaces: []string{"longshore"},
	})
	require.NoError(tb, err)
	require.NoError(tb, (&status.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Events: events.New(mgr, "longshore-manager", time.Now),
	}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(tb.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(tb, mgr.Start(ctx)) })
	tb.Cleanup(func() {
		cancel()
		done.Wait()
		assert.NoError(tb, loaded.Close(context.WithoutCancel(ctx)))
	})
	require.Eventually(tb, func() bool { return loaded.Ready() == nil }, patience, poll)
	return admin, loaded
}

// The rules of the built-in metadata filter are settings. Reflected metadata follows them, and
// wrong rules change nothing.
func TestTheMetadataFilterFollowsItsSettingsAgainstARealAPIServer(t *testing.T) {
	admin, loaded := start(t)
	labels := func() map[string]string {
		t.Helper()
		kept, _, _, err := view.FilterMetadata(t.Context(), loaded.Chains(), view.MetadataInput{
			APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "web",
			Labels:       map[string]string{"app": "web", "example.com/team": "a", "ci.example.com/run": "7", "internal": "yes"},
			NotReflected: contract.NotReflected{Labels: []string{"internal"}},
			VirtualNode:  contract.VirtualNode{Name: "milan"},
		})
		require.NoError(t, err)
		return kept
	}
	filter := &policyv1alpha1.OffloadingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "default-metadatafilter"},
		Spec: policyv1alpha1.OffloadingPolicySpec{
			Module: policyv1alpha1.ModuleSource{BuiltIn: policyv1alpha1.BuiltInDefault},
			Points: []policyv1alpha1.ExtensionPoint{policyv1alpha1.MetadataFilterPoint},
		},
	}
	stored := func(t planetest.T) *policyv1alpha1.OffloadingPolicy {
		policy := &policyv1alpha1.OffloadingPolicy{}
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(filter), policy))
		return policy
	}
	await := func(reason string) {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool {
			policy := stored(t)
			condition := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.ReadyCondition)
			return condition != nil && condition.Reason == reason && condition.ObservedGeneration == policy.Generation
		}, patience, poll, "the reason is %s", reason)
	}
	all := map[string]string{"app": "web", "example.com/team": "a", "ci.example.com/run": "7"}
	assert.Equal(t, all, labels(), "what the VirtualNode lists")
	require.NoError(t, admin.Create(t.Context(), filter))
	await("Bound")
	assert.Equal(t, all, labels())

	for _, step := range []struct {
		does, settings string
		refused        string
		want           map[string]string
	}{
		{does: "a deny list", settings: `{"rules":[{"drop":["ci.example.com/"]}]}`, want: map[string]string{"app": "web", "example.com/team": "a"}},
		{does: "an allow list for the kind", settings: `{"rules":[{"kinds":["Service"],"in":["labels"],"keep":["app"]}]}`, want: map[string]string{"app": "web"}},
		{does: "rules for another kind", settings: `{"rules":[{"kinds":["ConfigMap"],"drop":["app"]}]}`, want: all},
		{does: "a rule with two verbs", settings: `{"rules":[{"drop":["app"],"keep":["app"]}]}`, refused: "InvalidSettings", want: all},
		{does: "new names", settings: `{"rules":[{"rename":{"example.com/team":"provider.example/tenant"}}]}`, want: map[string]string{"app": "web", "provider.example/tenant": "a", "ci.example.com/run": "7"}},
		{does: "nothing", settings: `{}`, want: all},
	} {
		settings := fmt.Appendf(nil, `[{"op":"add","path":"/spec/settings","value":%s}]`, step.settings)
		require.NoError(t, admin.Patch(t.Context(), stored(t), client.RawPatch(types.JSONPatchType, settings)), step.does)
		if step.refused != "" {
			await(step.refused)
		} else {
			await("Bound")
		}
		assert.Equal(t, step.want, labels(), step.does)
	}
	require.NoError(t, admin.Delete(t.Context(), filter))
}
