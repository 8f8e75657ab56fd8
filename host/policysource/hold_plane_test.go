package policysource_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// restart stops both components and starts new ones, which know only what the API server has.
func (s *site) restart() {
	s.t.Helper()
	s.webhook.stop()
	s.kubelet.stop()
	s.webhook = s.start("webhook")
	s.kubelet = s.start("virtual-kubelet/milan")
	s.components = []*component{s.webhook, s.kubelet}
}

// awaitReason waits until the condition Ready has the reason, for the current generation.
func (s *site) awaitReason(name, reason string) {
	s.t.Helper()
	s.eventually(func(t planetest.T) bool {
		return strings.Contains(ready(s.policy(t, name)), " "+reason+": ")
	}, "policy %s: %s", name, reason)
}

// requireHeld checks that all components refuse a pod for the cause.
func (s *site) requireHeld(cause string) {
	s.t.Helper()
	for _, c := range s.components {
		_, err := c.source.Chains().Evaluate(s.t.Context(), chain.Input{Point: contract.PodMutation})
		require.ErrorIs(s.t, err, chain.Unavailable)
		assert.ErrorContains(s.t, err, cause)
	}
}

// awaitHeld waits until a component refuses a pod because the policy is held.
func (s *site) awaitHeld(c *component) {
	s.t.Helper()
	s.eventually(func(t planetest.T) bool {
		_, err := c.source.Chains().Evaluate(s.t.Context(), chain.Input{Point: contract.PodMutation})
		return errors.Is(err, chain.Unavailable)
	}, "the policy is held")
}

func (s *site) enforced(name string) *policyv1alpha1.EnforcedVersion {
	return plan.EnforcedVersion(s.policy(s.t, name))
}

const half = "the module is cut in half: its author must build it again"

// breaks breaks the module of an enforced policy and restarts the components.
func (s *site) breaks(change func(*policyv1alpha1.OffloadingPolicySpec)) {
	s.t.Helper()
	s.create(configMap("v1"), policyWith(change))
	s.awaitCurrent("mine")
	s.store("broken")
	s.awaitReason("mine", "ModuleNotLoaded")
	s.restart()
}

// Two components keep what they enforce over a restart.
func TestRestartsAgainstARealAPIServer(t *testing.T) {
	s := newSite(t)
	tests := s.holding()
	maps.Copy(tests, s.passing())
	for name, does := range tests {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.restart() // what starts in a test ends with it
			defer func() { s.clean(); s.t = nil }()
			does()
		})
	}
}

// holding are the cases in which objects wait for the policy.
func (s *site) holding() map[string]func() {
	return map[string]func(){
		"half a module holds, and a whole one releases": func() {
			s.breaks(func(*policyv1alpha1.OffloadingPolicySpec) {})
			s.requireHeld(half)
			s.awaitReady("mine", "False Unavailable", "")
			s.awaitMessage("mine", half+". The policy was enforced before (generation 1, module custom, "+chain.ShortDigest(newCustom("v1").Digest())+")")
			assert.Equal(s.t, newCustom("v1").Digest(), s.enforced("mine").Digest)
			s.restart()
			s.requireHeld(half)
			s.store("v2")
			s.awaitHostname("v2")
			s.awaitCurrent("mine")
			assert.Equal(s.t, newCustom("v2").Digest(), s.enforced("mine").Digest)
		},
		"a ConfigMap that went holds, and Ignore releases": func() {
			s.create(configMap("v1"), object("mine", fromConfigMap))
			s.awaitCurrent("mine")
			require.NoError(s.t, s.Admin.Delete(s.t.Context(), configMap("")))
			s.awaitReason("mine", "ModuleNotFound")
			s.decideBy("v1")
			s.restart()
			s.requireHeld("ConfigMap longshore/module does not exist")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) {
				spec.FailurePolicy = policyv1alpha1.FailurePolicyIgnore
			})
			s.awaitHostname("")
			assert.Equal(s.t, []string{"default-podplacement", "mine"}, s.webhook.boundTo(s.t.Context(), contract.PodMutation))
		},
		"what one component cannot use holds there, while another decides by it": func() {
			s.create(configMap("webhook only"), object("mine", fromConfigMap))
			s.eventually(func(t planetest.T) bool { return s.webhook.hostname(s.t.Context()) == "webhook only" }, "the webhook has it")
			s.components = []*component{s.kubelet}
			s.awaitHeld(s.kubelet)
			s.requireHeld(half)
			s.awaitReason("mine", "Unavailable")
			s.components = append(s.components, s.webhook)
			s.store("v1")
			s.awaitHostname("v1")
			s.awaitReason("mine", "Bound")
		},
		"what replaced a default holds, and its deletion brings the default back": func() {
			s.create(configMap("v1"), object("default-podplacement", fromConfigMap))
			s.awaitCurrent("default-podplacement")
			s.store("broken")
			s.awaitReason("default-podplacement", "ModuleNotLoaded")
			s.restart()
			s.requireHeld(half)
			require.NoError(s.t, s.Admin.Delete(s.t.Context(), object("default-podplacement", nil)))
			s.awaitHostname("")
			assert.Equal(s.t, []string{"default-podplacement"}, s.webhook.boundTo(s.t.Context(), contract.PodMutation))
		},
	}
}

// passing are the cases in which objects pass without it.
func (s *site) passing() map[string]func() {
	return map[string]func(){
		"Ignore passes, and Fail holds": func() {
			s.breaks(func(spec *policyv1alpha1.OffloadingPolicySpec) {
				spec.FailurePolicy = policyv1alpha1.FailurePolicyIgnore
			})
			s.decideBy("")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) {
				spec.FailurePolicy = policyv1alpha1.FailurePolicyFail
			})
			for _, c := range s.components {
				s.awaitHeld(c)
			}
			s.requireHeld(half)
		},
		"what was never in force passes": func() {
			s.create(configMap("broken"), object("mine", fromConfigMap))
			s.awaitReady("mine", "False ModuleNotLoaded", "")
			s.restart()
			s.decideBy("")
			assert.Nil(s.t, s.enforced("mine"))
			s.store("v1")
			s.awaitHostname("v1")
		},
		"what was switched off and on passes": func() {
			s.create(configMap("v1"), object("mine", fromConfigMap))
			s.awaitCurrent("mine")
			s.edit("mine", mode(policyv1alpha1.ModeDisabled))
			s.awaitCurrent("mine")
			assert.Nil(s.t, s.enforced("mine"), "the record is removed")
			s.store("broken")
			s.edit("mine", mode(policyv1alpha1.ModeEnforce))
			s.awaitReason("mine", "ModuleNotLoaded")
			s.restart()
			s.decideBy("")
		},
	}
}
