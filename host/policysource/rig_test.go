package policysource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	policymodule "github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policysource"
	"github.com/longshore-dev/longshore/host/policysource/modules"
	"github.com/longshore-dev/longshore/host/policysource/report"
	"github.com/longshore-dev/longshore/host/policysource/status"
	"github.com/longshore-dev/longshore/sdk/contract"
)

type answerFunc = func(contract.Request) (contract.Response, error)

func answers(operations ...contract.Operation) answerFunc {
	return func(contract.Request) (contract.Response, error) {
		return contract.Response{Operations: operations}, nil
	}
}

func allVerbs(path string) []contract.WriteRule {
	return []contract.WriteRule{{Path: path, Verbs: contract.Verbs()}}
}

// builtIn answers all core points by merging a label or a node selector.
func builtIn() *policytest.Policy {
	return policytest.Native("defaults", contract.Manifest{Version: "1", Points: []contract.PointManifest{
		{Point: contract.PodMutation, Writes: allVerbs("/spec/tolerations")},
		{Point: contract.OffloadingPatch, Writes: allVerbs("/spec/nodeSelector")},
		{Point: contract.AntiAffinityPreset, Writes: allVerbs("/spec/affinity/podAntiAffinity")},
		{Point: contract.MetadataFilter, Reads: []string{"/notReflected"}, Writes: allVerbs("/metadata/labels")},
	}}, map[contract.Point]func(contract.Request) (contract.Response, error){
		contract.PodMutation:        answers(contract.Ensure("/spec/tolerations", contract.Toleration{Key: "default"})),
		contract.OffloadingPatch:    answers(contract.Merge("/spec/nodeSelector", contract.StringMap{"default": "yes"})),
		contract.AntiAffinityPreset: answers(),
		contract.MetadataFilter:     answers(),
	})
}

// custom is a loaded module. It sets the hostname to the content that it was loaded from, with
// the suffix in its settings.
type custom struct {
	*policytest.Policy
	// fails makes calls trap while it is set; nil never does.
	fails *atomic.Bool
}

func (c *custom) Call(ctx context.Context, export string, request []byte) ([]byte, engine.Stats, error) {
	if c.fails != nil && c.fails.Load() {
		return nil, engine.Stats{}, &engine.CallError{Module: "custom", Point: export, Class: engine.Trap, Err: errors.New("the module crashed: unreachable; its author must correct it; it wrote: panic: boom")}
	}
	return c.Policy.Call(ctx, export, request)
}

func newCustom(content string) *custom {
	return &custom{Policy: policytest.Native("custom", contract.Manifest{Version: content, Points: []contract.PointManifest{
		{Point: contract.PodMutation, Writes: allVerbs("/spec/hostname")},
	}}, map[contract.Point]func(contract.Request) (contract.Response, error){
		contract.PodMutation: func(request contract.Request) (contract.Response, error) {
			var settings struct{ Suffix string }
			if len(request.Settings) > 0 {
				if err := json.Unmarshal(request.Settings, &settings); err != nil {
					return contract.Response{}, err
				}
			}
			return contract.Response{Operations: []contract.Operation{contract.Set("/spec/hostname", contract.String(content+settings.Suffix))}}, nil
		},
	})}
}

// Instances returns the size of its pool.
func (*custom) Instances() (idle, all int) { return 1, 3 }

func (c *custom) ValidateSettings(_ context.Context, settings json.RawMessage, _ ...contract.Point) error {
	if c.Manifest().Version == "needs settings" && len(settings) == 0 {
		return &policymodule.SettingsError{Module: "custom", Message: "spec.settings.suffix is required"}
	}
	if string(settings) == `{"bad":true}` {
		return &policymodule.SettingsError{Module: "custom", Message: "bad must be false"}
	}
	return nil
}

// rig is a Source and the controller of the status, with a fake client and clock.
type rig struct {
	t       *testing.T
	client  client.Client
	source  *policysource.Source
	builtIn *policytest.Policy
	clock   *clocktesting.FakePassiveClock
	events  *events.FakeRecorder
	metrics *prometheus.Registry
	status  *status.Reconciler
	// owner is that of the PolicyComponent.
	owner *metav1.OwnerReference
	// attested checks reports in the sources that are started; nil requires none.
	attested func(context.Context, []byte, string) error
	// stages are those of the sources that are started.
	stages []chain.Stage
	// modulesFail makes the modules fail whose content begins with "ill".
	modulesFail atomic.Bool
	// lacksMemory makes loads fail for lack of memory.
	lacksMemory atomic.Bool

	mu    sync.Mutex
	loads []string
	// waits has the channel that the load of a content waits for.
	waits  map[string]<-chan struct{}
	closed []string
	// reports counts the writes of the PolicyComponent, changes the calls of Changed.
	reports int
	changes int
	// fail, if set, returns the errors of requests.
	fail func(verb string, o any) error
}

// errNoConnection is the error of a request that fails.
var errNoConnection = errors.New("no connection")

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	r := &rig{
		t: t, builtIn: builtIn(), clock: clocktesting.NewFakePassiveClock(epoch),
		events: events.NewFakeRecorder(100), metrics: prometheus.NewRegistry(),
	}
	r.client = fakeclient.Builder(objects...).WithInterceptorFuncs(r.interceptors()).Build()
	r.source = r.newSource()
	r.status = &status.Reconciler{Client: r.client, APIReader: r.client, Events: r.events, Clock: r.clock}
	return r
}

func (r *rig) interceptors() interceptor.Funcs {
	fails := func(verb string, o any) error {
		if r.fail == nil {
			return nil
		}
		return r.fail(verb, o)
	}
	return interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := fails("list", list); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := fails("get", o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if err := fails("apply", o); err != nil {
				return err
			}
			r.reports++
			return c.Apply(ctx, o, opts...)
		},
	}
}

func (r *rig) newSource() *policysource.Source {
	r.t.Helper()
	metrics, err := policysource.NewMetrics(r.metrics)
	require.NoError(r.t, err)
	source, err := policysource.New(policysource.Options{
		Chain: chain.Options{Quarantine: chain.QuarantineOptions{Owners: 1}}, // all objects here are of one namespace
		Identity: report.Identity{Name: "webhook", Object: client.ObjectKey{Namespace: "longshore", Name: "webhook"}, Owner: func(context.Context) (*metav1.OwnerReference, error) {
			return r.owner, nil
		}},
		Client: r.client, Clock: r.clock, Metrics: metrics,
		BuiltIn:          r.builtIn,
		Stages:           r.stages,
		Attested:         r.attested,
		BuiltInBytes:     func() ([]byte, error) { return []byte("default"), nil },
		ModuleNamespaces: []string{"longshore"},
		Changed:          func() { r.changes++ },
		Load: func(ctx context.Context, _ string, raw []byte, limits modules.Limits) (chain.Policy, error) {
			r.mu.Lock()
			r.loads = append(r.loads, string(raw))
			wait := r.waits[string(raw)]
			r.mu.Unlock()
			if wait != nil {
				r.await(ctx, wait)
			}
			if limits.MemoryBytes == 1 {
				return (*custom)(nil), &policymodule.Refusal{Err: errors.New("the module needs more memory than 1 byte: the operator must raise spec.limits.memory")}
			}
			if string(raw) == "broken" {
				return (*custom)(nil), &policymodule.Refusal{Err: errors.New("the module is cut in half: its author must build it again")}
			}
			if r.lacksMemory.Load() {
				return (*custom)(nil), fmt.Errorf("reserving 32 MiB of memory: %w", syscall.ENOMEM)
			}
			loaded := newCustom(string(raw))
			if strings.HasPrefix(string(raw), "ill") {
				loaded.fails = &r.modulesFail
			}
			return loaded, nil
		},
		Close: func(p chain.Policy) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.closed = append(r.closed, p.Manifest().Version)
		},
	})
	require.NoError(r.t, err)
	r.t.Cleanup(source.StopLoads)
	return source
}

// await waits until the channel is closed or the load is canceled.
func (*rig) await(ctx context.Context, wait <-chan struct{}) {
	select {
	case <-wait:
	case <-ctx.Done():
	}
}

// pass reconciles, waits for the loads, and reconciles again.
func (r *rig) pass() error {
	r.t.Helper()
	if err := r.look(); err != nil {
		return err
	}
	r.source.AwaitLoads()
	return r.look()
}

// look reconciles once: the source, and then the status.
func (r *rig) look() error { return r.reconcile("policies") }

func (r *rig) reconcile(request string) error {
	r.t.Helper()
	if _, err := r.source.Reconcile(r.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: request}}); err != nil {
		return err
	}
	_, err := r.status.Reconcile(r.t.Context(), ctrl.Request{})
	return err
}

func (r *rig) mustPass() {
	r.t.Helper()
	require.NoError(r.t, r.pass())
}

// called returns the names of the bindings that are called at a point.
func (r *rig) called(point contract.Point) []string {
	r.t.Helper()
	return names(r.evaluate(point, chain.Attributes{}))
}

func names(result *chain.Result) []string {
	var names []string
	for _, decision := range result.Decisions {
		names = append(names, decision.Binding)
	}
	return names
}

func (r *rig) evaluate(point contract.Point, attributes chain.Attributes) *chain.Result {
	r.t.Helper()
	result, err := r.source.Chains().Evaluate(r.t.Context(), chain.Input{Point: point, Match: attributes})
	require.NoError(r.t, err)
	return result
}

func (r *rig) get(name string) *policyv1alpha1.OffloadingPolicy {
	r.t.Helper()
	policy := &policyv1alpha1.OffloadingPolicy{}
	require.NoError(r.t, r.client.Get(r.t.Context(), client.ObjectKey{Name: name}, policy))
	return policy
}

func (r *rig) edit(name string, change func(*policyv1alpha1.OffloadingPolicy)) {
	r.t.Helper()
	policy := r.get(name)
	change(policy)
	policy.Generation++ // the fake client does not
	require.NoError(r.t, r.client.Update(r.t.Context(), policy))
}

// ready returns the condition Ready as "<status> <reason>: <message>".
func (r *rig) ready(name string) string {
	r.t.Helper()
	condition := meta.FindStatusCondition(r.get(name).Status.Conditions, policyv1alpha1.ReadyCondition)
	if condition == nil {
		return "none"
	}
	return string(condition.Status) + " " + condition.Reason + ": " + condition.Message
}

// message returns the message of the condition Ready.
func (r *rig) message(name string) string {
	r.t.Helper()
	_, message, _ := strings.Cut(r.ready(name), ": ")
	return message
}

// reason returns the status and the reason of the condition Ready.
func (r *rig) reason(name string) string {
	r.t.Helper()
	reason, _, _ := strings.Cut(r.ready(name), ": ")
	return reason
}

func object(name string, change func(*policyv1alpha1.OffloadingPolicySpec)) *policyv1alpha1.OffloadingPolicy {
	policy := &policyv1alpha1.OffloadingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1, CreationTimestamp: metav1.NewTime(epoch)},
		Spec:       policyv1alpha1.OffloadingPolicySpec{Module: policyv1alpha1.ModuleSource{BuiltIn: policyv1alpha1.BuiltInDefault}},
	}
	if change != nil {
		change(&policy.Spec)
	}
	return policy
}

func fromConfigMap(spec *policyv1alpha1.OffloadingPolicySpec) {
	spec.Module = policyv1alpha1.ModuleSource{ConfigMap: &policyv1alpha1.ConfigMapSource{Namespace: "longshore", Name: "module"}}
}

func configMap(content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "module"},
		BinaryData: map[string][]byte{"module.wasm": []byte(content)},
	}
}

// twoKeys is a ConfigMap with two keys that may be the module.
func twoKeys() *corev1.ConfigMap {
	two := configMap("v1")
	two.Name, two.BinaryData["other.wasm"], two.Data = "two-keys", []byte("v2"), map[string]string{"text": "package main"}
	return two
}

func (r *rig) store(content string) {
	r.t.Helper()
	stored := &corev1.ConfigMap{}
	require.NoError(r.t, r.client.Get(r.t.Context(), client.ObjectKey{Namespace: "longshore", Name: "module"}, stored))
	stored.BinaryData["module.wasm"] = []byte(content)
	require.NoError(r.t, r.client.Update(r.t.Context(), stored))
}

func settings(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

const (
	soon = 2 * time.Minute
	tick = 20 * time.Millisecond
)
