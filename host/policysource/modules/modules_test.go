package modules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/policy/chain"
	policymodule "github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policysource/modules"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	soon = time.Minute
	tick = time.Millisecond
)

// rig has Modules whose loads end when the test says so, whatever their context.
type rig struct {
	*modules.Modules
	options                   modules.Options
	release                   chan struct{}
	started, running, closed  atomic.Int64
	mostRunning, endedReports atomic.Int64
	mu                        sync.Mutex
}

func newRig(policies int) (*rig, []*policyv1alpha1.OffloadingPolicy) {
	builder := fakeclient.Builder()
	all := make([]*policyv1alpha1.OffloadingPolicy, policies)
	for i := range all {
		name := fmt.Sprintf("policy-%d", i)
		builder.WithObjects(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: name}, BinaryData: map[string][]byte{"module.wasm": []byte(name)},
		})
		all[i] = &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1alpha1.OffloadingPolicySpec{
			Module: policyv1alpha1.ModuleSource{ConfigMap: &policyv1alpha1.ConfigMapSource{Namespace: "longshore", Name: name}},
		}}
	}
	r := &rig{release: make(chan struct{})}
	r.options = modules.Options{
		Client: builder.Build(), Namespaces: []string{"longshore"}, Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
		Load: func(_ context.Context, name string, _ []byte, _ modules.Limits) (chain.Policy, error) {
			r.started.Add(1)
			running := r.running.Add(1)
			defer r.running.Add(-1)
			r.mu.Lock()
			r.mostRunning.Store(max(running, r.mostRunning.Load()))
			r.mu.Unlock()
			<-r.release
			return &plan.Absent{ModuleName: name, Declared: &contract.Manifest{}}, nil
		},
		Close:   func(chain.Policy) { r.closed.Add(1) },
		Loaded:  func(string, error) { r.endedReports.Add(1) },
		Requeue: func(time.Duration) {},
	}
	r.Modules = modules.New(r.options)
	return r, all
}

// get returns the states of the modules that policies name, and their keys.
func (r *rig) get(t *testing.T, policies []*policyv1alpha1.OffloadingPolicy) ([]plan.Module, map[modules.Key]bool) {
	t.Helper()
	states, keys := make([]plan.Module, len(policies)), map[modules.Key]bool{}
	for i, policy := range policies {
		key, state, err := r.Get(t.Context(), policy)
		require.NoError(t, err)
		states[i], keys[key] = state, true
	}
	return states, keys
}

func TestTwoModulesAreLoadedAtATime(t *testing.T) {
	r, policies := newRig(10)
	states, _ := r.get(t, policies)
	for _, state := range states {
		assert.False(t, state.LoadingSince.IsZero())
	}
	require.Eventually(t, func() bool { return r.running.Load() == 2 }, soon, tick)
	close(r.release)
	r.Wait()
	states, _ = r.get(t, policies)
	for i, state := range states {
		assert.Equal(t, policies[i].Name, state.Policy.Name())
	}
	assert.Equal(t, int64(2), r.mostRunning.Load())
	assert.Equal(t, int64(10), r.started.Load(), "each is loaded once")
	assert.Equal(t, int64(10), r.endedReports.Load())
}

func TestAModuleThatNoPolicyNamesIsClosed(t *testing.T) {
	r, policies := newRig(4)
	r.get(t, policies)
	require.Eventually(t, func() bool { return r.running.Load() == 2 }, soon, tick)
	r.Keep(nil, nil)
	close(r.release)
	r.Wait()
	assert.Equal(t, int64(2), r.started.Load(), "loads that waited do not begin")
	assert.Equal(t, int64(2), r.closed.Load(), "the results of the others are closed")
	assert.Zero(t, r.endedReports.Load())

	_, keys := r.get(t, policies[:2])
	r.Wait()
	states, _ := r.get(t, policies[:2])
	r.Keep(keys, map[chain.Policy]bool{states[0].Policy: true})
	assert.Equal(t, int64(2), r.closed.Load())
	r.Keep(nil, nil)
	assert.Equal(t, int64(3), r.closed.Load(), "the chains close the one that they have had")
}

func TestNoLoadBeginsAfterStop(t *testing.T) {
	r, policies := newRig(4)
	r.get(t, policies[:3])
	require.Eventually(t, func() bool { return r.running.Load() == 2 }, soon, tick)
	close(r.release)
	r.Stop()
	states, _ := r.get(t, policies[3:])
	r.Wait()
	assert.False(t, states[0].LoadingSince.IsZero())
	assert.LessOrEqual(t, r.started.Load(), int64(3))
	assert.Zero(t, r.running.Load())
}

// Results are taken or closed, each once, while the worker names and drops modules.
func TestNoModuleIsLostUnderLoad(t *testing.T) {
	r, policies := newRig(20)
	close(r.release)
	for round := range 50 {
		_, keys := r.get(t, policies)
		if round%2 == 0 {
			keys = nil
		}
		r.Keep(keys, nil)
	}
	r.Wait()
	r.Keep(nil, nil)
	assert.Equal(t, r.started.Load(), r.closed.Load())
}

// A module that the component does not call is closed when its manifest is known.
func TestOnlyTheDescriptionOfAModuleThatIsNotCalledIsKept(t *testing.T) {
	r, policies := newRig(2)
	r.options.Serves = func(manifest *contract.Manifest) bool { return manifest.Name == policies[0].Name }
	load := r.options.Load
	r.options.Load = func(ctx context.Context, name string, raw []byte, limits modules.Limits) (chain.Policy, error) {
		_, err := load(ctx, name, raw, limits)
		manifest := contract.Manifest{Version: "1", Points: []contract.PointManifest{{Point: contract.PodMutation}}}
		return policytest.Native(name, manifest, nil), err
	}
	r.Modules = modules.New(r.options)
	close(r.release)
	r.get(t, policies)
	r.Wait()
	states, keys := r.get(t, policies)
	assert.IsType(t, &policytest.Policy{}, states[0].Policy)
	require.IsType(t, &plan.Absent{}, states[1].Policy)
	assert.Equal(t, policies[1].Name, states[1].Policy.Manifest().Name)
	assert.NotEmpty(t, states[1].Policy.Digest())
	assert.Equal(t, int64(1), r.closed.Load())
	r.Keep(keys, map[chain.Policy]bool{states[0].Policy: true, states[1].Policy: true})
	r.get(t, policies)
	r.Wait()
	assert.Equal(t, int64(2), r.started.Load(), "it is not loaded again")
	r.Keep(nil, nil)
	assert.Equal(t, int64(1), r.closed.Load(), "the chains close the one that they have had")
}

// The description does not answer for the module's check of settings.
func TestSettingsThatOnlyADescriptionHasSeenAreNotApproved(t *testing.T) {
	r, policies := newRig(1)
	r.options.Serves = func(*contract.Manifest) bool { return false }
	load := r.options.Load
	r.options.Load = func(ctx context.Context, name string, raw []byte, limits modules.Limits) (chain.Policy, error) {
		_, err := load(ctx, name, raw, limits)
		return refusing{policytest.Native(name, contract.Manifest{Points: []contract.PointManifest{{Point: contract.PodMutation}}}, nil)}, err
	}
	r.Modules = modules.New(r.options)
	close(r.release)
	r.get(t, policies)
	r.Wait()
	states, _ := r.get(t, policies)
	require.Nil(t, states[0].Problem)
	_, problem, err := r.Judge(t.Context(), policies[0], nil)
	require.NoError(t, err)
	require.NotNil(t, problem)
	assert.Equal(t, plan.ReasonInvalidSettings, problem.Reason)
}

// A load that takes longer than a caller can wait holds up neither the answer nor the next policy
// for ever; its verdict is there for the retry.
func TestJudgeEndsWithItsContext(t *testing.T) {
	r, policies := newRig(1)
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan error)
	go func() {
		_, _, err := r.Judge(ctx, policies[0], nil)
		answers <- err
	}()
	require.Eventually(t, func() bool { return r.running.Load() == 1 }, soon, tick)
	cancel()
	select {
	case err := <-answers:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(soon):
		t.Fatal("Judge waits for the load")
	}
	close(r.release)
	module, problem, err := r.Judge(t.Context(), policies[0], nil)
	require.NoError(t, err)
	require.Nil(t, problem)
	assert.Equal(t, policies[0].Name, module.Name())
	assert.Equal(t, int64(1), r.started.Load(), "the load was not in vain")
	assert.Equal(t, int64(1), r.closed.Load())
}

func TestNoModuleIsJudgedAfterStop(t *testing.T) {
	r, policies := newRig(1)
	r.Stop()
	_, _, err := r.Judge(t.Context(), policies[0], nil)
	require.ErrorIs(t, err, modules.ErrStopped)
	assert.Zero(t, r.started.Load())
}

// What panics on a module, such as the engine's validation, ends no component: the module is
// refused.
func TestAPanicRefusesTheModule(t *testing.T) {
	r, policies := newRig(2)
	r.options.Load = func(context.Context, string, []byte, modules.Limits) (chain.Policy, error) {
		panic("index out of range\x1b[2J")
	}
	r.Modules = modules.New(r.options)
	r.get(t, policies[:1])
	r.Wait()
	states, _ := r.get(t, policies[:1])
	_, judged, err := r.Judge(t.Context(), policies[1], nil)
	require.NoError(t, err)
	now, err := modules.LoadNow(t.Context(), r.options, policies[1])
	require.NoError(t, err)
	for _, problem := range []*plan.Problem{states[0].Problem, judged, now.Problem} {
		require.NotNil(t, problem)
		assert.Equal(t, plan.ReasonModuleNotLoaded, problem.Reason)
		assert.EqualError(t, problem.Err, "the module made Longshore crash (index out of range [2J): its author must report this, and can build it with another compiler")
		assert.True(t, policymodule.AtFault(problem.Err), "it would be the same again")
	}
}

// refusing is a module that accepts no settings.
type refusing struct{ *policytest.Policy }

func (refusing) ValidateSettings(context.Context, json.RawMessage, ...contract.Point) error {
	return &policymodule.SettingsError{Module: "refusing", Message: "no"}
}
