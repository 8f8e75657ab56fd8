package chart

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/host/consumer/admission/policymodule"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// demoValues are such as the demo sets them: no ClusterIPs, one address per pod.
func demoValues() map[string]any {
	return map[string]any{
		"clusterID": "rome",
		"bindPodIP": true,
		"webhook":   map[string]any{"service": map[string]any{"type": "ExternalName", "externalName": "127.20.0.9"}},
		"policies":  map[string]any{"metadataFilter": map[string]any{"mode": "Disabled"}},
	}
}

func render(t *testing.T, values map[string]any) []*unstructured.Unstructured {
	t.Helper()
	objects, err := Render(values, Options{})
	require.NoError(t, err)
	return objects
}

func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	require.Failf(t, "not rendered", "%s %s", kind, name)
	return nil
}

func TestRenderingIsGolden(t *testing.T) {
	for name, values := range map[string]map[string]any{"default": {"clusterID": "rome"}, "demo": demoValues()} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			for _, object := range render(t, values) {
				if object.GetKind() == "CustomResourceDefinition" {
					// The schemas are held by `make verify-generate`.
					unstructured.RemoveNestedField(object.Object, "spec")
				}
				raw, err := yaml.Marshal(object.Object)
				require.NoError(t, err)
				out.WriteString("---\n")
				out.Write(raw)
			}
			golden := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				require.NoError(t, os.WriteFile(golden, out.Bytes(), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), out.String(), "if the change is meant: go test -C hack/demo ./chart -update")
		})
	}
}

func TestReplicatorRunsInTheManagerOrAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		values   map[string]any
		separate bool
	}{
		"by default in the manager": {map[string]any{"clusterID": "rome"}, false},
		"alone":                     {map[string]any{"clusterID": "rome", "replicator": map[string]any{"separate": true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := render(t, tc.values)
			var names []string
			for _, object := range objects {
				if object.GetName() == "longshore-replicator" {
					names = append(names, object.GetKind())
				}
			}
			if tc.separate {
				assert.ElementsMatch(t, []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment"}, names)
			} else {
				assert.Empty(t, names)
			}
			assert.Contains(t, arguments(t, objects, "longshore-manager"), fmt.Sprintf("--enable-replication=%t", !tc.separate))
			var role rbacv1.ClusterRole
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, objects, "ClusterRole", "longshore-manager").Object, &role))
			assert.Equal(t, !tc.separate, grants(role.Rules, "authentication.liqo.io", "resourceslices/status", "update"), "the rights follow the replicator")
		})
	}
}

// arguments returns the arguments of a Deployment's container.
func arguments(t *testing.T, objects []*unstructured.Unstructured, name string) []string {
	t.Helper()
	var deployment appsv1.Deployment
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, objects, "Deployment", name).Object, &deployment))
	return deployment.Spec.Template.Spec.Containers[0].Args
}

func grants(rules []rbacv1.PolicyRule, group, resource, verb string) bool {
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
	})
}

// Virtual kubelets may request tokens, and do, if remote pods reach the API server.
func TestTokensAreRequestedOnlyWithAnAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		access map[string]any
		want   []string
	}{
		"without an address": {map[string]any{}, nil},
		"with an address": {
			map[string]any{"host": "api.rome.example.com", "port": 6443},
			[]string{"--enable-apiserver-support=true", "--home-api-server-host=api.rome.example.com", "--home-api-server-port=6443"},
		},
		"over the network": {map[string]any{"overNetwork": true}, []string{"--enable-apiserver-support=true"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := render(t, map[string]any{"clusterID": "rome", "virtualKubelet": map[string]any{"apiServerAccess": tc.access}})
			var role rbacv1.ClusterRole
			found := find(t, objects, "ClusterRole", "longshore-virtual-kubelet-namespace-base")
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &role))
			assert.Equal(t, tc.want != nil, grants(role.Rules, "", "serviceaccounts/token", "create"))
			options := find(t, objects, "VkOptionsTemplate", "virtual-kubelet-default")
			given, _, err := unstructured.NestedStringSlice(options.Object, "spec", "extraArgs")
			require.NoError(t, err)
			assert.Subset(t, given, tc.want)
			assert.Equal(t, tc.want != nil, slices.Contains(given, "--enable-apiserver-support=true"))
		})
	}
}

func TestRenderingIsStableAndOrdered(t *testing.T) {
	first := render(t, demoValues())
	assert.Equal(t, first, render(t, demoValues()))
	last := map[string]int{}
	for i, object := range first {
		last[object.GetKind()] = i
	}
	assert.Less(t, last["CustomResourceDefinition"], last["OffloadingPolicy"])
	assert.Less(t, last["ServiceAccount"], last["Deployment"])
	assert.Less(t, last["RoleBinding"], last["Deployment"])
	assert.Equal(t, "CustomResourceDefinition", first[0].GetKind())
}

func TestBadValuesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		values map[string]any
		want   string
	}{
		"no cluster ID":                    {map[string]any{}, "clusterID is required"},
		"cluster ID with capitals":         {map[string]any{"clusterID": "Rome"}, "clusterID"},
		"cluster ID that is too long":      {map[string]any{"clusterID": "a0123456789012345678901234567890123456789012345678901234567890123"}, "clusterID"},
		"cluster ID that no peer can take": {map[string]any{"clusterID": strings.Repeat("a", 52)}, "more than 51 characters"},
		"unknown value":                    {map[string]any{"clusterID": "rome", "clusterId": "milan"}, "clusterId"},
		"unknown policy":                   {map[string]any{"clusterID": "rome", "policies": map[string]any{"podplacement": map[string]any{}}}, "podplacement"},
		"unknown mode":                     {map[string]any{"clusterID": "rome", "policies": map[string]any{"podPlacement": map[string]any{"mode": "Off"}}}, "mode"},
		"unknown failure policy":           {map[string]any{"clusterID": "rome", "webhook": map[string]any{"failurePolicy": "Maybe"}}, "failurePolicy"},
		"external name without a name":     {map[string]any{"clusterID": "rome", "webhook": map[string]any{"service": map[string]any{"type": "ExternalName"}}}, "webhook.service.externalName"},
		"half an API server address":       {map[string]any{"clusterID": "rome", "virtualKubelet": map[string]any{"apiServerAccess": map[string]any{"host": "api"}}}, "apiServerAccess needs host and port"},
		"two addresses of the API server":  {map[string]any{"clusterID": "rome", "virtualKubelet": map[string]any{"apiServerAccess": map[string]any{"host": "api", "port": 6443, "overNetwork": true}}}, "or overNetwork"},
		"a port of no API server":          {map[string]any{"clusterID": "rome", "virtualKubelet": map[string]any{"apiServerAccess": map[string]any{"port": 6443}}}, "apiServerAccess needs host and port"},
		"negative shutdown delay":          {map[string]any{"clusterID": "rome", "webhook": map[string]any{"shutdownDelaySeconds": -1}}, "shutdownDelaySeconds"},
		"reflector with an unknown type":   {map[string]any{"clusterID": "rome", "reflection": map[string]any{"reflectors": map[string]any{"secret": map[string]any{"workers": 1, "type": "Some"}}}}, "reflectors"},
		"alias with an unknown type":       {map[string]any{"clusterID": "rome", "reflection": map[string]any{"secret": map[string]any{"type": "Some"}}}, "secret"},
		"alias of an unknown resource":     {map[string]any{"clusterID": "rome", "reflection": map[string]any{"secrets": map[string]any{"type": "AllowList"}}}, "secrets"},
		"reflector of an unknown resource": {map[string]any{"clusterID": "rome", "reflection": map[string]any{"reflectors": map[string]any{"pods": map[string]any{"workers": 1}}}}, "pods"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(tc.values, Options{})
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// The keys of the reference are other names of those of the chart.
func TestReflectorsAreConfiguredByTheKeysOfTheReferenceToo(t *testing.T) {
	for name, tc := range map[string]struct {
		reflection map[string]any
		want       string // of Secrets
	}{
		"neither":           {map[string]any{}, "10 DenyList"},
		"the type":          {map[string]any{"secret": map[string]any{"type": "AllowList"}}, "10 AllowList"},
		"the workers":       {map[string]any{"secret": map[string]any{"workers": 3}}, "3 DenyList"},
		"no workers":        {map[string]any{"secret": map[string]any{"workers": 0}}, "0 DenyList"},
		"an empty key":      {map[string]any{"secret": map[string]any{}}, "10 DenyList"},
		"the chart's key":   {map[string]any{"reflectors": map[string]any{"secret": map[string]any{"workers": 4}}}, "4 DenyList"},
		"both keys":         {map[string]any{"secret": map[string]any{"type": "AllowList"}, "reflectors": map[string]any{"secret": map[string]any{"workers": 4, "type": "DenyList"}}}, "4 AllowList"},
		"of another object": {map[string]any{"configmap": map[string]any{"type": "AllowList"}}, "10 DenyList"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, object := range render(t, map[string]any{"clusterID": "rome", "reflection": tc.reflection}) {
				if object.GetKind() != "VkOptionsTemplate" {
					continue
				}
				got, _, err := unstructured.NestedMap(object.Object, "spec", "reflectorsConfig", "secret")
				require.NoError(t, err)
				assert.Equal(t, tc.want, fmt.Sprint(got["workers"], " ", got["type"]))
				return
			}
			t.Fatal("the chart has no VkOptionsTemplate")
		})
	}
}

func TestNoRoleHasAWildcardOrEscalates(t *testing.T) {
	roles := 0
	for _, object := range render(t, map[string]any{"clusterID": "rome"}) {
		if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" {
			continue
		}
		roles++
		var role rbacv1.ClusterRole
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role))
		// Rules of an aggregated role in the chart would revert what operators add, at each upgrade.
		assert.Equal(t, role.AggregationRule == nil, len(role.Rules) > 0, role.Name)
		for _, rule := range role.Rules {
			for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
				assert.NotEmpty(t, list, "%s: %v", role.Name, rule)
				assert.NotContains(t, list, "*", "%s: %v", role.Name, rule)
			}
			assert.NotContains(t, rule.Verbs, "escalate", role.Name)
			assert.NotContains(t, rule.Verbs, "impersonate", role.Name)
			if contains(rule.Verbs, "bind") || contains(rule.Verbs, "approve") {
				assert.NotEmpty(t, rule.ResourceNames, "%s may bind only roles that are named", role.Name)
			}
		}
	}
	assert.GreaterOrEqual(t, roles, 10)
}

func contains(list []string, want string) bool {
	for _, have := range list {
		if have == want {
			return true
		}
	}
	return false
}

func TestEveryBindingFindsItsRoleAndAccount(t *testing.T) {
	objects := render(t, map[string]any{"clusterID": "rome"})
	for _, object := range objects {
		if kind := object.GetKind(); kind != "ClusterRoleBinding" && kind != "RoleBinding" {
			continue
		}
		var binding rbacv1.RoleBinding
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding))
		find(t, objects, binding.RoleRef.Kind, binding.RoleRef.Name)
		for _, subject := range binding.Subjects {
			find(t, objects, subject.Kind, subject.Name)
		}
	}
}

func TestValuesReachWhatTheyAreFor(t *testing.T) {
	objects := render(t, demoValues())
	mode, _, err := unstructured.NestedString(find(t, objects, "OffloadingPolicy", "default-metadatafilter").Object, "spec", "mode")
	require.NoError(t, err)
	assert.Equal(t, "Disabled", mode)
	find(t, objects, "CustomResourceDefinition", "shadowpods.offloading.liqo.io")
	without := render(t, map[string]any{"clusterID": "rome", "runtimeClass": map[string]any{"enabled": false}})
	for _, object := range without {
		assert.NotEqual(t, "RuntimeClass", object.GetKind())
	}
	for _, object := range objects {
		assert.NotContains(t, object.GetAnnotations(), "helm.sh/hook", "%s %s: an upgrade deletes and recreates hooks", object.GetKind(), object.GetName())
	}
	for _, name := range []string{"longshore-manager", "longshore-webhook"} {
		args := arguments(t, objects, name)
		assert.Contains(t, args, "--cluster-id=rome")
		assert.Contains(t, args, "--health-probe-address=$(POD_IP):8081")
	}
}

func TestWhatAProviderAllowsReachesItsComponents(t *testing.T) {
	objects := render(t, map[string]any{"clusterID": "milan", "provider": map[string]any{
		"podSecurityLevel": "restricted", "reservedNamespaces": []any{"cert-manager", "istio-*"}, "nodeFailureController": true,
		"priorityClasses": []any{"batch", "low"}, "schedulers": []any{"binpack"},
	}})
	args := arguments(t, objects, "longshore-manager")
	assert.Contains(t, args, "--enable-node-failure-controller")
	assert.Contains(t, args, "--pod-security-level=restricted")
	assert.Contains(t, args, "--reserved-namespaces=cert-manager,istio-*")
	args = arguments(t, objects, "longshore-webhook")
	assert.Contains(t, args, "--consumer-priority-classes=batch,low")
	assert.Contains(t, args, "--consumer-schedulers=binpack")
}

// The webhook answers about a policy, if need be that it does not know, before the API server
// stops waiting.
func TestTheWebhookOfPoliciesAnswersInTime(t *testing.T) {
	object := find(t, render(t, map[string]any{"clusterID": "rome"}), "ValidatingWebhookConfiguration", "longshore-webhook")
	hooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	require.NoError(t, err)
	checked := 0
	for _, hook := range hooks {
		path, _, err := unstructured.NestedString(hook.(map[string]any), "clientConfig", "service", "path")
		require.NoError(t, err)
		if path != policymodule.Path {
			continue
		}
		checked++
		seconds, found, err := unstructured.NestedFloat64(hook.(map[string]any), "timeoutSeconds")
		require.NoError(t, err)
		require.True(t, found)
		assert.Greater(t, time.Duration(seconds)*time.Second, policymodule.Patience+5*time.Second, "room for the calls that a module's load ends with")
	}
	assert.NotZero(t, checked)
}

func TestKeysOfReportsReachTheComponents(t *testing.T) {
	objects := render(t, map[string]any{"clusterID": "rome", "policies": map[string]any{"reportKeys": []any{"-----BEGIN PUBLIC KEY-----\nTUNvd0\nJRWT0=\n-----END PUBLIC KEY-----\n"}}})
	const want = "--policy-report-key=TUNvd0JRWT0="
	for _, name := range []string{"longshore-webhook", "longshore-manager"} {
		containers, _, err := unstructured.NestedSlice(find(t, objects, "Deployment", name).Object, "spec", "template", "spec", "containers")
		require.NoError(t, err)
		assert.Contains(t, containers[0].(map[string]any)["args"], want, name)
	}
	extra, _, err := unstructured.NestedSlice(find(t, objects, "VkOptionsTemplate", "virtual-kubelet-default").Object, "spec", "extraArgs")
	require.NoError(t, err)
	assert.Contains(t, extra, want)
}

func TestNamespacesThatMayHoldModulesReachWhoReadsThem(t *testing.T) {
	objects := render(t, map[string]any{"clusterID": "rome", "policies": map[string]any{"namespaces": []any{"team-a"}}})
	containers, _, err := unstructured.NestedSlice(find(t, objects, "Deployment", "longshore-webhook").Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	assert.Contains(t, containers[0].(map[string]any)["args"], "--policy-namespace=team-a")
	extra, _, err := unstructured.NestedSlice(find(t, objects, "VkOptionsTemplate", "virtual-kubelet-default").Object, "spec", "extraArgs")
	require.NoError(t, err)
	assert.Contains(t, extra, "--policy-namespace=team-a")
	assert.Equal(t, "team-a", find(t, objects, "Role", "longshore-webhook-modules").GetNamespace())
	assert.Equal(t, "team-a", find(t, objects, "RoleBinding", "longshore-webhook-modules").GetNamespace())
	hooks, _, err := unstructured.NestedSlice(find(t, objects, "ValidatingWebhookConfiguration", "longshore-webhook").Object, "webhooks")
	require.NoError(t, err)
	raw, err := yaml.Marshal(hooks)
	require.NoError(t, err)
	assert.Contains(t, string(raw), "- longshore\n      - team-a\n")
}

// severalValues ask for two replicas of everything, with changes.
func severalValues(changes map[string]any) map[string]any {
	values := map[string]any{"clusterID": "rome"}
	for _, component := range []string{"manager", "webhook", "replicator"} {
		v := map[string]any{"replicas": 2}
		if component == "replicator" {
			v["separate"] = true
		}
		maps.Copy(v, changes)
		values[component] = v
	}
	return values
}

func TestSeveralReplicasAreKeptApartAndDrainedOneAtATime(t *testing.T) {
	spread := func(objects []*unstructured.Unstructured, name string) (keys []string) {
		var deployment appsv1.Deployment
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, objects, "Deployment", name).Object, &deployment))
		for _, constraint := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
			keys = append(keys, constraint.TopologyKey)
			if constraint.LabelSelector != nil {
				assert.Equal(t, deployment.Spec.Selector, constraint.LabelSelector)
			}
		}
		return keys
	}
	budgets := func(objects []*unstructured.Unstructured) (names []string) {
		for _, object := range objects {
			if object.GetKind() == "PodDisruptionBudget" {
				names = append(names, object.GetName())
			}
		}
		return names
	}
	names := []string{"longshore-manager", "longshore-replicator", "longshore-webhook"}
	one := render(t, map[string]any{"clusterID": "rome", "replicator": map[string]any{"separate": true}, "webhook": map[string]any{"replicas": 1}})
	assert.Empty(t, budgets(one))
	two := render(t, severalValues(nil))
	assert.Equal(t, names, budgets(two))
	own := render(t, severalValues(map[string]any{"podDisruptionBudget": false, "topologySpreadConstraints": []any{map[string]any{"topologyKey": "rack"}}}))
	assert.Empty(t, budgets(own))
	for _, name := range names {
		assert.Empty(t, spread(one, name))
		assert.Equal(t, []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}, spread(two, name))
		assert.Equal(t, []string{"rack"}, spread(own, name))
		var budget policyv1.PodDisruptionBudget
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, two, "PodDisruptionBudget", name).Object, &budget))
		assert.Equal(t, 1, budget.Spec.MaxUnavailable.IntValue())
		var deployment appsv1.Deployment
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, two, "Deployment", name).Object, &deployment))
		assert.Equal(t, deployment.Spec.Selector, budget.Spec.Selector)
	}
}

func TestTheGracePeriodHoldsTheShutdownDelay(t *testing.T) {
	objects := render(t, map[string]any{"clusterID": "rome", "webhook": map[string]any{"shutdownDelaySeconds": 12}})
	var deployment appsv1.Deployment
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, objects, "Deployment", "longshore-webhook").Object, &deployment))
	pod := deployment.Spec.Template.Spec
	assert.Contains(t, pod.Containers[0].Args, "--shutdown-delay=12s")
	assert.Equal(t, int64(12+30), *pod.TerminationGracePeriodSeconds)
}
