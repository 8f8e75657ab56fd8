package view_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/builtin-policies/antiaffinity"
	"github.com/longshore-dev/longshore/builtin-policies/metadatafilter"
	"github.com/longshore-dev/longshore/builtin-policies/native"
	"github.com/longshore-dev/longshore/builtin-policies/offloadingpatch"
	"github.com/longshore-dev/longshore/builtin-policies/podplacement"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// defaults are the built-in policies as plain functions.
func defaults() *policytest.Policy {
	return policytest.Native("defaults", contract.Manifest{Points: []contract.PointManifest{
		metadatafilter.Manifest(), offloadingpatch.Manifest(), antiaffinity.Manifest(), podplacement.Manifest(),
	}}, native.Functions())
}

// chains binds the default policies and then the given bindings.
func chains(tb testing.TB, more ...*policytest.Policy) (*chain.Chains, *policytest.Policy) {
	tb.Helper()
	policy := defaults()
	first, second := 0, 1
	var bindings []chain.Binding
	for _, point := range contract.CorePoints() {
		bindings = append(bindings, chain.Binding{Name: "default-" + strings.ToLower(string(point)), Policy: policy, Point: point, Order: &first})
	}
	for _, p := range more {
		for _, declared := range p.Manifest().Points {
			bindings = append(bindings, chain.Binding{Name: p.Name(), Policy: p, Point: declared.Point, Order: &second})
		}
	}
	c := chain.New(chain.Options{ReservedKey: remote.ReservedKey})
	require.NoError(tb, c.Swap(bindings))
	return c, policy
}

func answering(name string, point contract.Point, writes []contract.WriteRule, operations ...contract.Operation) *policytest.Policy {
	return policytest.Native(name, contract.Manifest{Points: []contract.PointManifest{{Point: point, Writes: writes}}},
		map[contract.Point]func(contract.Request) (contract.Response, error){
			point: func(contract.Request) (contract.Response, error) {
				return contract.Response{Operations: operations}, nil
			},
		})
}

func anything(path string) []contract.WriteRule {
	return []contract.WriteRule{{Path: path, Verbs: contract.Verbs()}}
}

func localPod() *corev1.Pod {
	grace := int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-0", Namespace: "shop", UID: "u-1",
			Labels:      map[string]string{"app": "web", "pod-template-hash": "h1", "internal": "x"},
			Annotations: map[string]string{"liqo.io/anti-affinity-preset": "soft", "note": "n"},
		},
		Spec: corev1.PodSpec{
			NodeName:                      "milan",
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "web", Image: "web:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
			}},
			Tolerations: []corev1.Toleration{{Key: "own", Operator: corev1.TolerationOpExists}},
		},
	}
}

func draftOf(local *corev1.Pod) *offloadingv1beta1.ShadowPod {
	labels := map[string]string{"offloading.liqo.io/nodename": "milan"}
	for key, value := range local.Labels {
		labels[key] = value
	}
	return &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Name: local.Name, Namespace: "shop-rome", Labels: labels, Annotations: local.Annotations},
		Spec: offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{
			Containers: local.Spec.Containers, Tolerations: local.Spec.Tolerations,
			TerminationGracePeriodSeconds: local.Spec.TerminationGracePeriodSeconds,
		}},
	}
}

func term(key string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}}}
}

func offloadInput() view.OffloadInput {
	local := localPod()
	class := "gvisor"
	return view.OffloadInput{
		Local: local, Draft: draftOf(local), VirtualNode: contract.VirtualNode{Name: "milan", ProviderClusterID: "milan", ConsumerClusterID: "rome"},
		Patch: &offloadingv1beta1.OffloadingPatch{
			LabelsNotReflected: []string{"internal", "offloading.liqo.io/nodename"}, AnnotationsNotReflected: []string{"note"},
			NodeSelector:     map[string]string{"pool": "gpu"},
			Tolerations:      []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
			Affinity:         &offloadingv1beta1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term("zone")}}}},
			RuntimeClassName: &class,
		},
	}
}

func text(tb testing.TB, value any) string {
	tb.Helper()
	data, err := json.Marshal(value)
	require.NoError(tb, err)
	return string(data)
}

func TestOffloadPodEvaluatesAllPoints(t *testing.T) {
	c, policy := chains(t)
	in := offloadInput()
	before := text(t, []any{in.Local, in.Draft, in.Patch})

	result, err := view.OffloadPod(t.Context(), c, in)
	require.NoError(t, err)
	assert.Equal(t, before, text(t, []any{in.Local, in.Draft, in.Patch}), "the input is not altered")
	require.True(t, result.Changed)
	require.Nil(t, result.Denial)

	shadow := result.ShadowPod
	assert.Equal(t, map[string]string{"app": "web", "pod-template-hash": "h1", "offloading.liqo.io/nodename": "milan"}, shadow.Labels, "T40: the node name stays although it is listed")
	assert.Equal(t, map[string]string{"liqo.io/anti-affinity-preset": "soft"}, shadow.Annotations)
	spec := shadow.Spec.Pod
	assert.Equal(t, map[string]string{"pool": "gpu"}, spec.NodeSelector)
	assert.Equal(t, []corev1.Toleration{{Key: "own", Operator: "Exists"}, {Key: "gpu", Operator: "Exists"}}, spec.Tolerations)
	assert.Equal(t, "gvisor", *spec.RuntimeClassName)
	require.NotNil(t, spec.Affinity)
	assert.Equal(t, []corev1.NodeSelectorTerm{term("zone")}, spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, "T1: the preset keeps it")
	preferred := spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	require.Len(t, preferred, 1)
	assert.Equal(t, map[string]string{"app": "web", "offloading.liqo.io/nodename": "milan"}, preferred[0].PodAffinityTerm.LabelSelector.MatchLabels, "labels after the filter (3.4)")
	assert.Same(t, &in.Draft.Spec.Pod.Containers[0], &spec.Containers[0], "what no policy touched is shared")

	again, err := view.OffloadPod(t.Context(), c, offloadInput())
	require.NoError(t, err)
	assert.Equal(t, text(t, shadow), text(t, again.ShadowPod))
	assert.Equal(t, 3, policy.Calls(), "the second pod is answered from memory; PodMutation is bound to Admission only")

	in.Draft = shadow
	twice, err := view.OffloadPod(t.Context(), c, in)
	require.NoError(t, err)
	assert.False(t, twice.Changed, "asking twice is asking once")
	assert.Same(t, shadow, twice.ShadowPod)
}

func TestOffloadPodUnchangedReturnsTheDraft(t *testing.T) {
	c, _ := chains(t)
	in := offloadInput()
	in.Patch, in.Local.Annotations = nil, nil
	result, err := view.OffloadPod(t.Context(), c, in)
	require.NoError(t, err)
	assert.False(t, result.Changed)
	assert.Same(t, in.Draft, result.ShadowPod)
	assert.Len(t, result.Decisions, 3)
}

func TestOffloadPodDecodesChangesStrictly(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  *policytest.Policy
		wantErr string
	}{
		"an unknown field":             {policy: answering("p", contract.PodMutation, anything("/spec"), contract.Set("/spec/nodeSelektor", contract.StringMap{"a": "b"})), wantErr: `unknown field "nodeSelektor"`},
		"an unknown nested field":      {policy: answering("p", contract.PodMutation, anything("/spec"), contract.Set("/spec/containers[name=web]/imagePolicy", contract.String("x"))), wantErr: `unknown field "containers[0].imagePolicy"`},
		"a value of another type":      {policy: answering("p", contract.PodMutation, anything("/spec"), contract.Set("/spec/containers", contract.String("x"))), wantErr: "decoding the changed spec"},
		"a label that is not a string": {policy: answering("p", contract.MetadataFilter, anything("/metadata/labels"), contract.Merge("/metadata/labels", contract.Raw(`{"a":1}`))), wantErr: `metadata.labels["a"] has type int64, want a string`},
		"labels that are a list":       {policy: answering("p", contract.MetadataFilter, anything("/metadata/labels"), contract.Set("/metadata/labels", contract.Raw(`[1]`))), wantErr: "metadata.labels: found a list, want an object"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := chains(t, tc.policy)
			_, err := view.OffloadPod(t.Context(), c, offloadInput())
			require.ErrorIs(t, err, engine.BadOutput, "the author of the module must act")
			require.ErrorContains(t, err, tc.wantErr)
		})
	}
}

func TestOffloadPodKeepsUnchangedMembersOfAChangedField(t *testing.T) {
	c, _ := chains(t, answering("mirror", contract.PodMutation, anything("/spec/containers[*]/image"),
		contract.Set("/spec/containers[name=web]/image", contract.String("mirror/web:1"))))
	in := offloadInput()
	result, err := view.OffloadPod(t.Context(), c, in)
	require.NoError(t, err)
	want := in.Draft.Spec.Pod.Containers[0]
	want.Image = "mirror/web:1"
	assert.Equal(t, text(t, want), text(t, result.ShadowPod.Spec.Pod.Containers[0]))
	assert.Equal(t, "web:1", in.Local.Spec.Containers[0].Image)
}

func TestOffloadPodStopsAtADenial(t *testing.T) {
	denier := policytest.Native("no", contract.Manifest{Points: []contract.PointManifest{{Point: contract.PodMutation}}},
		map[contract.Point]func(contract.Request) (contract.Response, error){
			contract.PodMutation: func(contract.Request) (contract.Response, error) {
				return contract.Response{Deny: &contract.Denial{Reason: "Nope", Message: "not this pod"}}, nil
			},
		})
	c, _ := chains(t, denier)
	result, err := view.OffloadPod(t.Context(), c, offloadInput())
	require.NoError(t, err)
	require.NotNil(t, result.Denial)
	assert.Equal(t, "no", result.Denial.Policy)
	assert.Len(t, result.Decisions, 4, "earlier decisions are recorded too")
}

func admissionInput() view.AdmissionInput {
	pod := localPod()
	pod.Namespace, pod.Spec.NodeName = "", ""
	return view.AdmissionInput{
		Pod: pod, Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, User: "alice", RuntimeClassName: "liqo",
		Offloading: &offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: offloadingv1beta1.RemotePodOffloadingStrategyType},
	}
}

func TestAdmitPod(t *testing.T) {
	c, policy := chains(t)
	in := admissionInput()
	before := text(t, in.Pod)
	result, err := view.AdmitPod(t.Context(), c, in)
	require.NoError(t, err)
	require.True(t, result.Changed)
	assert.Equal(t, before, text(t, in.Pod))
	assert.Equal(t, []corev1.Toleration{{Key: "own", Operator: "Exists"}, {Key: "virtual-node.liqo.io/not-allowed", Operator: "Exists", Effect: "NoExecute"}}, result.Pod.Spec.Tolerations)
	assert.Equal(t, "liqo.io/type", result.Pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Key)

	patch, err := result.JSONPatch(map[string]string{"decided/by": "x"})
	require.NoError(t, err)
	assert.JSONEq(t, `[
		{"op":"add","path":"/metadata/annotations/decided~1by","value":"x"},
		{"op":"add","path":"/spec/affinity","value":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"liqo.io/type","operator":"In","values":["virtual-node"]}]}]}}}},
		{"op":"add","path":"/spec/tolerations/-","value":{"key":"virtual-node.liqo.io/not-allowed","operator":"Exists","effect":"NoExecute"}}]`, string(patch))

	in.Pod = result.Pod
	again, err := view.AdmitPod(t.Context(), c, in)
	require.NoError(t, err)
	assert.False(t, again.Changed, "the webhook is idempotent")
	assert.Same(t, result.Pod, again.Pod)
	patch, err = again.JSONPatch(nil)
	require.NoError(t, err)
	assert.Nil(t, patch)
	assert.Equal(t, 1, policy.Calls(), "one answer serves the namespace")

	in.Offloading = nil
	_, err = view.AdmitPod(t.Context(), c, in)
	require.ErrorContains(t, err, "no NamespaceOffloading")
}

func TestAdmitPodFromRawJSON(t *testing.T) {
	c, policy := chains(t, answering("mirror", contract.PodMutation, anything("/spec/containers[*]/image"),
		contract.Set("/spec/containers[name=web]/image", contract.String("mirror/web:1"))))
	in := admissionInput()
	typed, err := view.AdmitPod(t.Context(), c, in)
	require.NoError(t, err)
	want, err := typed.JSONPatch(nil)
	require.NoError(t, err)

	in.Raw, in.Pod = []byte(text(t, in.Pod)), nil
	raw, err := view.AdmitPod(t.Context(), c, in)
	require.NoError(t, err)
	got, err := raw.JSONPatch(nil)
	require.NoError(t, err)
	assert.JSONEq(t, string(want), string(got))
	assert.Equal(t, typed.Decisions, raw.Decisions)
	assert.Nil(t, raw.Pod)
	assert.Equal(t, 1, policy.Calls(), "both ask the same")

	in.Raw = []byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"web","image":"web:1","fieldOfTomorrow":1}]}}`)
	raw, err = view.AdmitPod(t.Context(), c, in)
	require.NoError(t, err, "what a newer API server knows is not a policy's fault")
	got, err = raw.JSONPatch(nil)
	require.NoError(t, err)
	assert.Contains(t, string(got), `{"op":"replace","path":"/spec/containers/0/image","value":"mirror/web:1"}`, "and it survives")

	bad, _ := chains(t, answering("p", contract.PodMutation, anything("/spec"), contract.Set("/spec/nodeSelektor", contract.StringMap{"a": "b"})))
	_, err = view.AdmitPod(t.Context(), bad, in)
	require.ErrorIs(t, err, engine.BadOutput)
	require.ErrorContains(t, err, `unknown field "nodeSelektor"`)

	for name, broken := range map[string]string{"a list": `[]`, "labels that are a list": `{"metadata":{"labels":[]}}`, "a spec that is text": `{"spec":"x"}`} {
		in.Raw = []byte(broken)
		_, err = view.AdmitPod(t.Context(), c, in)
		assert.Error(t, err, name)
	}
}

func TestFilterMetadata(t *testing.T) {
	c, _ := chains(t)
	labels, annotations, decisions, err := view.FilterMetadata(t.Context(), c, view.MetadataInput{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "cm",
		Labels:       map[string]string{"a": "1", "b": "2"},
		NotReflected: contract.NotReflected{Labels: []string{"b", "c"}},
	})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "1"}, labels)
	assert.Equal(t, map[string]string{}, annotations, "never nil")
	require.Len(t, decisions, 1)
	assert.Equal(t, []string{"b"}, decisions[0].Effects[0].Keys)
}

// Whatever a module does, reserved keys are neither dropped nor renamed, and nothing
// is renamed onto them.
func TestFiltersCannotChangeReservedKeys(t *testing.T) {
	c, _ := chains(t, answering("thief", contract.MetadataFilter, append(anything("/metadata/labels"), anything("/metadata/annotations")...),
		contract.Remove("/metadata/labels", "offloading.liqo.io/origin", "team"),
		contract.Merge("/metadata/labels", contract.StringMap{"stolen": "rome", "liqo.io/managed-by": "thief", "offloading.liqo.io/destination": "paris"}),
		contract.Set("/metadata/annotations", contract.StringMap{"new": "1"})))
	labels, annotations, decisions, err := view.FilterMetadata(t.Context(), c, view.MetadataInput{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "cm",
		Labels:      map[string]string{"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan", "team": "blue"},
		Annotations: map[string]string{"longshore.dev/local-pod-uid": "u", "old": "1"},
	})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan", "stolen": "rome"}, labels)
	assert.Equal(t, map[string]string{"longshore.dev/local-pod-uid": "u", "new": "1"}, annotations)
	assert.ElementsMatch(t, []string{
		"/metadata/labels/offloading.liqo.io~1origin", "/metadata/labels/offloading.liqo.io~1destination",
		"/metadata/labels/liqo.io~1managed-by", "/metadata/annotations/longshore.dev~1local-pod-uid",
	}, decisions[1].Kept)
}

// Every changed path is recorded with the changed keys, even if a later policy changes it
// again.
func TestDecisionsRecordEveryChangedPath(t *testing.T) {
	filter := answering("filter", contract.MetadataFilter, anything("/metadata/labels"),
		contract.Remove("/metadata/labels", "offloading.liqo.io/nodename", "app", "absent"),
		contract.Merge("/metadata/labels", contract.StringMap{"tenant": "blue", "pod-template-hash": "h1"}))
	first := answering("first", contract.PodMutation, anything("/spec"), contract.Set("/spec/containers[name=web]/image", contract.String("a")),
		contract.Set("/spec/containers[name=none]/image", contract.String("b")), contract.Merge("/spec/nodeSelector", contract.StringMap{"pool": "gpu", "zone": "z"}))
	second := answering("second", contract.PodMutation, anything("/spec"), contract.Set("/spec/containers[*]/image", contract.String("c")), contract.Remove("/spec", "tolerations"))
	one, two := 1, 2
	c := chain.New(chain.Options{ReservedKey: remote.ReservedKey})
	bindings := []chain.Binding{
		{Name: "filter", Policy: filter, Point: contract.MetadataFilter, Order: &one},
		{Name: "first", Policy: first, Point: contract.PodMutation, Order: &one},
		{Name: "second", Policy: second, Point: contract.PodMutation, Order: &two},
	}
	policy := defaults()
	zero := 0
	for _, point := range contract.CorePoints() {
		bindings = append(bindings, chain.Binding{Name: "default", Policy: policy, Point: point, Order: &zero})
	}
	require.NoError(t, c.Swap(bindings))
	result, err := view.OffloadPod(t.Context(), c, offloadInput())
	require.NoError(t, err)
	recorded := map[string][]string{}
	entries, err := view.DecodeDecisions(view.EncodeDecisions(result.Decisions, view.MaxDecisionsBytes))
	require.NoError(t, err)
	var order []string
	for _, entry := range entries {
		at := entry.Policy + " at " + entry.Point
		order = append(order, at)
		recorded[at] = entry.Operations
		for _, kept := range entry.Kept {
			recorded[at] = append(recorded[at], "kept "+kept)
		}
	}
	assert.Equal(t, []string{
		"default at MetadataFilter", "filter at MetadataFilter", "default at OffloadingPatch", "default at AntiAffinityPreset",
		"first at PodMutation", "second at PodMutation",
	}, order)
	assert.Equal(t, map[string][]string{
		"default at MetadataFilter": {"remove /metadata/annotations[note]", "remove /metadata/labels[internal]"},
		"filter at MetadataFilter":  {"remove /metadata/labels[app]", "merge /metadata/labels[tenant]", "kept /metadata/labels/offloading.liqo.io~1nodename"},
		"default at OffloadingPatch": {"merge /spec/nodeSelector[pool]", "ensure /spec/tolerations",
			"require /spec/affinity/nodeAffinity", "set /spec/runtimeClassName"},
		"default at AntiAffinityPreset": {"ensure /spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution"},
		"first at PodMutation":          {"set /spec/containers[name=web]/image", "merge /spec/nodeSelector[zone]"},
		"second at PodMutation":         {"set /spec/containers[*]/image", "remove /spec[tolerations]"},
	}, recorded)
}

func TestDecisionsAreEncodedWithoutValues(t *testing.T) {
	decision := chain.Decision{
		Point: contract.PodMutation, Binding: "mirror", Module: "m", Digest: "sha256:0123456789abcdef",
		Effects: []operation.Effect{{Verb: "set", Path: "/spec/x"}, {Verb: "merge", Path: "/metadata/labels", Keys: []string{"a", "b"}}},
	}
	encoded := view.EncodeDecisions([]chain.Decision{decision}, view.MaxDecisionsBytes)
	assert.JSONEq(t, `[{"point":"PodMutation","policy":"mirror","module":"m","digest":"0123456789ab","ops":["set /spec/x","merge /metadata/labels[a b]"]}]`, encoded)
	assert.Empty(t, view.EncodeDecisions(nil, view.MaxDecisionsBytes))

}

func TestOmittedDecisionsAreCounted(t *testing.T) {
	decision := func(name string, effects int) chain.Decision {
		d := chain.Decision{Point: contract.PodMutation, Binding: name, Module: "m", Digest: "sha256:0123456789abcdef"}
		for i := range effects {
			d.Effects = append(d.Effects, operation.Effect{Verb: "set", Path: fmt.Sprintf("/spec/containers[name=c%03d]/image", i)})
		}
		return d
	}
	t.Run("every policy is named before one lists everything", func(t *testing.T) {
		encoded := view.EncodeDecisions([]chain.Decision{decision("wordy", 250), decision("short", 2), decision("wordy-too", 250)}, view.MaxDecisionsBytes)
		assert.LessOrEqual(t, len(encoded), view.MaxDecisionsBytes)
		assert.Greater(t, len(encoded), view.MaxDecisionsBytes*9/10, "the room is used")
		entries, err := view.DecodeDecisions(encoded)
		require.NoError(t, err)
		require.Len(t, entries, 3)
		assert.Equal(t, []string{"set /spec/containers[name=c000]/image", "set /spec/containers[name=c001]/image"}, entries[1].Operations)
		for _, i := range []int{0, 2} {
			listed := entries[i].Operations
			assert.Equal(t, fmt.Sprintf("… and %d more", 250-(len(listed)-1)), listed[len(listed)-1])
			assert.Greater(t, len(listed), 20)
		}
	})
	t.Run("many keys", func(t *testing.T) {
		keys := make([]string, 40)
		for i := range keys {
			keys[i] = fmt.Sprintf("k%02d", i)
		}
		d := decision("p", 0)
		d.Effects = []operation.Effect{{Verb: "remove", Path: "/metadata/labels", Keys: keys}}
		encoded := view.EncodeDecisions([]chain.Decision{d}, view.MaxDecisionsBytes)
		assert.Contains(t, encoded, "k30 k31 … and 8 more]")
		assert.NotContains(t, encoded, "k32")
	})
	t.Run("reserved keys that were kept", func(t *testing.T) {
		d := decision("p", 0)
		for i := range 200 {
			d.Kept = append(d.Kept, fmt.Sprintf("/metadata/labels/offloading.liqo.io~1%030d", i))
		}
		entries, err := view.DecodeDecisions(view.EncodeDecisions([]chain.Decision{d}, view.MaxDecisionsBytes))
		require.NoError(t, err)
		kept := entries[0].Kept
		assert.Equal(t, fmt.Sprintf("… and %d more", 200-(len(kept)-1)), kept[len(kept)-1])
	})
	t.Run("too many policies to name", func(t *testing.T) {
		many := make([]chain.Decision, 100)
		for i := range many {
			many[i] = decision("mirror", 3)
		}
		encoded := view.EncodeDecisions(many, view.MaxDecisionsBytes)
		assert.LessOrEqual(t, len(encoded), view.MaxDecisionsBytes)
		entries, err := view.DecodeDecisions(encoded)
		require.NoError(t, err)
		last := entries[len(entries)-1]
		assert.Equal(t, 100, len(entries)-1+last.Omitted)
		assert.Positive(t, last.Omitted)
		assert.Empty(t, last.Policy)
	})
}

func TestChangedBy(t *testing.T) {
	by := func(name string, effects ...operation.Effect) chain.Decision {
		return chain.Decision{Binding: name, Module: "m", Digest: "sha256:0123456789abcdef", Effects: effects}
	}
	set := func(path string, keys ...string) operation.Effect {
		return operation.Effect{Verb: contract.VerbSet, Path: path, Keys: keys}
	}
	for name, tc := range map[string]struct {
		effect operation.Effect
		field  string
		want   bool
	}{
		"the field":                       {set("/spec/hostNetwork"), "/spec/hostNetwork", true},
		"above it":                        {set("/spec/containers"), "/spec/containers[name=web]/securityContext/privileged", true},
		"below it":                        {set("/spec/securityContext/seLinuxOptions/type"), "/spec/securityContext/seLinuxOptions", true},
		"all items":                       {set("/spec/containers[*]/securityContext"), "/spec/containers[name=web]/securityContext/privileged", true},
		"another item":                    {set("/spec/containers[name=log]/securityContext"), "/spec/containers[name=web]/securityContext/privileged", false},
		"another field":                   {set("/spec/hostPID"), "/spec/hostNetwork", false},
		"a key of a map":                  {set("/metadata/annotations", "a/b"), "/metadata/annotations/a~1b", true},
		"another key of the map":          {set("/metadata/annotations", "a/c"), "/metadata/annotations/a~1b", false},
		"a key that is a field":           {set("/spec", "hostNetwork", "x"), "/spec/hostNetwork", true},
		"a key that is not a valid token": {set("/spec", "7"), "/spec/hostNetwork", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := view.ChangedBy([]chain.Decision{by("other", set("/spec/nodeSelector")), by("evil", tc.effect)}, []string{tc.field})
			if tc.want {
				assert.Equal(t, `policy "evil" (module m, 0123456789ab)`, got)
			} else {
				assert.Equal(t, "the policies", got)
			}
		})
	}
	both := view.ChangedBy([]chain.Decision{by("a", set("/spec/x")), by("b", set("/spec/x")), by("a", set("/spec/x"))}, []string{"/spec/x", "not a path"})
	assert.Equal(t, `policy "a" (module m, 0123456789ab) and policy "b" (module m, 0123456789ab)`, both)
}
