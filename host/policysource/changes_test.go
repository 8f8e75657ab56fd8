package policysource_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/binary"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
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

// awaitCurrent waits until all components decide by the current generation, as kubectl wait
// --for=condition=Ready does.
func (s *site) awaitCurrent(name string) *policyv1alpha1.OffloadingPolicy {
	s.t.Helper()
	var policy *policyv1alpha1.OffloadingPolicy
	s.eventually(func(t planetest.T) bool {
		policy = s.policy(t, name)
		return strings.HasPrefix(ready(policy), "True ") && len(s.observations(t, name)) == len(s.components)
	}, "policy %s is ready", name)
	for component, o := range s.observations(s.t, name) {
		assert.Equal(s.t, policy.Generation, o.Generation, "%s decides by the current generation", component)
	}
	return policy
}

// decideBy checks that all components decide so, without waiting.
func (s *site) decideBy(hostname string) {
	s.t.Helper()
	for _, c := range s.components {
		assert.Equal(s.t, hostname, c.hostname(s.t.Context()))
	}
}

func named(name string, order *int32) *policyv1alpha1.OffloadingPolicy {
	return object(name, func(spec *policyv1alpha1.OffloadingPolicySpec) {
		fromConfigMap(spec)
		spec.Module.ConfigMap.Name, spec.Order = name, order
	})
}

// Changes of policies and modules with two components. No webhook is registered, so bad
// policies reach the components.
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

// moduleChanges are changes of ConfigMaps.
func (s *site) moduleChanges() map[string]func() {
	return map[string]func(){
		"a ConfigMap comes before its policy": func() {
			s.create(configMap("v1"))
			s.create(object("mine", fromConfigMap))
			assert.Equal(s.t, "2/2", s.awaitCurrent("mine").Status.Components)
			s.decideBy("v1")
		},
		"a ConfigMap goes and comes again": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"))
			s.awaitCurrent("mine")
			require.NoError(s.t, s.Admin.Delete(s.t.Context(), configMap("")))
			s.awaitReady("mine", "False ModuleNotFound", newCustom("v1").Digest())
			s.awaitMessage("mine", "ConfigMap longshore/module does not exist")
			s.decideBy("v1")
			s.create(configMap("v2"))
			s.awaitReady("mine", "True Bound", newCustom("v2").Digest())
			s.decideBy("v2")
		},
		"a module is renamed": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"), part("renamed", "v2"))
			s.awaitCurrent("mine")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Module.ConfigMap.Name = "renamed" })
			s.awaitCurrent("mine")
			s.decideBy("v2")
			// The previous ConfigMap has no effect any more.
			s.store("broken")
			require.NoError(s.t, s.Admin.Update(s.t.Context(), part("renamed", "v3")))
			s.awaitHostname("v3")
			s.awaitReady("mine", "True Bound", newCustom("v3").Digest())
		},
		"a broken first version is corrected": func() {
			s.create(object("mine", fromConfigMap), configMap("broken"))
			s.awaitReady("mine", "False ModuleNotLoaded", "")
			s.awaitMessage("mine", half+". The policy was not enforced before, so objects pass without it")
			s.eventually(func(t planetest.T) bool { return s.policy(t, "mine").Status.Components == "0/2" }, "both refuse it")
			s.decideBy("")
			s.store("v1")
			s.awaitCurrent("mine")
			s.decideBy("v1")
		},
		"a component starts while the version is broken": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"))
			s.awaitCurrent("mine")
			s.store("broken")
			s.awaitReady("mine", "False ModuleNotLoaded", newCustom("v1").Digest())
			late := s.start("virtual-kubelet/turin")
			defer s.remove("virtual-kubelet/turin", late)
			s.awaitHeld(late) // It has no previous version.
			s.decideBy("v1")
			s.awaitReason("mine", "Unavailable")
			for component, o := range s.observations(s.t, "mine") {
				assert.Equal(s.t, component != "virtual-kubelet/turin", o.Generation == 1 && o.Digest != "", "%+v", o)
			}
			s.store("v2")
			s.awaitHostname("v2")
			s.eventually(func(t planetest.T) bool { return s.policy(t, "mine").Status.Components == "3/3" }, "all have it")
			assert.Equal(s.t, "v2", late.hostname(s.t.Context()))
		},
		"a default is replaced by a module, which breaks": func() {
			replacing := object("default-podplacement", fromConfigMap)
			s.create(replacing, configMap("v1"))
			s.awaitCurrent("default-podplacement")
			assert.Equal(s.t, []string{"default-podplacement"}, s.webhook.boundTo(s.t.Context(), contract.PodMutation))
			s.decideBy("v1")
			s.store("broken")
			s.awaitReady("default-podplacement", "False ModuleNotLoaded", newCustom("v1").Digest())
			s.decideBy("v1")
			s.edit("default-podplacement", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeDisabled })
			s.awaitCurrent("default-podplacement")
			assert.Empty(s.t, s.webhook.boundTo(s.t.Context(), contract.PodMutation))
			s.edit("default-podplacement", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeEnforce })
			s.awaitReady("default-podplacement", "False ModuleNotLoaded", "")
			assert.Empty(s.t, s.webhook.boundTo(s.t.Context(), contract.PodMutation), "the previous version is mode Disabled")
		},
	}
}

// specChanges are changes of policies.
func (s *site) specChanges() map[string]func() {
	return map[string]func(){
		"settings change": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"))
			s.awaitCurrent("mine")
			for _, suffix := range []string{"-a", "-b"} {
				s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) {
					spec.Settings = settings(`{"suffix":"` + suffix + `"}`)
				})
				s.awaitCurrent("mine")
				s.decideBy("v1" + suffix)
			}
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Settings = nil })
			s.awaitCurrent("mine")
			s.decideBy("v1")
		},
		"settings change for the worse, and better": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"))
			good := s.awaitCurrent("mine").Generation
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Settings = settings(`{"bad":true}`) })
			s.awaitReady("mine", "False InvalidSettings", newCustom("v1").Digest())
			s.awaitMessage("mine", "bad must be false")
			s.eventually(func(t planetest.T) bool { return s.policy(t, "mine").Status.Components == "0/2" }, "both refuse them")
			for component, o := range s.observations(s.t, "mine") {
				assert.Equal(s.t, good, o.Generation, "%s decides by the previous generation", component)
			}
			s.decideBy("v1")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Settings = settings(`{"suffix":"-c"}`) })
			s.awaitCurrent("mine")
			s.decideBy("v1-c")
		},
		"it is switched off and on, and goes": func() {
			s.create(object("mine", fromConfigMap), configMap("v1"))
			s.awaitCurrent("mine")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeDisabled })
			assert.Empty(s.t, s.awaitCurrent("mine").Status.Digest)
			s.decideBy("")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeShadow })
			s.awaitCurrent("mine")
			s.decideBy("")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeEnforce })
			s.awaitCurrent("mine")
			s.decideBy("v1")
			require.NoError(s.t, s.Admin.Delete(s.t.Context(), object("mine", nil)))
			s.awaitHostname("")
		},
	}
}

// orderChanges are changes of two policies that write the same field.
func (s *site) orderChanges() {
	s.create(named("a", ptr.To[int32](10)), part("a", "a"), named("b", ptr.To[int32](20)), part("b", "b"))
	s.awaitCurrent("a")
	s.awaitCurrent("b")
	s.decideBy("b")
	s.edit("a", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Order = ptr.To[int32](30) })
	s.awaitCurrent("a")
	s.decideBy("a")
	s.edit("a", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Order = ptr.To[int32](5) })
	s.awaitCurrent("a")
	s.decideBy("b")
	// Without an order it is refused, with both names, and the previous version decides.
	s.edit("a", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Order = nil })
	s.awaitReady("a", "False OrderNeeded", newCustom("a").Digest())
	for _, want := range []string{`"a"`, `"b"`, "/spec/hostname", "PodMutation"} {
		s.awaitMessage("a", want)
	}
	s.decideBy("b")
	require.NoError(s.t, s.Admin.Delete(s.t.Context(), named("a", nil)))
	require.NoError(s.t, s.Admin.Delete(s.t.Context(), part("a", "")))
	s.create(named("c", nil), part("c", "c"))
	s.awaitReady("c", "False OrderNeeded", "")
	s.awaitMessage("c", `policies "b" and "c" both write /spec/hostname at PodMutation`)
	s.decideBy("b")
	s.edit("c", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Order = ptr.To[int32](30) })
	s.awaitCurrent("c")
	s.decideBy("c")
}

// kubectlWaits runs the commands of docs/howto/operate-policies.md.
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
	assert.Contains(s.t, wait("condition=Ready"), "offloadingpolicy.policy.longshore.dev/mine condition met")
	s.decideBy("v1")
	s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Settings = settings(`{"suffix":"-a"}`) })
	wait("condition=Ready")
	s.decideBy("v1-a")
	s.store("v2")
	wait("jsonpath={.status.digest}=" + newCustom("v2").Digest())
	wait("condition=Ready")
	s.decideBy("v2-a")
}

// A replica that lags is named, and other policies do not wait for it.
func TestReplicasAgainstARealAPIServer(t *testing.T) {
	s := newSite(t)
	replica := s.start("webhook/b")
	s.components = append(s.components, replica)
	s.create(object("mine", fromConfigMap), configMap("v1"))
	assert.Equal(t, "3/3", s.awaitCurrent("mine").Status.Components)

	close(s.webhook.let)
	close(s.kubelet.let)
	s.store("slow")
	var policy *policyv1alpha1.OffloadingPolicy
	s.eventually(func(t planetest.T) bool {
		policy = s.policy(t, "mine")
		return policy.Status.Components == "2/3" && strings.HasPrefix(ready(policy), "False Loading: ")
	}, "the replica that lags does not count")
	assert.Contains(t, ready(policy), "Not current: webhook/b: The module is being loaded. The previous version decides.")
	assert.Equal(t, newCustom("slow").Digest(), policy.Status.Digest)
	assert.Equal(t, "v1", replica.hostname(t.Context()), "the previous version decides")

	// The replica follows another policy meanwhile.
	s.create(object("default-antiaffinity", func(spec *policyv1alpha1.OffloadingPolicySpec) { spec.Mode = policyv1alpha1.ModeDisabled }))
	s.awaitCurrent("default-antiaffinity")

	s.remove("webhook", s.webhook)
	s.components = []*component{s.kubelet, replica}
	s.eventually(func(t planetest.T) bool { return s.policy(t, "mine").Status.Components == "1/2" }, "the removed replica does not count")
	close(replica.let)
	s.awaitReady("mine", "True Bound", newCustom("slow").Digest())

	// A component that stops during a load stops the load and closes its modules.
	ending := s.launch("virtual-kubelet/turin")
	s.eventually(func(t planetest.T) bool { return ending.waiting.Load() == 1 }, "it loads")
	ending.stop()
	assert.Zero(t, ending.waiting.Load())
	assert.Equal(t, int64(1), ending.closed.Load())
}

// clean deletes all policies and modules, and waits until no component decides by them.
func (s *site) clean() {
	s.t.Helper()
	require.NoError(s.t, s.Admin.DeleteAllOf(s.t.Context(), &policyv1alpha1.OffloadingPolicy{}))
	require.NoError(s.t, s.Admin.DeleteAllOf(s.t.Context(), configMap(""), client.InNamespace("longshore")))
	for _, c := range s.components {
		s.eventually(func(t planetest.T) bool {
			return assert.ObjectsAreEqual([]string{"default-podplacement"}, c.boundTo(s.t.Context(), contract.PodMutation)) && c.hostname(s.t.Context()) == ""
		}, "the components follow the deletion")
	}
	// The bindings of a policy in mode Shadow do not show there.
	s.eventually(func(t planetest.T) bool {
		list := &policyv1alpha1.PolicyComponentList{}
		require.NoError(t, s.Admin.List(t.Context(), list))
		return !slices.ContainsFunc(list.Items, func(c policyv1alpha1.PolicyComponent) bool { return len(c.Status.Policies) > 0 })
	}, "the components report the deletion")
}
