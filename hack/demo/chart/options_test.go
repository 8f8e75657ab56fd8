package chart

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// optionalValues switch on what is off by default.
func optionalValues() map[string]any {
	return map[string]any{
		"clusterID": "rome", "priorityClassName": "system-cluster-critical",
		"networkPolicies": map[string]any{
			"enabled": true, "metricsFrom": []any{map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "monitoring"}}}},
			"egress": []any{map[string]any{"ports": []any{map[string]any{"port": 6443, "protocol": "TCP"}}}},
		},
		"replicator": map[string]any{"separate": true},
		"dashboard":  map[string]any{"enabled": true},
	}
}

func TestNetworkPoliciesLeaveTheWebhookOpen(t *testing.T) {
	objects := render(t, optionalValues())
	for name, ports := range map[string][]string{
		"longshore-manager": {"metrics"}, "longshore-webhook": {"webhook", "metrics"}, "longshore-replicator": {"metrics"},
	} {
		var policy networkingv1.NetworkPolicy
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, objects, "NetworkPolicy", name).Object, &policy))
		assert.Equal(t, name, policy.Spec.PodSelector.MatchLabels["app.kubernetes.io/name"])
		assert.Equal(t, []networkingv1.PolicyType{"Ingress", "Egress"}, policy.Spec.PolicyTypes)
		var open []string
		for _, rule := range policy.Spec.Ingress {
			open = append(open, rule.Ports[0].Port.String())
			assert.Equal(t, rule.Ports[0].Port.String() == "webhook", len(rule.From) == 0, "the API server has any address, and the metrics have readers")
		}
		assert.Equal(t, ports, open, name)
		assert.Len(t, policy.Spec.Egress, 1)
	}
	without := render(t, map[string]any{"clusterID": "rome", "networkPolicies": map[string]any{"enabled": true}, "metrics": map[string]any{"enabled": false}})
	var policy networkingv1.NetworkPolicy
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, without, "NetworkPolicy", "longshore-manager").Object, &policy))
	assert.Equal(t, []networkingv1.PolicyType{"Ingress"}, policy.Spec.PolicyTypes)
	assert.Empty(t, policy.Spec.Ingress)
}

// The manager makes those of virtual kubelets.
func TestNetworkPoliciesReachVirtualKubelets(t *testing.T) {
	networkAccess := func(values map[string]any) *virtualkubelet.NetworkAccess {
		text := ""
		for _, argument := range arguments(t, render(t, values), "longshore-manager") {
			if value, ok := strings.CutPrefix(argument, "--vk-network-policy="); ok {
				text = value
			}
		}
		access, err := virtualkubelet.ParseNetworkAccess(text)
		require.NoError(t, err)
		return access
	}
	access := networkAccess(optionalValues())
	require.NotNil(t, access)
	assert.Equal(t, "monitoring", access.MetricsFrom[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"])
	assert.Equal(t, 6443, access.Egress[0].Ports[0].Port.IntValue())
	assert.Nil(t, networkAccess(map[string]any{"clusterID": "rome"}))
}

func TestThePriorityClassReachesVirtualKubelets(t *testing.T) {
	assert.Contains(t, arguments(t, render(t, optionalValues()), "longshore-webhook"), "--vk-priority-class=system-cluster-critical")
	for _, argument := range arguments(t, render(t, map[string]any{"clusterID": "rome"}), "longshore-webhook") {
		assert.NotContains(t, argument, "--vk-priority-class")
	}
}

func TestEveryPodHasThePriorityClass(t *testing.T) {
	objects, err := renderAll(optionalValues(), Options{})
	require.NoError(t, err)
	pods := map[string]string{}
	for _, object := range objects {
		path := map[string][]string{"Pod": {"spec"}, "Deployment": {"spec", "template", "spec"}, "Job": {"spec", "template", "spec"}}[object.GetKind()]
		if path != nil {
			class, _, err := unstructured.NestedString(object.Object, append(path, "priorityClassName")...)
			require.NoError(t, err)
			pods[object.GetKind()+" "+object.GetName()] = class
		}
	}
	assert.Equal(t, map[string]string{
		"Deployment longshore-manager": "system-cluster-critical", "Deployment longshore-webhook": "system-cluster-critical",
		"Deployment longshore-replicator": "system-cluster-critical",
		"Pod longshore-check":             "system-cluster-critical", "Job longshore-uninstall": "system-cluster-critical",
	}, pods)
}

func TestNodeSelectorAndAffinityReachVirtualKubelets(t *testing.T) {
	passed := arguments(t, render(t, map[string]any{"clusterID": "rome", "virtualKubelet": map[string]any{
		"nodeSelector": map[string]any{"pool": "system"},
		"affinity":     map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{}}},
	}}), "longshore-webhook")
	assert.Contains(t, passed, "--vk-node-selector=pool=system")
	assert.Contains(t, passed, `--vk-affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{}}}`)
	for _, argument := range arguments(t, render(t, map[string]any{"clusterID": "rome"}), "longshore-webhook") {
		assert.NotRegexp(t, "^--vk-(node-selector|affinity)", argument)
	}
}

func TestCertManagerIssuesTheWebhooksCertificate(t *testing.T) {
	for name, tc := range map[string]struct {
		issuer     map[string]any
		want       map[string]any
		selfSigned bool
	}{
		"self-signed":   {nil, map[string]any{"kind": "Issuer", "name": "longshore-webhook"}, true},
		"by an issuer":  {map[string]any{"kind": "ClusterIssuer", "name": "ca"}, map[string]any{"kind": "ClusterIssuer", "name": "ca"}, false},
		"of a provider": {map[string]any{"group": "example.com", "name": "ca"}, map[string]any{"group": "example.com", "name": "ca"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{"enabled": true}
			if tc.issuer != nil {
				values["issuerRef"] = tc.issuer
			}
			objects := render(t, map[string]any{"clusterID": "rome", "webhook": map[string]any{"certManager": values}})
			assert.Contains(t, arguments(t, objects, "longshore-webhook"), "--external-certificate")
			spec := find(t, objects, "Certificate", "longshore-webhook").Object["spec"].(map[string]any)
			assert.Equal(t, tc.want, spec["issuerRef"])
			assert.Equal(t, "longshore-webhook-certs", spec["secretName"])
			assert.NotEmpty(t, spec["subject"], "an issuer, also of a self-signed certificate, has a name")
			assert.Equal(t, []any{"longshore-webhook.longshore.svc", "longshore-webhook", "longshore-webhook.longshore", "longshore-webhook.longshore.svc.cluster.local"}, spec["dnsNames"])
			issuers := 0
			for _, object := range objects {
				if object.GetKind() == "Issuer" {
					issuers++
				}
			}
			assert.Equal(t, tc.selfSigned, issuers == 1)
		})
	}
}

func TestPodMonitorsSelectAllComponents(t *testing.T) {
	objects := render(t, map[string]any{"clusterID": "rome", "metrics": map[string]any{"podMonitor": map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}}}})
	own := find(t, objects, "PodMonitor", "longshore")
	assert.Equal(t, "prometheus", own.GetLabels()["release"])
	selector, _, err := unstructured.NestedStringMap(own.Object, "spec", "selector", "matchLabels")
	require.NoError(t, err)
	for _, name := range []string{"longshore-manager", "longshore-webhook"} {
		labels, _, err := unstructured.NestedStringMap(find(t, objects, "Deployment", name).Object, "spec", "template", "metadata", "labels")
		require.NoError(t, err)
		for key, value := range selector {
			assert.Equal(t, value, labels[key], name)
		}
	}
	find(t, objects, "PodMonitor", "longshore-virtual-kubelets")
	_, err = Render(map[string]any{"clusterID": "rome", "metrics": map[string]any{"enabled": false, "podMonitor": map[string]any{"enabled": true}}}, Options{})
	assert.ErrorContains(t, err, "metrics.podMonitor.enabled needs metrics.enabled")
}

// The objects of helm test are hooks, which Render leaves out; the lifecycle test runs them.
func TestTheCheckIsNotPartOfTheRelease(t *testing.T) {
	for _, object := range render(t, map[string]any{"clusterID": "rome"}) {
		assert.NotEqual(t, "longshore-check", object.GetName())
	}
}
