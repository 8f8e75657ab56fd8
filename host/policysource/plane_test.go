package policysource_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/internal/testkit/policycluster"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/policy/chain"
	policymodule "github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policysource"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	soon = time.Minute
	tick = 20 * time.Millisecond
)

// component is a running Source.
type component struct {
	source *policysource.Source
	closed atomic.Int64
	// let is what loads of the content "slow" wait for.
	let chan struct{}
	// waiting are the loads that do.
	waiting atomic.Int64
	stop    func()
}

// site is a cluster with two components.
type site struct {
	*policycluster.Cluster

	t          *testing.T
	webhook    *component
	kubelet    *component
	components []*component
	// mayReport are the components that there are.
	mayReport atomic.Pointer[map[string]bool]
	// speaker writes conditions.
	speaker atomic.Value
}

func newSite(t *testing.T, before ...client.Object) *site {
	t.Helper()
	s := &site{t: t, Cluster: policycluster.Start(t)}
	s.create(before...)

	s.speaker.Store("webhook")
	s.expect("webhook", "virtual-kubelet/milan")
	s.webhook = s.start("webhook", true)
	s.kubelet = s.start("virtual-kubelet/milan", false)
	s.components = []*component{s.webhook, s.kubelet}
	return s
}

// expect says which components there are.
func (s *site) expect(names ...string) {
	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
	}
	s.mayReport.Store(&known)
}

// start runs a component until the test ends, and waits until it decides.
func (s *site) start(name string, conditions bool) *component {
	s.t.Helper()
	c := s.launch(name, conditions)
	s.eventually(func(t planetest.T) bool { return c.source.Ready() == nil }, "component %s is ready", name)
	return c
}

func (s *site) launch(name string, conditions bool) *component {
	s.t.Helper()
	mgr, err := ctrl.NewManager(s.API, s.Options())
	require.NoError(s.t, err)
	c := &component{let: make(chan struct{})}
	c.source, err = policysource.New(policysource.Options{
		Component: name, Client: mgr.GetClient(), Conditions: conditions, Clock: clock.RealClock{},
		ReportPeriod: time.Second, Events: events.New(mgr, "longshore-policies"),
		Components: func(context.Context) (policysource.Components, error) {
			return policysource.Components{Speaker: s.speaker.Load().(string), Names: *s.mayReport.Load()}, nil
		},
		BuiltIns:         map[string]chain.Policy{policyv1alpha1.BuiltInDefault: builtIn()},
		ModuleNamespaces: []string{"longshore"},
		Load: func(ctx context.Context, _ string, raw []byte, _ policysource.ModuleLimits) (chain.Policy, error) {
			if string(raw) == "slow" {
				c.waiting.Add(1)
				select {
				case <-c.let:
				case <-ctx.Done():
				}
				c.waiting.Add(-1)
			}
			if string(raw) == "broken" || string(raw) == "webhook only" && name != "webhook" {
				return nil, &policymodule.Refusal{Err: errors.New("the module is cut in half: its author must build it again")}
			}
			return newCustom(string(raw)), nil
		},
		Close: func(chain.Policy) { c.closed.Add(1) },
	})
	require.NoError(s.t, err)
	require.NoError(s.t, c.source.SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(s.t.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(s.t, mgr.Start(ctx)) })
	c.stop = func() { cancel(); done.Wait() }
	s.t.Cleanup(c.stop)
	return c
}

func (s *site) create(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		o.SetUID("")
		o.SetGeneration(0)
		o.SetCreationTimestamp(metav1.Time{})
		require.NoError(s.t, s.Admin.Create(s.t.Context(), o))
	}
}

func (s *site) eventually(ok func(t planetest.T) bool, message string, arguments ...any) {
	s.t.Helper()
	planetest.Until(s.t, ok, soon, tick, append([]any{message}, arguments...)...)
}

// hostname is what the policies of a component make of a pod's.
func (c *component) hostname(ctx context.Context) string {
	result, err := c.source.Chains().Evaluate(ctx, chain.Input{Point: contract.PodMutation})
	if err != nil {
		return err.Error()
	}
	spec, _ := result.Object["spec"].(map[string]any)
	name, _ := spec["hostname"].(string)
	return name
}

// asks returns the names of the bindings that a component asks at a point.
func (c *component) asks(ctx context.Context, point contract.Point) []string {
	result, err := c.source.Chains().Evaluate(ctx, chain.Input{Point: point})
	if err != nil {
		return []string{err.Error()}
	}
	return names(result)
}

// awaitHostname waits until all components decide by the version.
func (s *site) awaitHostname(want string) {
	s.t.Helper()
	for _, c := range s.components {
		s.eventually(func(t planetest.T) bool { return c.hostname(s.t.Context()) == want }, "hostname becomes %q", want)
	}
}

func (s *site) policy(t planetest.T, name string) *policyv1alpha1.OffloadingPolicy {
	t.Helper()
	policy := &policyv1alpha1.OffloadingPolicy{}
	require.NoError(t, s.Admin.Get(t.Context(), client.ObjectKey{Name: name}, policy))
	return policy
}

// awaitStatus waits until a condition begins with the text and all components have
// reported the digest.
func (s *site) awaitStatus(name, conditionType, prefix, digest string) *policyv1alpha1.OffloadingPolicy {
	s.t.Helper()
	var policy *policyv1alpha1.OffloadingPolicy
	s.eventually(func(t planetest.T) bool {
		policy = s.policy(t, name)
		condition := meta.FindStatusCondition(policy.Status.Conditions, conditionType)
		if condition == nil || !strings.HasPrefix(string(condition.Status)+" "+condition.Reason+": "+condition.Message, prefix) {
			return false
		}
		for _, observation := range policy.Status.ObservedBy {
			if observation.Digest != digest {
				return false
			}
		}
		return len(policy.Status.ObservedBy) == len(s.components)
	}, "policy %s: %s %s", name, conditionType, prefix)
	return policy
}

func (s *site) store(content string) {
	s.t.Helper()
	stored := configMap(content)
	require.NoError(s.t, s.Admin.Update(s.t.Context(), stored))
}

func TestPoliciesAgainstARealAPIServer(t *testing.T) {
	off := object("default-offloadingpatch", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeDisabled })
	s := newSite(t, off)
	for _, c := range s.components {
		result, err := c.source.Chains().Evaluate(t.Context(), chain.Input{Point: contract.OffloadingPatch})
		require.NoError(t, err)
		assert.Empty(t, result.Decisions, "what was disabled before the start is off from the first decision")
	}

	// The policy comes before its ConfigMap.
	s.create(object("mine", fromConfigMap))
	s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "False ModuleNotFound: ConfigMap longshore/module does not exist", "")
	s.create(configMap("v1"))
	s.awaitHostname("v1")
	policy := s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "True Bound", newCustom("v1").Digest())
	assert.Equal(t, newCustom("v1").Digest(), policy.Status.Digest)
	assert.Equal(t, []policyv1alpha1.ExtensionPoint{policyv1alpha1.PodMutationPoint}, policy.Status.Points)
	assert.Equal(t, "PodMutation", policy.Status.PointList, "for the column")

	// Both components own their entry and nothing else; the API server defaulted the spec.
	owners := map[string]bool{}
	for _, entry := range policy.ManagedFields {
		if entry.Subresource == "status" {
			owners[entry.Manager] = true
		}
	}
	assert.Equal(t, map[string]bool{"longshore-policies": true, "longshore-policies-webhook": true, "longshore-policies-virtual-kubelet/milan": true}, owners)

	// A bad version, then a good one.
	s.store("broken")
	policy = s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "True PreviousVersion", newCustom("v1").Digest())
	assert.Equal(t, newCustom("v1").Digest(), policy.Status.Digest)
	s.store("v2")
	s.awaitHostname("v2")
	s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "True Bound", newCustom("v2").Digest())

	// No news, no writes: the version stands still while nothing happens. Both components
	// see every write, so one more pass of each is over when both have seen the next policy.
	// The questions from above are counted first.
	for others, quiet := 1, false; !quiet; others++ {
		require.Less(s.t, others, 100, "status is not quiet")
		version := s.policy(s.t, "mine").ResourceVersion
		other := fmt.Sprintf("other-%d", others)
		s.create(object(other, func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeDisabled }))
		s.awaitStatus(other, policyv1alpha1.ReadyCondition, "True Disabled", "")
		quiet = version == s.policy(s.t, "mine").ResourceVersion
	}
	s.countedAndTold()
	s.departed()

	// Rename: delete and create under another name.
	require.NoError(t, s.Admin.Delete(t.Context(), object("mine", nil)))
	s.awaitHostname("")
	s.create(object("renamed", fromConfigMap))
	s.awaitHostname("v2")
	for _, c := range s.components {
		s.eventually(func(t planetest.T) bool { return c.closed.Load() == 2 }, "v1 and the first v2 are closed")
	}

	// The default comes back with the deletion of what replaced it.
	require.NoError(t, s.Admin.Delete(t.Context(), object("default-offloadingpatch", nil)))
	for _, c := range s.components {
		s.eventually(func(t planetest.T) bool {
			result, err := c.source.Chains().Evaluate(t.Context(), chain.Input{Point: contract.OffloadingPatch})
			return err == nil && len(result.Decisions) == 1
		}, "the default is restored")
	}
	s.manyAtOnce()
}

// manyAtOnce creates 50 policies that write the same field, each with an order.
func (s *site) manyAtOnce() {
	s.t.Helper()
	const many = 50
	require.NoError(s.t, s.Admin.Delete(s.t.Context(), object("renamed", nil)))
	s.awaitHostname("")
	for i := range many {
		order := int32(i + 10)
		s.create(object(fmt.Sprintf("many-%d", i), func(spec *policyv1alpha1.OffloadingPolicySpec) {
			fromConfigMap(spec)
			spec.Order = &order
		}))
	}
	for _, c := range s.components {
		s.eventually(func(t planetest.T) bool {
			result, err := c.source.Chains().Evaluate(s.t.Context(), chain.Input{Point: contract.PodMutation})
			return err == nil && len(result.Decisions) == many+1
		}, "all are asked")
	}
}

// countedAndTold: counters follow the questions, each component has its own, and events
// tell what was loaded and refused.
func (s *site) countedAndTold() {
	s.t.Helper()
	asked := int64(0)
	s.eventually(func(t planetest.T) bool {
		s.webhook.hostname(s.t.Context())
		asked++
		for _, o := range s.policy(t, "mine").Status.ObservedBy {
			if o.Name == "webhook" && o.Counters != nil && o.Counters.Calls >= 3 {
				return o.Counters.Calls == o.Counters.Changes && o.Counters.Errors == 0
			}
		}
		return false
	}, "the webhook's counters are written")
	s.eventually(func(t planetest.T) bool {
		list := &eventsv1.EventList{}
		require.NoError(t, s.Admin.List(t.Context(), list))
		reasons := map[string]int{}
		for _, e := range list.Items {
			if e.Regarding.Name == "mine" && e.Regarding.Kind == "OffloadingPolicy" {
				reasons[e.Reason]++
			}
		}
		return reasons["Loaded"] == 2 && reasons["ModuleNotFound"] == 1 && reasons["ModuleNotLoaded"] == 1
	}, "events tell of v1, v2, of what was missing and what was broken, once each")
}

// departed: the entry of a component that is no more is removed by the one that writes
// conditions.
func (s *site) departed() {
	s.t.Helper()
	s.eventually(func(t planetest.T) bool {
		return s.policy(t, "mine").Status.RunBy == "2/2 webhook,virtual-kubelet/milan"
	}, "both run it")
	s.expect("webhook")
	s.webhook.source.Report()
	s.eventually(func(t planetest.T) bool {
		status := s.policy(t, "mine").Status
		return len(status.ObservedBy) == 1 && status.ObservedBy[0].Name == "webhook" && status.RunBy == "1/1 webhook"
	}, "the entry is gone")
	s.expect("webhook", "virtual-kubelet/milan")
}
