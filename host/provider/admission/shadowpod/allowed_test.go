package shadowpod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestAConsumerChoosesAPriorityClassAndASchedulerOfTheProvidersLists(t *testing.T) {
	priority := func(class string) *offloadingv1beta1.ShadowPod {
		return shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.PriorityClassName = class })
	}
	scheduler := func(name string) *offloadingv1beta1.ShadowPod {
		return shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.SchedulerName = name })
	}
	away := func(term corev1.PodAffinityTerm) *offloadingv1beta1.ShadowPod {
		return shadowPod(func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
		})
	}
	for name, tc := range map[string]struct {
		shadow  *offloadingv1beta1.ShadowPod
		allowed Allowed
		denial  string
	}{
		"neither, as consumers send it":                       {shadow: shadowPod(nil)},
		"a class":                                             {shadow: priority("high"), denial: `the provider allows no consumer the PriorityClass "high"`},
		"a class that the provider allows":                    {shadow: priority("high"), allowed: Allowed{PriorityClasses: []string{"low", "high"}}},
		"a class when it allows another":                      {shadow: priority("high"), allowed: Allowed{PriorityClasses: []string{"low"}}, denial: `"high"`},
		"a class when it allows all":                          {shadow: priority("high"), allowed: Allowed{PriorityClasses: []string{"*"}}},
		"the default scheduler":                               {shadow: scheduler("default-scheduler")},
		"a scheduler":                                         {shadow: scheduler("binpack"), denial: `the provider allows no consumer the scheduler "binpack"`},
		"a scheduler that it allows":                          {shadow: scheduler("binpack"), allowed: Allowed{Schedulers: []string{"binpack"}}},
		"a scheduler with the name of a class that it allows": {shadow: scheduler("high"), allowed: Allowed{PriorityClasses: []string{"high"}}, denial: `"high"`},
		"anti-affinity to its own pods":                       {shadow: away(corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname"})},
		"the same, with the name of its namespace":            {shadow: away(corev1.PodAffinityTerm{Namespaces: []string{shadowPod(nil).Namespace}})},
		"anti-affinity to pods of another namespace":          {shadow: away(corev1.PodAffinityTerm{Namespaces: []string{"default"}}), denial: "it would keep pods of others from nodes"},
		"anti-affinity to pods of all namespaces":             {shadow: away(corev1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}}), denial: "it would keep pods of others from nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Mutator{Allowed: tc.allowed}
			response := m.Handle(t.Context(), request(t, admissionv1.Create, nil, tc.shadow, user))
			require.Equal(t, tc.denial == "", response.Allowed, response.Result)
			if tc.denial != "" {
				assert.Contains(t, response.Result.Message, tc.denial)
				assert.EqualValues(t, 403, response.Result.Code, "the consumer records an event for it")
			}
			updated := m.Handle(t.Context(), request(t, admissionv1.Update, tc.shadow, tc.shadow, user))
			assert.True(t, updated.Allowed, "a ShadowPod that exists can be updated: %v", updated.Result)
		})
	}
}

func TestAPolicyOfTheProviderChoosesAnyPriorityClass(t *testing.T) {
	m, _ := guarded(t, chain.Fail, answer(contract.Set("/spec/priorityClassName", contract.String("tenant-rome"))), namespace("rome"))
	r := request(t, admissionv1.Create, nil, shadowPod(nil), user)
	shadow := patched(t, r, m.Handle(t.Context(), r))
	assert.Equal(t, "tenant-rome", shadow.Spec.Pod.PriorityClassName)
}
