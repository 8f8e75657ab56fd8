package policymodule_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/consumer/admission/policymodule"
	"github.com/longshore-dev/longshore/host/policy/chain"
	loadedmodule "github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policysource"
	"github.com/longshore-dev/longshore/host/policysource/modules"
	"github.com/longshore-dev/longshore/host/policysource/report"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	soon = 2 * time.Minute
	tick = 20 * time.Millisecond
	// refusal is how the API server begins what the webhook says.
	refusal = "denied the request: "
)

// warnings are what the API server passes on to the person who writes.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

// module is one that sets the hostname, or one that is cut in half.
func module(_ context.Context, _ string, raw []byte, _ modules.Limits) (chain.Policy, error) {
	if string(raw) == "broken" {
		return nil, &loadedmodule.Refusal{Err: errors.New("the module is cut in half: its author must build it again")}
	}
	return &strict{policytest.Native("custom", contract.Manifest{Version: string(raw), Points: []contract.PointManifest{
		{Point: contract.PodMutation, Writes: []contract.WriteRule{{Path: "/spec/hostname", Verbs: contract.Verbs()}}},
	}}, nil)}, nil
}

// defaults is a module for the implicit bindings; no test calls it.
func defaults() chain.Policy {
	manifest := contract.Manifest{Version: "1"}
	for _, point := range contract.CorePoints() {
		manifest.Points = append(manifest.Points, contract.PointManifest{Point: point})
	}
	return policytest.Native("defaults", manifest, nil)
}

type strict struct{ *policytest.Policy }

func (*strict) ValidateSettings(_ context.Context, settings json.RawMessage, _ ...contract.Point) error {
	if string(settings) == `{"bad":true}` {
		return &loadedmodule.Refusal{Err: errors.New("bad must be false")}
	}
	return nil
}

// webhookReport is the key of the component's PolicyComponent.
var webhookReport = client.ObjectKey{Namespace: "longshore", Name: "webhook"}

// site is a real API server with the CRDs, a component, and the webhook as the chart
// registers it.
type site struct {
	t        *testing.T
	admin    client.Client
	warnings warnings
	source   *policysource.Source
	webhook  *httptest.Server
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t}
	kinds, err := scheme.New()
	require.NoError(t, err)
	require.NoError(t, admissionregistrationv1.AddToScheme(kinds))
	api := rest.CopyConfig(planetest.ForTest(t, "rome").RESTConfig())
	api.QPS, api.WarningHandler = -1, &s.warnings
	s.admin, err = client.New(api, client.Options{Scheme: kinds})
	require.NoError(t, err)
	require.NoError(t, s.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "longshore"}}))
	s.start(api, kinds)
	s.register()
	return s
}

// start runs the component and serves its webhook.
func (s *site) start(api *rest.Config, kinds *runtime.Scheme) {
	s.t.Helper()
	mgr, err := ctrl.NewManager(api, ctrl.Options{
		Scheme: kinds, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{"longshore": {}}}}},
	})
	require.NoError(s.t, err)
	s.source, err = policysource.New(policysource.Options{
		Identity: report.Identity{Name: "webhook", Object: webhookReport}, Client: mgr.GetClient(), Clock: clock.RealClock{},
		BuiltIn: defaults(), ModuleNamespaces: []string{"longshore"}, Load: module, Close: func(chain.Policy) {},
	})
	require.NoError(s.t, err)
	require.NoError(s.t, s.source.SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(s.t.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(s.t, mgr.Start(ctx)) })
	s.t.Cleanup(func() { cancel(); done.Wait() })
	require.Eventually(s.t, func() bool { return s.source.Ready() == nil }, soon, tick)
	s.webhook = httptest.NewTLSServer(&admission.Webhook{Handler: &policymodule.Handler{
		Decoder: admission.NewDecoder(kinds), Reader: mgr.GetClient(), Judge: s.source, Namespace: "longshore",
	}})
	s.t.Cleanup(s.webhook.Close)
}

// register takes the registration from the rendered chart, and waits until it is in force.
func (s *site) register() {
	s.t.Helper()
	rendered, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "hack", "demo", "chart", "testdata", "default.golden.yaml"))
	require.NoError(s.t, err)
	registration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for document := range strings.SplitSeq(string(rendered), "\n---\n") {
		if strings.Contains(document, "\nkind: ValidatingWebhookConfiguration\n") {
			require.NoError(s.t, yaml.Unmarshal([]byte(document), registration))
		}
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.webhook.Certificate().Raw})
	var ours []admissionregistrationv1.ValidatingWebhook
	for _, hook := range registration.Webhooks {
		if *hook.ClientConfig.Service.Path != policymodule.Path {
			continue
		}
		url := s.webhook.URL + policymodule.Path
		hook.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority}
		ours = append(ours, hook)
	}
	require.Len(s.t, ours, 2, "policies and modules")
	registration.Webhooks = ours
	require.NoError(s.t, s.admin.Create(s.t.Context(), registration))
	// What is refused as a dry run leaves nothing behind.
	require.Eventually(s.t, func() bool {
		bad := policy("probe", "m", nil)
		bad.Spec.Module.ConfigMap.Namespace = "nowhere"
		cm := configMap("probe", labeled)
		cm.Data = map[string]string{"policy.yaml": "pionts: []"}
		return s.admin.Create(s.t.Context(), bad, client.DryRunAll) != nil && s.admin.Create(s.t.Context(), cm, client.DryRunAll) != nil
	}, soon, tick, "the registration is in force")
}

func holding(content string) func(*corev1.ConfigMap) {
	return func(c *corev1.ConfigMap) { c.BinaryData["module.wasm"] = []byte(content) }
}

func labeledWith(spec string) func(*corev1.ConfigMap) {
	return func(c *corev1.ConfigMap) {
		labeled(c)
		holding("v1")(c)
		c.Data = map[string]string{"policy.yaml": spec}
	}
}

func with(p *policyv1alpha1.OffloadingPolicy, change func(*policyv1alpha1.OffloadingPolicySpec)) *policyv1alpha1.OffloadingPolicy {
	change(&p.Spec)
	return p
}

func TestTheDoorAgainstARealAPIServer(t *testing.T) {
	s := newSite(t)
	require.NoError(t, s.admin.Create(t.Context(), configMap("good", holding("v1"))))
	require.NoError(t, s.admin.Create(t.Context(), policy("elder", "good", nil)))
	s.await("elder", "", true)
	s.warnings.take()

	for name, tc := range map[string]struct {
		before, object client.Object
		// wantDenial is all that the API server says after whose refusal it is.
		wantHook, wantDenial string
		wantWarning          string
	}{
		"a policy whose module is not there yet": {object: policy("early", "later", nil), wantWarning: `this version of policy "early" is not used yet: ConfigMap longshore/later does not exist: the operator must create it with the module in binaryData`},
		"a policy that needs an order": {
			object: policy("younger", "good", nil), wantHook: "policy.validate.longshore.dev",
			wantDenial: `policies "elder" and "younger" both write /spec/hostname at PodMutation`,
		},
		"a policy with settings that its module refuses": {
			object: with(policy("set", "good", nil), func(s *policyv1alpha1.OffloadingPolicySpec) {
				s.Settings = &runtime.RawExtension{Raw: []byte(`{"bad":true}`)}
			}),
			wantHook: "policy.validate.longshore.dev", wantDenial: "spec.settings: bad must be false",
		},
		"a policy from a namespace that is not allowed": {
			object:   with(policy("far", "good", nil), func(s *policyv1alpha1.OffloadingPolicySpec) { s.Module.ConfigMap.Namespace = "default" }),
			wantHook: "policy.validate.longshore.dev", wantDenial: `spec.module.configMap.namespace "default": modules are loaded from [longshore] only; an operator can allow more`,
		},
		"half a module for a policy that there is": {
			before: configMap("good", holding("v1")), object: configMap("good", holding("broken")),
			wantHook: "module.validate.longshore.dev", wantDenial: "the module is cut in half: its author must build it again",
		},
		"a ConfigMap that wants to be a policy, misspelled": {
			object: configMap("short", labeledWith("pionts: []")), wantHook: "module.validate.longshore.dev",
			wantDenial: `ConfigMap short cannot be a policy: policy.yaml: unknown field "pionts"; its author must correct it`,
		},
		"a broken module that no policy names": {object: configMap("unnamed", holding("broken"))},
		"a ConfigMap in another namespace":     {object: configMap("theirs", func(c *corev1.ConfigMap) { labeledWith("pionts: []")(c); c.Namespace = "default" })},
		"a policy that is right":               {object: with(policy("right", "good", nil), func(s *policyv1alpha1.OffloadingPolicySpec) { s.Mode = policyv1alpha1.ModeShadow })},
		"another version that is right too":    {before: configMap("good", holding("v1")), object: configMap("good", holding("v2"))},
	} {
		t.Run(name, func(t *testing.T) {
			write := s.admin.Create
			if tc.before != nil {
				write = func(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
					return s.admin.Update(ctx, o)
				}
			}
			err := write(t.Context(), tc.object)
			warnings := s.warnings.take()
			if tc.wantDenial != "" {
				require.Error(t, err)
				hook, sentence, _ := strings.Cut(err.Error(), refusal)
				assert.Contains(t, hook, `admission webhook "`+tc.wantHook+`"`)
				assert.True(t, strings.HasPrefix(sentence, tc.wantDenial), "%s", err)
				return
			}
			require.NoError(t, err)
			if tc.wantWarning == "" {
				assert.Empty(t, warnings)
			} else {
				assert.Equal(t, []string{tc.wantWarning}, warnings)
			}
			if tc.before == nil {
				require.NoError(t, s.admin.Delete(t.Context(), tc.object))
			}
		})
	}
	s.await("elder", "", true)

	// While the webhook is down, bad objects are stored, and the component reports them.
	s.webhook.Close()
	require.NoError(t, s.admin.Update(t.Context(), configMap("good", holding("broken"))))
	s.await("elder", "ModuleNotLoaded", true)
	require.NoError(t, s.admin.Create(t.Context(), policy("younger", "good", nil)))
	s.await("younger", "ModuleNotLoaded", false)
}

// await waits until the component reports the policy with the reason, by which it decides or not.
func (s *site) await(name, reason string, decides bool) {
	s.t.Helper()
	planetest.Until(s.t, func(t planetest.T) bool {
		component := &policyv1alpha1.PolicyComponent{}
		require.NoError(t, s.admin.Get(t.Context(), webhookReport, component))
		for _, o := range component.Status.Policies {
			if o.Name == name {
				return o.Reason == reason && (o.Digest != "") == decides
			}
		}
		return false
	}, soon, tick, "policy %s: %q", name, reason)
}
