package configmap_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/internal/testkit/policycluster"
	"github.com/longshore-dev/longshore/host/policysource/configmap"
)

const (
	soon = 2 * time.Minute
	tick = 20 * time.Millisecond
)

// site is a cluster in which policies are kept from ConfigMaps.
type site struct {
	*policycluster.Cluster

	t *testing.T
}

func newSite(t *testing.T) *site {
	t.Helper()
	return &site{t: t, Cluster: policycluster.Start(t)}
}

// behind is a client whose cache shows an old state of the policy.
type behind struct {
	client.Client
	policy *policyv1alpha1.OffloadingPolicy
}

func (b behind) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if policy, ok := o.(*policyv1alpha1.OffloadingPolicy); ok {
		b.policy.DeepCopyInto(policy)
		return nil
	}
	return b.Client.Get(ctx, key, o, opts...)
}

func (s *site) pass(c client.Client) ctrl.Result {
	s.t.Helper()
	reconciler := &configmap.Reconciler{Client: c, Events: events.NewFakeRecorder(10), Namespace: "longshore"}
	result, err := reconciler.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "longshore", Name: "mine"}})
	require.NoError(s.t, err)
	return result
}

// policy returns the stored policy, nil when there is none.
func (s *site) policy(t planetest.T) *policyv1alpha1.OffloadingPolicy {
	t.Helper()
	policy := &policyv1alpha1.OffloadingPolicy{}
	err := s.Admin.Get(t.Context(), client.ObjectKey{Name: "mine"}, policy)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return policy
}

func (s *site) report(message string) {
	s.t.Helper()
	policy := s.policy(s.t)
	policy.Status.Components = message
	require.NoError(s.t, s.Admin.Status().Update(s.t.Context(), policy))
}

// What happens to a policy between the look at it and the write.
func TestAPolicyThatChangesMeanwhileAgainstARealAPIServer(t *testing.T) {
	s := newSite(t)
	gone := func() { require.NoError(t, s.Admin.Delete(t.Context(), source(""))) }
	changed := func() {
		cm := source("order: 7")
		require.NoError(t, s.Admin.Update(t.Context(), cm))
	}
	recreated := func(labels map[string]string) {
		theirs := s.policy(s.t)
		require.NoError(t, s.Admin.Delete(t.Context(), theirs))
		theirs.UID, theirs.ResourceVersion, theirs.Labels = "", "", labels
		require.NoError(t, s.Admin.Create(t.Context(), theirs))
	}
	for name, tc := range map[string]struct {
		// change of the ConfigMap, and what happens to the policy before that is acted upon.
		change, meanwhile func()
		// wantAgain tells that it is looked at again.
		wantAgain bool
		// wantStays is set if the policy exists afterwards, with wantOrder.
		wantStays bool
		wantOrder int32
	}{
		"deleted":                                   {change: gone, meanwhile: func() {}},
		"deleted after a write of the status":       {change: gone, meanwhile: func() { s.report("news") }, wantAgain: true},
		"deleted after the policy became unmanaged": {change: gone, meanwhile: func() { p := s.policy(s.t); p.Labels = nil; require.NoError(t, s.Admin.Update(t.Context(), p)) }, wantAgain: true, wantStays: true},
		"deleted after the policy was replaced":     {change: gone, meanwhile: func() { recreated(nil) }, wantAgain: true, wantStays: true},
		"deleted after the policy was deleted":      {change: gone, meanwhile: func() { require.NoError(t, s.Admin.Delete(t.Context(), s.policy(s.t))) }},
		"changed after a write of the status":       {change: changed, meanwhile: func() { s.report("news") }, wantAgain: true, wantStays: true, wantOrder: 7},
		"changed":                                   {change: changed, meanwhile: func() {}, wantStays: true, wantOrder: 7},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, s.Admin.Create(t.Context(), source("")))
			s.pass(s.Admin)
			seen := s.policy(s.t)
			require.NotNil(t, seen)
			tc.change()
			tc.meanwhile()
			result := s.pass(behind{Client: s.Admin, policy: seen})
			assert.Equal(t, tc.wantAgain, result.RequeueAfter > 0)
			if tc.wantAgain {
				assert.NotNil(t, s.policy(s.t), "a stale read deletes nothing")
				result = s.pass(s.Admin)
				assert.Zero(t, result)
			}
			policy := s.policy(s.t)
			if assert.Equal(t, tc.wantStays, policy != nil) && tc.wantOrder != 0 {
				assert.Equal(t, tc.wantOrder, *policy.Spec.Order)
			}
			require.NoError(t, client.IgnoreNotFound(s.Admin.Delete(t.Context(), source(""))))
			if policy != nil {
				require.NoError(t, s.Admin.Delete(t.Context(), policy))
			}
		})
	}
}

// The status is written all the time while the controller deletes the policy.
func TestADeletionLogsNoErrorAgainstARealAPIServer(t *testing.T) {
	s := newSite(t)
	var mu sync.Mutex
	var logged []string
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, line)
	}, funcr.Options{}))
	ctx, cancel := context.WithCancel(ctx)
	options := s.Options()
	options.Logger = logr.FromContextOrDiscard(ctx)
	mgr, err := ctrl.NewManager(s.API, options)
	require.NoError(t, err)
	require.NoError(t, (&configmap.Reconciler{Client: mgr.GetClient(), Events: events.NewFakeRecorder(100), Namespace: "longshore"}).SetupWithManager(mgr))
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(t, mgr.Start(ctx)) })
	t.Cleanup(func() { cancel(); done.Wait() })

	for range 5 {
		require.NoError(t, s.Admin.Create(t.Context(), source("")))
		planetest.Until(t, func(t planetest.T) bool { return s.policy(t) != nil }, soon, tick)
		require.NoError(t, s.Admin.Delete(t.Context(), source("")))
		// Each write of the status makes the controller's cache stale.
		writes := 0
		planetest.Until(t, func(t planetest.T) bool {
			policy := s.policy(t)
			if policy == nil {
				return true
			}
			writes++
			policy.Status.ObservedGeneration = int64(writes)
			require.NoError(t, client.IgnoreNotFound(s.Admin.Status().Update(t.Context(), policy)))
			return false
		}, soon, time.Millisecond, "the policy is deleted")
	}
	mu.Lock()
	defer mu.Unlock()
	for _, line := range logged {
		assert.NotContains(t, line, `"error"=`, "the log has an error")
	}
	assert.NotEmpty(t, logged)
}
