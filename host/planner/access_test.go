package planner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/planner"
)

func TestTheShadowPodUsesTheAPIServerOfTheArguments(t *testing.T) {
	const host, port = "--home-api-server-host=api.rome.example.com", "--home-api-server-port=6443"
	for name, tc := range map[string]struct {
		arguments []string
		want      []corev1.EnvVar
	}{
		"access is enabled, with an address": {[]string{"--enable-apiserver-support=true", host, port}, []corev1.EnvVar{
			{Name: "KUBERNETES_SERVICE_HOST", Value: "api.rome.example.com"}, {Name: "KUBERNETES_SERVICE_PORT", Value: "6443"},
		}},
		"access is enabled, without a value": {[]string{"--enable-apiserver-support", host, port}, []corev1.EnvVar{
			{Name: "KUBERNETES_SERVICE_HOST", Value: "api.rome.example.com"}, {Name: "KUBERNETES_SERVICE_PORT", Value: "6443"},
		}},
		"access is not enabled":                {[]string{host, port}, nil},
		"access is disabled":                   {[]string{"--enable-apiserver-support=false", host, port}, nil},
		"no token is sent":                     {[]string{"--enable-apiserver-support=true", host, port, "--serviceaccount-reflection-workers=0"}, nil},
		"the address is that of a network":     {[]string{"--enable-apiserver-support=true"}, nil},
		"the virtual node has no arguments":    {nil, nil},
		"the last one of two arguments counts": {[]string{"--enable-apiserver-support=true", "--enable-apiserver-support=false", host, port}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			facts := shop()
			facts.NodeName = facts.VirtualNodes[0].Name
			template := &offloadingv1beta1.DeploymentTemplate{}
			template.Spec = appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: tc.arguments}}}}}
			facts.VirtualNodes[0].Spec.Template = template
			planned := predict(t, facts, web(usesToken))
			assert.Equal(t, planner.Offloadable, planned.Result, "%+v", planned.Reason)
			for _, follow := range planned.Follows {
				assert.NotEqual(t, "web-token", follow.Name, "the virtual kubelet creates the Secret with the token")
			}
			require.NotNil(t, planned.ShadowPod)
			env := planned.ShadowPod.Spec.Pod.Containers[0].Env
			assert.Equal(t, tc.want, env[:min(2, len(env))])
		})
	}
}

// usesToken adds the volume with the token of the service account, as the API server does.
func usesToken(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
	}}}}
}

func TestAPlanNamesTheTokensThatAreLeftOut(t *testing.T) {
	for argument, want := range map[string]bool{"--create-node": true, "--send-audience-tokens=true": false} {
		facts := shop()
		facts.NodeName = facts.VirtualNodes[0].Name
		template := &offloadingv1beta1.DeploymentTemplate{}
		template.Spec = appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{argument}}}}}}
		facts.VirtualNodes[0].Spec.Template = template
		planned := predict(t, facts, web(func(pod *corev1.Pod) {
			usesToken(pod)
			pod.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken.Audience = "vault"
		}))
		assert.Equal(t, want, strings.Contains(strings.Join(planned.Warnings, " "), `volume "kube-api-access-x" has no token for audience "vault"`), argument)
	}
}
