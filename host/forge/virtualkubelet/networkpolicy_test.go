package virtualkubelet_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

func TestTheNetworkPolicyOfAVirtualKubelet(t *testing.T) {
	const open = "- ports: [{port: 10250, protocol: TCP}]\n"
	metrics := []corev1.ContainerPort{{Name: "metrics", ContainerPort: 5872}}
	for name, tc := range map[string]struct {
		args   []string
		ports  []corev1.ContainerPort
		access string
		want   string
	}{
		"the kubelet API is open":              {want: "policyTypes: [Ingress]\ningress:\n" + open},
		"its port may be another":              {args: []string{"--listen-port=7000"}, want: "policyTypes: [Ingress]\ningress: [{ports: [{port: 7000, protocol: TCP}]}]\n"},
		"metrics are open, if they are served": {ports: metrics, want: "policyTypes: [Ingress]\ningress:\n" + open + "- ports: [{port: metrics, protocol: TCP}]\n"},
		"metrics are restricted as those of the chart": {
			ports: metrics, access: `{"metricsFrom":[{"podSelector":{}}]}`,
			want: "policyTypes: [Ingress]\ningress:\n" + open + "- ports: [{port: metrics, protocol: TCP}]\n  from: [{podSelector: {}}]\n",
		},
		"egress is restricted, too": {
			access: `{"egress":[{"to":[{"ipBlock":{"cidr":"10.0.0.0/8"}}]}]}`,
			want:   "policyTypes: [Ingress, Egress]\ningress:\n" + open + "egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.access == "" {
				tc.access = "{}"
			}
			access, err := virtualkubelet.ParseNetworkAccess(tc.access)
			require.NoError(t, err)
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan"}, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			}}
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "virtual-kubelet", Args: tc.args, Ports: tc.ports}, {Name: "of-the-user"}}
			policy := virtualkubelet.NetworkPolicy(deployment, access)
			assert.Equal(t, "vk-milan", policy.Name)
			assert.True(t, metav1.IsControlledBy(policy, deployment))
			got, err := yaml.Marshal(policy.Spec)
			require.NoError(t, err)
			assert.YAMLEq(t, "podSelector: {matchLabels: {a: b}}\n"+tc.want, string(got))
		})
	}
}

func TestNetworkAccessIsParsedStrictly(t *testing.T) {
	access, err := virtualkubelet.ParseNetworkAccess("")
	require.NoError(t, err)
	assert.Nil(t, access, "no NetworkPolicies")
	_, err = virtualkubelet.ParseNetworkAccess(`{"metricsFrm":[]}`)
	assert.ErrorContains(t, err, "metricsFrm")
}
