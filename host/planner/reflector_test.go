package planner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/planner"
)

// withArguments gives the virtual kubelets arguments.
func withArguments(facts *planner.Facts, arguments ...string) {
	for i := range facts.VirtualNodes {
		template := &offloadingv1beta1.DeploymentTemplate{}
		template.Spec.Template.Spec.Containers = []corev1.Container{{Args: arguments}}
		facts.VirtualNodes[i].Spec.Template = template
	}
}

func TestObjectsFollowByTheArgumentsOfTheVirtualKubelet(t *testing.T) {
	for name, tc := range map[string]struct {
		arguments []string
		pod       func(*corev1.Pod)
		// message is empty if the pod can run.
		message string
	}{
		"Secrets by default":                    {pod: func(p *corev1.Pod) { usesSecret(p, "plain") }},
		"Secrets by DenyList":                   {[]string{"--secret-reflection-type=DenyList", "--secret-reflection-workers=3"}, func(p *corev1.Pod) { usesSecret(p, "plain") }, ""},
		"Secrets by AllowList":                  {[]string{"--secret-reflection-type=AllowList"}, func(p *corev1.Pod) { usesSecret(p, "plain") }, `Secret "plain" does not follow the pod: virtual node "milan" needs the annotation liqo.io/allow-reflection on it (--secret-reflection-type=AllowList)`},
		"an allowed Secret":                     {[]string{"--secret-reflection-type=AllowList"}, func(p *corev1.Pod) { usesSecret(p, "allowed") }, ""},
		"Secrets without workers":               {[]string{"--secret-reflection-workers=0"}, func(p *corev1.Pod) { usesSecret(p, "allowed") }, `virtual node "milan" reflects no secret (--secret-reflection-workers=0)`},
		"the last argument counts":              {[]string{"--secret-reflection-workers=0", "--secret-reflection-workers=1"}, func(p *corev1.Pod) { usesSecret(p, "plain") }, ""},
		"ConfigMaps by AllowList":               {[]string{"--configmap-reflection-type=AllowList"}, func(p *corev1.Pod) { usesConfigMap(p, "settings") }, "--configmap-reflection-type=AllowList"},
		"the root CA by AllowList":              {[]string{"--configmap-reflection-type=AllowList"}, func(p *corev1.Pod) { usesConfigMap(p, "kube-root-ca.crt") }, ""},
		"the root CA without workers":           {[]string{"--configmap-reflection-workers=0"}, func(p *corev1.Pod) { usesConfigMap(p, "kube-root-ca.crt") }, "reflects no configmap"},
		"Secrets by AllowList, and a ConfigMap": {[]string{"--secret-reflection-type=AllowList"}, func(p *corev1.Pod) { usesConfigMap(p, "settings") }, ""},
		"claims without workers":                {[]string{"--persistentvolumeclaim-reflection-workers=0"}, claim("remote"), "reflects no persistentvolumeclaim"},
		"pods without workers":                  {[]string{"--pod-reflection-workers=0"}, func(*corev1.Pod) {}, `The virtual kubelet of node "milan" runs no pods`},
	} {
		t.Run(name, func(t *testing.T) {
			facts := shop()
			offersStorage(&facts)
			facts.Inventory.Add("Secret", metav1.ObjectMeta{Namespace: "shop", Name: "plain"})
			facts.Inventory.Add("Secret", metav1.ObjectMeta{Namespace: "shop", Name: "allowed", Annotations: map[string]string{offloadingv1beta1.AllowReflectionAnnotation: "true"}})
			withArguments(&facts, tc.arguments...)
			planned := predict(t, facts, web(func(p *corev1.Pod) {
				tc.pod(p)
				p.Spec.Containers = append(p.Spec.Containers[:0:0], corev1.Container{Name: "web", Image: "web:1", EnvFrom: p.Spec.Containers[0].EnvFrom})
			}))
			if tc.message == "" {
				assert.Equal(t, planner.Offloadable, planned.Result, "%+v", planned.Reason)
				return
			}
			assert.Equal(t, planner.Pending, planned.Result)
			require.NotNil(t, planned.Reason)
			reason := planner.ReasonObjectNotReflected
			if planned.Reason.Stage == planner.Forging {
				reason = planner.ReasonPodsNotReflected
			}
			assert.Equal(t, reason, planned.Reason.Reason)
			assert.Contains(t, planned.Reason.Message, tc.message)
		})
	}
}
