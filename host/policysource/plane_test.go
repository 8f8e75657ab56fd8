package policysource_test

import (
	"context"
	"encoding/json"
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
	"github.com/longshore-dev/longshore/host/policysource/modules"
	"github.com/longshore-dev/longshore/host/policysource/report"
	"github.com/longshore-dev/longshore/host/policysource/status"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// component is a running Source.
type component struct {
	source *policysource.Source
	closed atomic.Int64
	// let is the channel that loads of the content "slow" wait for.
	let chan struct{}
	// waiting counts these loads.
	waiting atomic.Int64
	stop    func()
}

// site is a cluster with two components and the controller of the status.
type site struct {
	*policycluster.Cluster

	t          *testing.T
	webhook    *component
	kubelet    *component
	components []*component
}

func newSite(t *testing.T, before ...client.Object) *site {
	t.Helper()
	s := &site{t: t, Cluster: policycluster.Start(t)}
	s.create(before...)

	s.startStatus()
	s.webhook = s.start("webhook")
	s.kubelet = s.start("virtual-kubelet/milan")
	s.components = []*component{s.webhook, s.kubelet}
	return s
}

// startStatus runs the controller of the status until the test ends.
func (s *site) startStatus() {
	s.t.Helper()
	mgr, err := ctrl.NewManager(s.API, s.Options())
	require.NoError(s.t, err)
	reconciler := &status.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Events: events.New(mgr, "longshore-manager", time.Now)}
	require.NoError(s.t, reconciler.SetupWithManager(mgr))
	s.run(mgr)
}

// run runs a manager until stop is called or the test ends.
func (s *site) run(mgr ctrl.Manager) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(s.t, mgr.Start(ctx)) })
	stop = func() { cancel(); done.Wait() }
	s.t.Cleanup(stop)
	return stop
}

// start runs a component until the test ends, and waits until it decides.
func (s *site) start(name string) *component {
	s.t.Helper()
	c := s.launch(name)
	s.eventually(func(t planetest.T) bool { return c.source.Ready() == nil }, "component %s is ready", name)
	return c
}

// reportOf returns the key of the PolicyComponent of a component.
func reportOf(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: "longshore", Name: strings.ReplaceAll(name, "/", "-")}
}

func (s *site) launch(name string) *component {
	s.t.Helper()
	mgr, err := ctrl.NewManager(s.API, s.Options())
	require.NoError(s.t, err)
	c := &component{let: make(chan struct{})}
	c.source, err = policysource.New(policysource.Options{
		Identity: report.Identity{Name: name, Object: reportOf(name)}, Client: mgr.GetClient(), Clock: clock.RealClock{},
		BuiltIn:          builtIn(),
		ModuleNamespaces: []string{"longshore"},
		Load: func(ctx context.Context, _ string, raw []byte, _ modules.Limits) (chain.Policy, error) {
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
	c.stop = s.run(mgr)
	return c
}

// remove stops a component for good: its PolicyComponent is deleted with its owner.
func (s *site) remove(name string, c *component) {
	s.t.Helper()
	c.stop()
	key := reportOf(name)
	require.NoError(s.t, s.Admin.Delete(s.t.Context(), &policyv1alpha1.PolicyComponent{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
}

// observations returns what each component reports of a policy.
func (s *site) observations(t planetest.T, name string) map[string]policyv1alpha1.PolicyObservation {
	t.Helper()
	list := &policyv1alpha1.PolicyComponentList{}
	require.NoError(t, s.Admin.List(t.Context(), list))
	out := map[string]policyv1alpha1.PolicyObservation{}
	for i := range list.Items {
		for _, o := range list.Items[i].Status.Policies {
			if o.Name == name {
				out[list.Items[i].Status.Component] = o
			}
		}
	}
	return out
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

// hostname returns the hostname that the policies of a component decide, or the error.
func (c *component) hostname(ctx context.Context) string {
	result, err := c.source.Chains().Evaluate(ctx, chain.Input{Point: contract.PodMutation})
	if err != nil {
		return err.Error()
	}
	spec, _ := result.Object["spec"].(map[string]any)
	name, _ := spec["hostname"].(string)
	return name
}

// boundTo returns the names of the bindings that a component calls at a point.
func (c *component) boundTo(ctx context.Context, point contract.Point) []string {
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

// ready returns the condition Ready of the current generation as "<status> <reason>: <message>".
func ready(policy *policyv1alpha1.OffloadingPolicy) string {
	condition := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.ReadyCondition)
	if condition == nil || condition.ObservedGeneration != policy.Generation {
		return "none"
	}
	return string(condition.Status) + " " + condition.Reason + ": " + condition.Message
}

// awaitMessage waits until the condition Ready has the text.
func (s *site) awaitMessage(name, text string) {
	s.t.Helper()
	s.eventually(func(t planetest.T) bool { return strings.Contains(ready(s.policy(t, name)), text) }, "policy %s: %s", name, text)
}

// awaitReady waits until the condition Ready has the status and reason, and all components
// have reported the digest.
func (s *site) awaitReady(name, statusAndReason, digest string) *policyv1alpha1.OffloadingPolicy {
	s.t.Helper()
	var policy *policyv1alpha1.OffloadingPolicy
	s.eventually(func(t planetest.T) bool {
		policy = s.policy(t, name)
		observations := s.observations(t, name)
		for _, o := range observations {
			if o.Digest != digest {
				return false
			}
		}
		return strings.HasPrefix(ready(policy), statusAndReason+": ") && len(observations) == len(s.components)
	}, "policy %s: %s", name, statusAndReason)
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
	s.awaitReady("mine", "False ModuleNotFound", "")
	s.awaitMessage("mine", "ConfigMap longshore/module does not exist")
	s.create(configMap("v1"))
	s.awaitHostname("v1")
	policy := s.awaitReady("mine", "True Bound", newCustom("v1").Digest())
	assert.Equal(t, newCustom("v1").Digest(), policy.Status.Digest)
	assert.Equal(t, []policyv1alpha1.ExtensionPoint{policyv1alpha1.PodMutationPoint}, policy.Status.Points)
	assert.Equal(t, "2/2", policy.Status.Components)

	// A bad version, then a good one.
	s.store("broken")
	policy = s.awaitReady("mine", "False ModuleNotLoaded", newCustom("v1").Digest())
	assert.Equal(t, newCustom("v1").Digest(), policy.Status.Digest)
	s.store("v2")
	s.awaitHostname("v2")
	s.awaitReady("mine", "True Bound", newCustom("v2").Digest())

	s.isQuiet()
	s.hasEvents()

	// A component that is removed no longer counts.
	late := s.start("virtual-kubelet/turin")
	s.eventually(func(t planetest.T) bool { return s.policy(t, "mine").Status.Components == "3/3" }, "all three decide by it")
	s.remove("virtual-kubelet/turin", late)
	s.eventually(func(t planetest.T) bool { return s.policy(t, "mine").Status.Components == "2/2" }, "its report is gone")

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

// isQuiet checks that nothing is written while nothing changes. All components and the controller
// see the next policy after the previous writes.
func (s *site) isQuiet() {
	s.t.Helper()
	versions := func() []string {
		list := &policyv1alpha1.PolicyComponentList{}
		require.NoError(s.t, s.Admin.List(s.t.Context(), list))
		versions := []string{s.policy(s.t, "mine").ResourceVersion}
		for i := range list.Items {
			for _, o := range list.Items[i].Status.Policies {
				if o.Name == "mine" {
					raw, err := json.Marshal(o)
					require.NoError(s.t, err)
					versions = append(versions, string(raw))
				}
			}
		}
		return versions
	}
	for others, isQuiet := 1, false; !isQuiet; others++ {
		require.Less(s.t, others, 100, "the status is not quiet")
		before := versions()
		other := fmt.Sprintf("other-%d", others)
		s.create(object(other, func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeDisabled }))
		s.awaitReady(other, "True Disabled", "")
		isQuiet = assert.ObjectsAreEqual(before, versions())
	}
}

// hasEvents waits for one event of each version of the policy "mine".
func (s *site) hasEvents() {
	s.t.Helper()
	s.eventually(func(t planetest.T) bool {
		list := &eventsv1.EventList{}
		require.NoError(t, s.Admin.List(t.Context(), list))
		reasons := map[string]int{}
		for _, e := range list.Items {
			if e.Regarding.Name == "mine" && e.Regarding.Kind == "OffloadingPolicy" {
				reasons[e.Reason]++
			}
		}
		return reasons["Bound"] == 2 && reasons["ModuleNotFound"] >= 1 && reasons["ModuleNotLoaded"] >= 1
	}, "events of v1, v2, the missing and the broken module")
}
