package view_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const owned = `"labels":{"app":"web","offloading.liqo.io/origin":"rome","offloading.liqo.io/destination":"milan"}`

// drafts are objects as they would be sent, by kind.
var drafts = map[string]string{
	"ConfigMap": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"shop-rome",` + owned + `},"data":{"k":"v"}}`,
	"Secret":    `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"web","namespace":"shop-rome",` + owned + `},"type":"Opaque","data":{"k":"dg=="}}`,
	"Service":   `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"shop-rome",` + owned + `},"spec":{"type":"ClusterIP","ports":[{"port":80,"targetPort":8080}]}}`,
	"Ingress":   `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"web","namespace":"shop-rome",` + owned + `},"spec":{"rules":[]}}`,
}

func draft(t *testing.T, kind string) (map[string]any, runtime.Object) {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(drafts[kind]), &object))
	target := map[string]runtime.Object{"ConfigMap": &corev1.ConfigMap{}, "Secret": &corev1.Secret{}, "Service": &corev1.Service{}}[kind]
	return object, target
}

func resourceInput(t *testing.T, kind string) view.ResourceInput {
	t.Helper()
	object, target := draft(t, kind)
	return view.ResourceInput{
		Object: object, Target: target, Namespace: "shop", Name: "web",
		Labels: map[string]string{"app": "web", "internal": "x"}, Annotations: map[string]string{remote.DecisionsAnnotation: "of the local object"},
		VirtualNode: contract.VirtualNode{Name: "milan-1", ProviderClusterID: "milan", ConsumerClusterID: "rome"},
	}
}

// mutating is a policy with the complete write set of its point.
func mutating(operations ...contract.Operation) *policytest.Policy {
	var rules []contract.WriteRule
	for _, path := range []string{"/metadata/labels", "/metadata/annotations", "/data", "/binaryData", "/spec"} {
		rules = append(rules, anything(path)...)
	}
	return answering("site", contract.ResourceMutation, rules, operations...)
}

func TestWritableFieldsDependOnTheKind(t *testing.T) {
	value := contract.String("x")
	text := contract.StringMap{"a": "x"}
	for name, tc := range map[string]struct {
		operation contract.Operation
		kinds     []string
	}{
		"labels":                      {contract.Merge("/metadata/labels", text), []string{"ConfigMap", "Secret", "Service"}},
		"annotations":                 {contract.Merge("/metadata/annotations", text), []string{"ConfigMap", "Secret", "Service"}},
		"data":                        {contract.Merge("/data", contract.StringMap{"a": "eA=="}), []string{"ConfigMap", "Secret"}},
		"binary data":                 {contract.Merge("/binaryData", contract.StringMap{"a": "eA=="}), []string{"ConfigMap"}},
		"the type of a Service":       {contract.Set("/spec/type", contract.String("NodePort")), []string{"Service"}},
		"the ports of a Service":      {contract.Set("/spec/ports", contract.Raw(`[{"port":81}]`)), []string{"Service"}},
		"the selector of a Service":   {contract.Merge("/spec/selector", text), []string{"Service"}},
		"the cluster IP":              {contract.Set("/spec/clusterIP", contract.String("None")), nil},
		"the cluster IPs":             {contract.Set("/spec/clusterIPs", contract.Raw(`["None"]`)), nil},
		"external IPs":                {contract.Ensure("/spec/externalIPs", contract.String("192.0.2.1")), nil},
		"the external name":           {contract.Set("/spec/externalName", value), nil},
		"the load balancer's address": {contract.Set("/spec/loadBalancerIP", value), nil},
		"the whole spec of a Service": {contract.Merge("/spec", contract.Raw(`{"externalIPs":["192.0.2.1"]}`)), nil},
		"containers of another kind":  {contract.Set("/spec/containers", contract.Raw(`[]`)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := chains(t, mutating(tc.operation))
			for _, kind := range []string{"ConfigMap", "Secret", "Service"} {
				result, err := view.MutateResource(t.Context(), c, resourceInput(t, kind))
				if assert.Equal(t, err == nil, contains(tc.kinds, kind), "%s: %v", kind, err) && err == nil {
					assert.True(t, result.Changed, kind)
				}
			}
		})
	}
}

func contains(list []string, item string) bool {
	for _, each := range list {
		if each == item {
			return true
		}
	}
	return false
}

func TestLabelsAndAnnotationsOfOtherKindsAreWritable(t *testing.T) {
	c, _ := chains(t, mutating(contract.Set("/spec/rules", contract.Raw(`[]`))))
	in := resourceInput(t, "Ingress")
	_, err := view.MutateResource(t.Context(), c, in)
	assert.Equal(t, &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec/rules", Allowed: view.Writes(in.Object).String()}, notAllowed(t, err))
}

// certificateInput is a custom resource, as the reflection sends it.
func certificateInput(apiVersion string) view.ResourceInput {
	return view.ResourceInput{
		Object: map[string]any{
			"apiVersion": apiVersion, "kind": "Certificate", "metadata": map[string]any{"name": "web", "namespace": "shop-rome"},
			"spec": map[string]any{"issuerRef": map[string]any{"name": "issuer"}}, "data": map[string]any{},
		},
		Target: &unstructured.Unstructured{}, Namespace: "shop", Name: "web",
	}
}

func TestTheSpecOfCustomResourcesIsWritable(t *testing.T) {
	issuer := contract.Merge("/spec/issuerRef", contract.StringMap{"name": "theirs"})
	for name, tc := range map[string]struct {
		operation  contract.Operation
		apiVersion string
		refused    bool
	}{
		"the spec":                          {issuer, "cert-manager.io/v1", false},
		"labels":                            {contract.Merge("/metadata/labels", contract.StringMap{"a": "b"}), "cert-manager.io/v1", false},
		"a field beside the spec":           {contract.Merge("/data", contract.StringMap{"a": "b"}), "cert-manager.io/v1", true},
		"the spec of a kind of Kubernetes":  {issuer, "networking.k8s.io/v1", true},
		"the spec of a kind of the wire":    {issuer, "offloading.liqo.io/v1beta1", true},
		"the spec of a group without a dot": {issuer, "batch/v1", true},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := chains(t, mutating(tc.operation))
			in := certificateInput(tc.apiVersion)
			result, err := view.MutateResource(t.Context(), c, in)
			if tc.refused {
				assert.Equal(t, view.Writes(in.Object).String(), notAllowed(t, err).Allowed, "the rules of the kind")
				return
			}
			require.NoError(t, err)
			assert.True(t, result.Changed)
			target, ok := in.Target.(*unstructured.Unstructured)
			require.True(t, ok)
			assert.Equal(t, result.Object["spec"], target.Object["spec"], "the changed object is decoded")
		})
	}
}

func TestMutateResource(t *testing.T) {
	c, _ := chains(t, mutating(
		contract.Merge("/data", contract.StringMap{"cluster": "milan"}), contract.Remove("/data", "k"),
		contract.Merge("/metadata/labels", contract.StringMap{"site": "a", "offloading.liqo.io/origin": "nowhere"}),
		contract.Remove("/metadata/labels", "offloading.liqo.io/destination"),
	))
	in := resourceInput(t, "ConfigMap")
	before, err := json.Marshal(in.Object)
	require.NoError(t, err)
	result, err := view.MutateResource(t.Context(), c, in)
	require.NoError(t, err)
	after, err := json.Marshal(in.Object)
	require.NoError(t, err)
	assert.JSONEq(t, string(before), string(after), "the input is not altered")

	got := &corev1.ConfigMap{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(result.Object, got))
	assert.Equal(t, map[string]string{"cluster": "milan"}, got.Data)
	assert.Equal(t, map[string]string{"app": "web", "site": "a", "offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"},
		got.Labels, "policies cannot change ownership labels (T40)")
	entries, err := view.DecodeDecisions(got.Annotations[remote.DecisionsAnnotation])
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, "ResourceMutation", entries[0].Point)
	assert.Equal(t, []string{"merge /data[cluster]", "remove /data[k]", "merge /metadata/labels[site]"}, entries[0].Operations)
	assert.Contains(t, result.By, `policy "site" (module site, `)
	require.Len(t, result.Warnings, 2, "about the two reserved keys")
	target, ok := in.Target.(*corev1.ConfigMap)
	require.True(t, ok)
	assert.Equal(t, got.Data, target.Data)
}

func TestMutateResourceDecodesChangesStrictly(t *testing.T) {
	for name, tc := range map[string]struct {
		kind      string
		operation contract.Operation
		want      string
	}{
		"a number for a text": {"ConfigMap", contract.Merge("/data", contract.Raw(`{"a":1}`)), `policy "site" (module site, `},
		"text for base64":     {"Secret", contract.Merge("/data", contract.StringMap{"a": "!"}), "illegal base64 data"},
		"an unknown field":    {"Service", contract.Set("/spec/sessionAffinityConfig", contract.Raw(`{"clientip":{}}`)), `unknown field "spec.sessionAffinityConfig.clientip"`},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := chains(t, mutating(tc.operation))
			_, err := view.MutateResource(t.Context(), c, resourceInput(t, tc.kind))
			var failed *chain.PolicyError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, engine.BadOutput, failed.Class)
			require.ErrorContains(t, err, "checking the changed object: ")
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// The annotation records policies of both points, and does not change if they make the same
// changes.
func TestDecisionsOfTheFilterAreKept(t *testing.T) {
	filter := answering("drops", contract.MetadataFilter, anything("/metadata/labels"), contract.Remove("/metadata/labels", "internal"))
	ask := func(c *chain.Chains, have string) (text string, changed bool) {
		in := resourceInput(t, "ConfigMap")
		_, annotations, err := view.ReflectMetadata(t.Context(), c, view.MetadataInput{
			APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "web", Labels: in.Labels, VirtualNode: in.VirtualNode,
		}, have)
		require.NoError(t, err)
		metadata, ok := in.Object["metadata"].(map[string]any)
		require.True(t, ok)
		metadata["annotations"] = map[string]any{}
		for key, value := range annotations {
			metadata["annotations"] = map[string]any{key: value}
		}
		in.Have = have
		result, err := view.MutateResource(t.Context(), c, in)
		require.NoError(t, err)
		got := &corev1.ConfigMap{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(result.Object, got))
		return got.Annotations[remote.DecisionsAnnotation], result.Changed
	}
	both, _ := chains(t, filter, mutating(contract.Merge("/data", contract.StringMap{"a": "b"})))
	first, changed := ask(both, "")
	assert.True(t, changed)
	entries, err := view.DecodeDecisions(first)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	assert.Equal(t, []string{"MetadataFilter", "ResourceMutation"}, []string{entries[0].Point, entries[1].Point})
	again, _ := ask(both, first)
	assert.Equal(t, first, again)

	// Another version that does the same is not written down.
	later := policytest.Native("site", contract.Manifest{Version: "2", Points: mutating().Manifest().Points}, map[contract.Point]func(contract.Request) (contract.Response, error){
		contract.ResourceMutation: func(contract.Request) (contract.Response, error) {
			return contract.Response{Operations: []contract.Operation{contract.Merge("/data", contract.StringMap{"a": "b"})}}, nil
		},
	})
	renewed, _ := chains(t, filter, later)
	again, _ = ask(renewed, first)
	assert.Equal(t, first, again)

	// Without the policy its decisions are removed.
	alone, _ := chains(t, filter)
	again, changed = ask(alone, first)
	assert.False(t, changed)
	entries, err = view.DecodeDecisions(again)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, "MetadataFilter", entries[0].Point)
}

func TestFactsOfResourceMutation(t *testing.T) {
	var facts string
	spy := policytest.Native("spy", contract.Manifest{Points: []contract.PointManifest{{
		Point: contract.ResourceMutation,
		Reads: []string{"/object/kind", "/object/metadata", "/object/type", "/local", "/virtualNode"},
	}}}, map[contract.Point]func(contract.Request) (contract.Response, error){
		contract.ResourceMutation: func(r contract.Request) (contract.Response, error) {
			facts = string(r.Facts)
			return contract.Response{}, nil
		},
	})
	c, _ := chains(t, spy)
	in := resourceInput(t, "Secret")
	metadata, ok := in.Object["metadata"].(map[string]any)
	require.True(t, ok)
	metadata["annotations"] = map[string]any{"a": "b", remote.DecisionsAnnotation: `[{"point":"MetadataFilter","policy":"f","ops":["remove /metadata/labels[internal]"]}]`}
	result, err := view.MutateResource(t.Context(), c, in)
	require.NoError(t, err)
	assert.False(t, result.Changed)
	assert.JSONEq(t, `{
		"object":{"kind":"Secret","type":"Opaque","metadata":{"name":"web","namespace":"shop-rome",`+owned+`,"annotations":{"a":"b"}}},
		"local":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"web","namespace":"shop","labels":{"app":"web","internal":"x"}}},
		"virtualNode":{"name":"milan-1","providerClusterID":"milan","consumerClusterID":"rome"}}`, facts,
		"data is passed only if declared, and the decisions annotation never")
}

func TestResourceMutationIsLastForPods(t *testing.T) {
	last := policytest.Native("last", contract.Manifest{Points: []contract.PointManifest{{
		Point: contract.ResourceMutation, Reads: []string{"/object/kind", "/object/metadata/labels", "/object/spec/schedulerName", "/local/metadata/name"},
		Writes: append(anything("/spec/hostname"), anything("/data")...),
	}}}, map[contract.Point]func(contract.Request) (contract.Response, error){
		contract.ResourceMutation: policytest.Decide(func(facts map[string]any) ([]contract.Operation, error) {
			text, err := json.Marshal(facts)
			return []contract.Operation{contract.Set("/spec/hostname", contract.String(text))}, err
		}),
	})
	scheduler := answering("scheduler", contract.PodMutation, anything("/spec/schedulerName"), contract.Set("/spec/schedulerName", contract.String("s")))
	c, _ := chains(t, last, scheduler)
	result, err := view.OffloadPod(t.Context(), c, offloadInput())
	require.NoError(t, err)
	assert.Contains(t, result.ShadowPod.Spec.Pod.Hostname, `"schedulerName":"s"`)
	assert.Contains(t, result.ShadowPod.Spec.Pod.Hostname, `"kind":"Pod"`)
	assert.Equal(t, contract.ResourceMutation, result.Decisions[len(result.Decisions)-1].Point)

	data, _ := chains(t, mutating(contract.Merge("/data", contract.StringMap{"a": "b"})))
	_, err = view.OffloadPod(t.Context(), data, offloadInput())
	refused := notAllowed(t, err)
	assert.Equal(t, "/data", refused.Path)
	assert.NotContains(t, refused.Allowed, "/data", "the rules of the kind, not those of the module")
}

// counted counts the evaluations of each point.
type counted struct {
	*chain.Chains
	asked map[contract.Point]int
}

func (c *counted) Evaluate(ctx context.Context, in chain.Input) (*chain.Result, error) {
	c.asked[in.Point]++
	return c.Chains.Evaluate(ctx, in)
}

func TestHasResourcePolicies(t *testing.T) {
	none, _ := chains(t)
	c := &counted{none, map[contract.Point]int{}}
	assert.False(t, view.HasResourcePolicies(c))
	assert.Zero(t, testing.AllocsPerRun(100, func() { view.HasResourcePolicies(none) }))
	_, err := view.OffloadPod(t.Context(), c, offloadInput())
	require.NoError(t, err)
	assert.Equal(t, map[contract.Point]int{contract.MetadataFilter: 1, contract.OffloadingPatch: 1, contract.AntiAffinityPreset: 1, contract.PodMutation: 1}, c.asked)
}

// The probe declares what its point allows, and writes what no policy may of a Service.
func TestAModuleMayNotWriteOtherFieldsOfTheKind(t *testing.T) {
	wasm := policytest.NewGuest().
		Answers("describe", `{"name":"probe","version":"1","contracts":["v1alpha1"],"points":[{"point":"ResourceMutation","reads":[],"writes":[{"path":"/spec","verbs":["set"]}]}]}`).
		Answers(contract.ResourceMutation.Export(), `{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/clusterIP","value":"10.0.0.1"}]}`).
		Bytes()
	e, err := engine.New(t.Context(), engine.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
	m, err := module.Load(t.Context(), e, wasm, module.Options{Name: "probe"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close(context.WithoutCancel(t.Context()))) })
	c := chain.New(chain.Options{})
	require.NoError(t, c.Swap([]chain.Binding{{Name: "probe", Policy: m, Point: contract.ResourceMutation}}))
	_, err = view.MutateResource(t.Context(), c, resourceInput(t, "Service"))
	var refused *chain.PolicyError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, chain.Undeclared, refused.Class)
	assert.Equal(t, "/spec/clusterIP", notAllowed(t, err).Path)
}
