package policysource_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/binary"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// edit changes a policy, whatever its status became meanwhile.
func (s *site) edit(name string, change func(*policyv1alpha1.OffloadingPolicySpec)) {
	s.t.Helper()
	policy := s.policy(s.t, name)
	before := policy.DeepCopy()
	change(&policy.Spec)
	require.NoError(s.t, s.Admin.Patch(s.t.Context(), policy, client.MergeFrom(before)))
}

// awaitRolledOut does what kubectl wait --for=condition=RolledOut does.
func (s *site) awaitRolledOut(name string) *policyv1alpha1.OffloadingPolicy {
	s.t.Helper()
	var policy *policyv1alpha1.OffloadingPolicy
	s.eventually(func(t planetest.T) bool {
		policy = s.policy(t, name)
		condition := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.RolledOutCondition)
		return condition != nil && condition.Status == "True" && condition.ObservedGeneration == policy.Generation && len(policy.Status.ObservedBy) == len(s.components)
	}, "policy %s is rolled out", name)
	for _, o := range policy.Status.ObservedBy {
		assert.Equal(s.t, policy.Generation, o.Generation, "%s decides by the current generation", o.Name)
	}
	return policy
}

// decideBy tells that all components decide so, now and not at some time.
func (s *site) decideBy(hostname string) {
	s.t.Helper()
	for _, c := range s.components {
		assert.Equal(s.t, hostname, c.hostname(s.t.Context()))
	}
}

func settings(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func named(name string, order *int32) *policyv1alpha1.OffloadingPolicy {
	return object(name, func(spec *policyv1alpha1.OffloadingPolicySpec) {
		fromConfigMap(spec)
		spec.Module.ConfigMap.Name, spec.Order = name, order
	})
}

// What operators do to policies and modules, each with two components that follow. No
// webhook is registered, so the components themselves meet what is bad.
func TestChangesAgainstARealAPIServer(t *testing.T) {
	s := newSite(t)
	cases := s.moduleChanges()
	maps.Copy(cases, s.specChanges())
	cases["two policies write the same and swap their order"] = s.orderChanges
	cases["kubectl waits for it"] = s.kubectlWaits
	for name, does := range cases {
		t.Run(name, func(t *testing.T) {
			s.t = t
			defer func() { s.clean(); s.t = nil }()
			does()
		})
	}
}

// moduleChanges are those of what stands in ConfigMaps, or of which.
func (s *site) moduleChanges() map[string]func() {
	return map[string]func(){
		"a ConfigMap comes before its policy": func() {
			s.create(configMap("v1"))
			s.create(object("mine", fromConfigMap))
			assert.Equal(s.t, "2/2 webhook,virtual-kubelet/milan", s.awaitRolledOut("mine").Status.RunBy)
			s.decideBy("v1")
		},
		"a ConfigMap goes and comes again": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"))
			s.awaitRolledOut("mine")
			require.NoError(s.t, s.Admin.Delete(s.t.Context(), configMap("")))
			s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "True PreviousVersion: The previous version is used, because of this one: ConfigMap longshore/module does not exist", newCustom("v1").Digest())
			s.decideBy("v1")
			s.create(configMap("v2"))
			s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "True Bound", newCustom("v2").Digest())
			s.decideBy("v2")
		},
		"a module is renamed": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"), part("renamed", "v2"))
			s.awaitRolledOut("mine")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Module.ConfigMap.Name = "renamed" })
			s.awaitRolledOut("mine")
			s.decideBy("v2")
			// The old name means nothing any more.
			s.store("broken")
			require.NoError(s.t, s.Admin.Update(s.t.Context(), part("renamed", "v3")))
			s.awaitHostname("v3")
			s.awaitStatus("mine", policyv1alpha1.DegradedCondition, "False AsExpected", newCustom("v3").Digest())
		},
		"a broken first version is corrected": func() {
			s.create(object("mine", fromConfigMap), configMap("broken"))
			policy := s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "False ModuleNotLoaded: the module is cut in half: its author must build it again. No version of this policy is in force: objects pass without it until generation 1 or a later one has been loaded once", "")
			assert.Empty(s.t, policy.Status.RunBy)
			s.decideBy("")
			s.store("v1")
			s.awaitRolledOut("mine")
			s.decideBy("v1")
		},
		"a component starts while the version is broken": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"))
			s.awaitRolledOut("mine")
			s.store("broken")
			s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "True PreviousVersion", newCustom("v1").Digest())
			s.expect("webhook", "virtual-kubelet/milan", "virtual-kubelet/turin")
			defer s.expect("webhook", "virtual-kubelet/milan")
			late := s.start("virtual-kubelet/turin", false)
			assert.Contains(s.t, late.hostname(s.t.Context()), `policy "mine" (module custom, `+chain.ShortDigest(newCustom("v1").Digest())+") was enforced before and cannot be used now", "it has no version from before (ADR 24)")
			s.decideBy("v1")
			s.eventually(func(t planetest.T) bool {
				return s.policy(t, "mine").Status.RunBy == "2/3 webhook,virtual-kubelet/milan"
			}, "who has it not is seen")
			for _, o := range s.policy(s.t, "mine").Status.ObservedBy {
				assert.Equal(s.t, o.Name != "virtual-kubelet/turin", o.Generation == 1 && o.Digest != "", "%+v", o)
			}
			s.store("v2")
			s.awaitHostname("v2")
			s.eventually(func(t planetest.T) bool {
				return s.policy(t, "mine").Status.RunBy == "3/3 webhook,virtual-kubelet/milan,virtual-kubelet/turin"
			}, "all have it")
			assert.Equal(s.t, "v2", late.hostname(s.t.Context()))
		},
		"a default is replaced by a module, which breaks": func() {
			replacing := object("default-podplacement", fromConfigMap)
			s.create(replacing, configMap("v1"))
			s.awaitRolledOut("default-podplacement")
			assert.Equal(s.t, []string{"default-podplacement"}, s.webhook.asks(s.t.Context(), contract.PodMutation))
			s.decideBy("v1")
			s.store("broken")
			s.awaitStatus("default-podplacement", policyv1alpha1.ReadyCondition, "True PreviousVersion", newCustom("v1").Digest())
			s.decideBy("v1")
			s.edit("default-podplacement", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeDisabled })
			s.awaitRolledOut("default-podplacement")
			assert.Empty(s.t, s.webhook.asks(s.t.Context(), contract.PodMutation))
			s.edit("default-podplacement", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeEnforce })
			s.awaitStatus("default-podplacement", policyv1alpha1.ReadyCondition, "True PreviousVersion", "")
			assert.Empty(s.t, s.webhook.asks(s.t.Context(), contract.PodMutation), "what it was before this: switched off")
		},
	}
}

// specChanges are those of policies.
func (s *site) specChanges() map[string]func() {
	return map[string]func(){
		"settings change": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"))
			s.awaitRolledOut("mine")
			for _, suffix := range []string{"-a", "-b"} {
				s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) {
					spec.Settings = settings(`{"suffix":"` + suffix + `"}`)
				})
				s.awaitRolledOut("mine")
				s.decideBy("v1" + suffix)
			}
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Settings = nil })
			s.awaitRolledOut("mine")
			s.decideBy("v1")
		},
		"settings change for the worse, and better": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"))
			good := s.awaitRolledOut("mine").Generation
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Settings = settings(`{"bad":true}`) })
			policy := s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "True PreviousVersion: The previous version is used, because of this one: spec.settings: policy module custom refuses its settings, the operator must correct them: bad must be false", newCustom("v1").Digest())
			s.eventually(func(t planetest.T) bool { policy = s.policy(t, "mine"); return policy.Status.RunBy == "0/2" }, "nobody runs what is refused")
			for _, o := range policy.Status.ObservedBy {
				assert.Equal(s.t, good, o.Generation, "%s decides by the generation before", o.Name)
			}
			assert.Equal(s.t, "InvalidSettings", meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.RolledOutCondition).Reason)
			s.decideBy("v1")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Settings = settings(`{"suffix":"-c"}`) })
			s.awaitRolledOut("mine")
			s.decideBy("v1-c")
		},
		"it is switched off and on, and goes": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"))
			s.awaitRolledOut("mine")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeDisabled })
			assert.Empty(s.t, s.awaitRolledOut("mine").Status.RunBy)
			s.decideBy("")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeShadow })
			s.awaitRolledOut("mine")
			s.decideBy("")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeEnforce })
			s.awaitRolledOut("mine")
			s.decideBy("v1")
			require.NoError(s.t, s.Admin.Delete(s.t.Context(), object("mine", nil)))
			s.awaitHostname("")
		},
		// Zeros are written as such: an applied object that loses its last member is null, which
		// the API server refuses.
		"counters begin anew with a version that was never asked": func() {
			s.create(object("mine", fromConfigMap), configMap("v0"))
			s.awaitRolledOut("mine")
			calls := func(t planetest.T) (calls int64, counted bool) {
				for _, o := range s.policy(t, "mine").Status.ObservedBy {
					if o.Name == "webhook" && o.Counters != nil {
						return o.Counters.Calls, true
					}
				}
				return 0, false
			}
			for _, version := range []string{"v1", "v2"} {
				s.eventually(func(t planetest.T) bool {
					s.webhook.hostname(s.t.Context())
					n, _ := calls(t)
					return n > 0
				}, "what was asked is counted")
				s.store(version)
				s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "True Bound", newCustom(version).Digest())
				n, counted := calls(s.t)
				assert.True(s.t, counted)
				assert.Zero(s.t, n)
			}
		},
	}
}

// orderChanges are of two policies that write the same.
func (s *site) orderChanges() {
	s.create(named("a", ptr.To[int32](10)), part("a", "a"), named("b", ptr.To[int32](20)), part("b", "b"))
	s.awaitRolledOut("a")
	s.awaitRolledOut("b")
	s.decideBy("b")
	s.edit("a", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Order = ptr.To[int32](30) })
	s.awaitRolledOut("a")
	s.decideBy("a")
	s.edit("a", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Order = ptr.To[int32](5) })
	s.awaitRolledOut("a")
	s.decideBy("b")
	// Without an order it is refused, which names both, and the version before decides.
	s.edit("a", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Order = nil })
	policy := s.awaitStatus("a", policyv1alpha1.ReadyCondition, "True PreviousVersion", newCustom("a").Digest())
	degraded := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.DegradedCondition)
	assert.Equal(s.t, "OrderNeeded", degraded.Reason)
	for _, want := range []string{`"a"`, `"b"`, "/spec/hostname", "PodMutation"} {
		assert.Contains(s.t, degraded.Message, want)
	}
	s.decideBy("b")
	require.NoError(s.t, s.Admin.Delete(s.t.Context(), named("a", nil)))
	require.NoError(s.t, s.Admin.Delete(s.t.Context(), part("a", "")))
	s.create(named("c", nil), part("c", "c"))
	policy = s.awaitStatus("c", policyv1alpha1.ReadyCondition, "False OrderNeeded", "")
	ready := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.ReadyCondition)
	assert.Contains(s.t, ready.Message, `policies "b" and "c" both write /spec/hostname at PodMutation`)
	s.decideBy("b")
	s.edit("c", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Order = ptr.To[int32](30) })
	s.awaitRolledOut("c")
	s.decideBy("c")
}

// kubectlWaits runs what docs/howto/operate-policies.md tells to wait with.
func (s *site) kubectlWaits() {
	plane, err := binary.Locate(s.t.Context())
	require.NoError(s.t, err)
	kubectl := filepath.Join(s.t.TempDir(), "kubectl")
	require.NoError(s.t, os.Symlink(plane, kubectl))
	wait := func(what string) string {
		command := exec.CommandContext(s.t.Context(), kubectl, "--kubeconfig", s.Kubeconfig, "wait", "offloadingpolicy", "mine", "--for="+what, "--timeout=20s")
		out, err := command.CombinedOutput()
		require.NoError(s.t, err, "%s: %s", what, out)
		return string(out)
	}
	s.create(object("mine", fromConfigMap), configMap("v1"))
	assert.Contains(s.t, wait("condition=RolledOut"), "offloadingpolicy.policy.longshore.dev/mine condition met")
	s.decideBy("v1")
	s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Settings = settings(`{"suffix":"-a"}`) })
	wait("condition=RolledOut")
	s.decideBy("v1-a")
	s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Settings = settings(`{"suffix":"-b"}`) })
	wait(`jsonpath={.status.observedBy[?(@.name=="virtual-kubelet/milan")].generation}=3`)
	assert.Equal(s.t, "v1-b", s.kubelet.hostname(s.t.Context()))
	s.store("v2")
	wait("jsonpath={.status.digest}=" + newCustom("v2").Digest())
	wait("condition=RolledOut")
	s.decideBy("v2-b")
}

// Two replicas of the webhook: one that lags is seen, does not speak for the other, and
// speaks when it is the only one left.
func TestReplicasAgainstARealAPIServer(t *testing.T) {
	s := newSite(t)
	s.expect("webhook", "webhook/b", "virtual-kubelet/milan")
	replica := s.start("webhook/b", true)
	s.components = append(s.components, replica)
	s.create(object("mine", fromConfigMap), configMap("v1"))
	assert.Equal(t, "3/3 webhook×2,virtual-kubelet/milan", s.awaitRolledOut("mine").Status.RunBy)

	close(s.webhook.let)
	close(s.kubelet.let)
	s.store("slow")
	var policy *policyv1alpha1.OffloadingPolicy
	s.eventually(func(t planetest.T) bool {
		policy = s.policy(t, "mine")
		return policy.Status.RunBy == "2/3 webhook,virtual-kubelet/milan"
	}, "the replica that lags is not counted")
	rolledOut := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.RolledOutCondition)
	assert.Equal(t, "Behind", rolledOut.Reason)
	assert.Contains(t, rolledOut.Message, "1 of 3 components do not decide by generation 1: webhook/b (by generation 1 with module "+chain.ShortDigest(newCustom("v1").Digest())+")")
	assert.Equal(t, newCustom("slow").Digest(), policy.Status.Digest)
	assert.Equal(t, "v1", replica.hostname(t.Context()), "the version before decides there")

	// Another policy changes there meanwhile.
	s.create(object("default-antiaffinity", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeDisabled }))
	s.awaitRolledOut("default-antiaffinity")

	s.webhook.stop()
	s.components = []*component{s.kubelet, replica}
	s.speaker.Store("webhook/b")
	s.expect("webhook/b", "virtual-kubelet/milan")
	s.eventually(func(t planetest.T) bool {
		replica.source.Report()
		policy = s.policy(t, "mine")
		loaded := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.LoadedCondition)
		return len(policy.Status.ObservedBy) == 2 && loaded != nil && loaded.Reason == "Loading"
	}, "it speaks for itself now, and the other's entry is gone")
	close(replica.let)
	s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "True Bound", newCustom("slow").Digest())
	s.eventually(func(t planetest.T) bool {
		return s.policy(t, "mine").Status.RunBy == "2/2 webhook,virtual-kubelet/milan"
	}, "it has caught up")

	// One that ends in the middle of a load ends with it, and leaves nothing open.
	ending := s.launch("virtual-kubelet/turin", false)
	s.eventually(func(t planetest.T) bool { return ending.waiting.Load() == 1 }, "it loads")
	ending.stop()
	assert.Zero(t, ending.waiting.Load())
	assert.Equal(t, int64(1), ending.closed.Load())
}

// clean removes all policies and modules, and waits until nobody decides by them.
func (s *site) clean() {
	s.t.Helper()
	require.NoError(s.t, s.Admin.DeleteAllOf(s.t.Context(), &policyv1alpha1.OffloadingPolicy{}))
	require.NoError(s.t, s.Admin.DeleteAllOf(s.t.Context(), configMap(""), client.InNamespace("longshore")))
	for _, c := range s.components {
		s.eventually(func(t planetest.T) bool {
			return assert.ObjectsAreEqual([]string{"default-podplacement"}, c.asks(s.t.Context(), contract.PodMutation)) && c.hostname(s.t.Context()) == ""
		}, "nobody decides by what has gone")
	}
}
