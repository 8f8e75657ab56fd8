package policysource_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// restart ends both components and starts them again: what they know is in the API server.
func (s *site) restart() {
	s.t.Helper()
	s.webhook.stop()
	s.kubelet.stop()
	s.webhook = s.start("webhook", true)
	s.kubelet = s.start("virtual-kubelet/milan", false)
	s.components = []*component{s.webhook, s.kubelet}
}

// awaitCondition waits until the condition has the reason, for the latest generation.
func (s *site) awaitCondition(name, conditionType, reason string) {
	s.t.Helper()
	s.eventually(func(t planetest.T) bool {
		policy := s.policy(t, name)
		condition := meta.FindStatusCondition(policy.Status.Conditions, conditionType)
		return condition != nil && condition.Reason == reason && condition.ObservedGeneration == policy.Generation
	}, "policy %s: %s is %s", name, conditionType, reason)
}

// held tells that no component lets a pod pass, for the cause.
func (s *site) held(cause string) {
	s.t.Helper()
	for _, c := range s.components {
		_, err := c.source.Chains().Evaluate(s.t.Context(), chain.Input{Point: contract.PodMutation})
		require.ErrorIs(s.t, err, chain.Unavailable)
		assert.ErrorContains(s.t, err, cause)
	}
}

const half = "the module is cut in half: its author must build it again"

// breaks has a policy in force whose next version is cut in half, and restarts.
func (s *site) breaks(change func(*policyv1alpha1.OffloadingPolicySpec)) {
	s.t.Helper()
	s.create(configMap("v1"), policyWith(change))
	s.awaitRolledOut("mine")
	s.store("broken")
	s.awaitCondition("mine", policyv1alpha1.DegradedCondition, "ModuleNotLoaded")
	s.restart()
}

// ADR 24, each with two components that start anew.
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

// holding are the cases in which nothing passes without the policy.
func (s *site) holding() map[string]func() {
	return map[string]func(){
		"half a module holds, and a whole one releases": func() {
			s.breaks(func(*policyv1alpha1.OffloadingPolicySpec) {})
			s.held(half)
			policy := s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "False Unavailable: "+half+". The policy was in force (generation 1, module custom, "+chain.ShortDigest(newCustom("v1").Digest())+")", "")
			assert.Equal(s.t, newCustom("v1").Digest(), policy.Status.Enforced.Digest)
			s.restart()
			s.held(half)
			s.store("v2")
			s.awaitHostname("v2")
			s.awaitRolledOut("mine")
			assert.Equal(s.t, newCustom("v2").Digest(), s.policy(s.t, "mine").Status.Enforced.Digest)
		},
		"a ConfigMap that went holds, and Ignore releases": func() {
			s.create(configMap("v1"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
			s.awaitRolledOut("mine")
			require.NoError(s.t, s.Admin.Delete(s.t.Context(), configMap("")))
			s.awaitCondition("mine", policyv1alpha1.DegradedCondition, "ModuleNotFound")
			s.decideBy("v1")
			s.restart()
			s.held("ConfigMap longshore/module does not exist")
			s.edit("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) {
				spec.FailurePolicy = policyv1alpha1.FailurePolicyIgnore
			})
			s.awaitHostname("")
			assert.Equal(s.t, []string{"default-podplacement", "mine"}, s.webhook.asks(s.t.Context(), contract.PodMutation))
		},
		"what one component cannot use holds there, while another decides by it": func() {
			s.create(configMap("webhook only"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
			s.eventually(func(t planetest.T) bool { return s.webhook.hostname(s.t.Context()) == "webhook only" }, "the webhook has it")
			s.components = []*component{s.kubelet}
			s.eventually(func(t planetest.T) bool { return s.kubelet.hostname(s.t.Context()) != "" }, "it is held")
			s.held(half)
			s.awaitCondition("mine", policyv1alpha1.ReadyCondition, "Unavailable")
			s.components = append(s.components, s.webhook)
			s.store("v1")
			s.awaitHostname("v1")
			s.awaitCondition("mine", policyv1alpha1.ReadyCondition, "Bound")
		},
		"what replaced a default holds, and its deletion brings the default back": func() {
			s.create(configMap("v1"), object("default-podplacement", fromConfigMap))
			s.awaitRolledOut("default-podplacement")
			s.store("broken")
			s.awaitCondition("default-podplacement", policyv1alpha1.DegradedCondition, "ModuleNotLoaded")
			s.restart()
			s.held(half)
			require.NoError(s.t, s.Admin.Delete(s.t.Context(), object("default-podplacement", nil)))
			s.awaitHostname("")
			assert.Equal(s.t, []string{"default-podplacement"}, s.webhook.asks(s.t.Context(), contract.PodMutation))
		},
	}
}

// passing are those in which something passes.
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
				s.eventually(func(t planetest.T) bool { return c.hostname(s.t.Context()) != "" }, "it is held")
			}
			s.held(half)
		},
		"what was never in force passes": func() {
			s.create(configMap("broken"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
			s.awaitStatus("mine", policyv1alpha1.ReadyCondition, "False ModuleNotLoaded", "")
			s.restart()
			s.decideBy("")
			assert.Nil(s.t, s.policy(s.t, "mine").Status.Enforced)
			s.store("v1")
			s.awaitHostname("v1")
		},
		"what was switched off and on passes": func() {
			s.create(configMap("v1"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
			s.awaitRolledOut("mine")
			s.edit("mine", mode(policyv1alpha1.ModeDisabled))
			s.awaitRolledOut("mine")
			assert.Nil(s.t, s.policy(s.t, "mine").Status.Enforced, "the record goes")
			s.store("broken")
			s.edit("mine", mode(policyv1alpha1.ModeEnforce))
			s.awaitCondition("mine", policyv1alpha1.DegradedCondition, "ModuleNotLoaded")
			s.restart()
			s.decideBy("")
		},
	}
}
