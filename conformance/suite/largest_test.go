package suite_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// etcdRequestBytes is the largest object that the API server can store: etcd's default
	// --max-request-bytes.
	etcdRequestBytes = 1536 << 10
	// annotationBytes is what Kubernetes lets all annotations of an object hold.
	annotationBytes = 256 << 10

	presetAnnotation = "liqo.io/anti-affinity-preset"
	labelsAnnotation = "liqo.io/anti-affinity-labels"
)

// fill calls add with 0, 1, … until the pod is about as large as the API server allows.
func fill(tb testing.TB, pod *corev1.Pod, add func(pod *corev1.Pod, i int)) *corev1.Pod {
	tb.Helper()
	const sample, spare = 64, 4 << 10
	size, each := pod.Size(), 0
	for i, chunk := 0, sample; size < etcdRequestBytes-spare; chunk = max(1, (etcdRequestBytes-spare-size)/(2*each)) {
		for range chunk {
			add(pod, i)
			i++
		}
		each = max(1, (pod.Size()-size)/chunk)
		size = pod.Size()
	}
	require.LessOrEqual(tb, pod.Size(), etcdRequestBytes, "the API server stores it")
	require.Greater(tb, pod.Size(), etcdRequestBytes*9/10, "it is about as large as can be")
	return pod
}

func key(i int) string { return strconv.FormatInt(int64(i), 36) }

// largest are pods about as large as the API server stores, each in another way.
func largest(tb testing.TB) map[string]*corev1.Pod {
	tb.Helper()
	pod := func(annotations ...string) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "large", Namespace: "default", Labels: map[string]string{}, Annotations: map[string]string{}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		}
		for i := 0; i < len(annotations); i += 2 {
			p.Annotations[annotations[i]] = annotations[i+1]
		}
		return p
	}
	shortLabel := func(p *corev1.Pod, i int) { p.Labels[key(i)] = "" }
	longLabel := func(p *corev1.Pod, i int) {
		domain := strings.Repeat(strings.Repeat("d", 61)+".", 4) + "ddddd"
		p.Labels[domain+"/"+strings.Repeat("n", 50)+fmt.Sprintf("%09d", i)] = strings.Repeat("v", 63)
	}
	term := func(i int) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: "k", LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key(i), Operator: "Exists"}},
		}}
	}
	requiredTerm := func(p *corev1.Pod, i int) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		}
		terms := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*terms = append(*terms, term(i))
	}
	all := map[string]*corev1.Pod{
		"2,300 labels":                  pod(presetAnnotation, "soft"),
		"short labels, hard preset":     fill(tb, pod(presetAnnotation, "hard"), shortLabel),
		"short labels, without preset":  fill(tb, pod(), shortLabel),
		"long labels, hard preset":      fill(tb, pod(presetAnnotation, "hard"), longLabel),
		"anti-affinity terms to copy":   fill(tb, pod(presetAnnotation, "propagate"), requiredTerm),
		"one long anti-affinity term":   pod(presetAnnotation, "propagate"),
		"annotations":                   pod(),
		"one annotation of controls":    pod("liqo.io/remote-runtime-class-name", strings.Repeat("\x01", annotationBytes-64)),
		"a list of labels to select by": nil,
		"tolerations": fill(tb, pod(), func(p *corev1.Pod, i int) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key(i), Operator: "Exists"})
		}),
		"environment": fill(tb, pod(), func(p *corev1.Pod, i int) {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "V" + key(i), Value: "\x01"})
		}),
	}
	for i := range 2300 {
		longLabel(all["2,300 labels"], i)
	}
	for i := 0; i < annotationBytes/64-1; i++ {
		all["annotations"].Annotations[fmt.Sprintf("example.com/%020d", i)] = strings.Repeat("v", 32)
	}
	requiredTerm(all["one long anti-affinity term"], 0)
	one := &all["one long anti-affinity term"].Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	fill(tb, all["one long anti-affinity term"], func(_ *corev1.Pod, i int) { one.Namespaces = append(one.Namespaces, key(i)) })
	var list []string
	for n, i := 0, 0; n < annotationBytes-128; i++ {
		list = append(list, key(i))
		n += len(key(i)) + 1
	}
	all["a list of labels to select by"] = fill(tb, pod(presetAnnotation, "hard", labelsAnnotation, strings.Join(list, ",")), shortLabel)
	return all
}

// defaultChains binds the built-in policies at their points.
func defaultChains(tb testing.TB, settings map[contract.Point]string) *chain.Chains {
	tb.Helper()
	e, err := engine.New(tb.Context(), engine.Options{CacheDir: tb.TempDir()})
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, e.Close(context.WithoutCancel(tb.Context()))) })
	loaded, err := module.Load(tb.Context(), e, builtinModule(tb), module.Options{Name: "builtin", Limits: engine.BuiltIn()})
	require.NoError(tb, err)
	chains := chain.New(chain.Options{ReservedKey: remote.ReservedKey})
	var bindings []chain.Binding
	for _, point := range contract.CorePoints() {
		bindings = append(bindings, chain.Binding{Name: string(point), Policy: loaded, Point: point, BuiltIn: true, Settings: []byte(settings[point])})
	}
	require.NoError(tb, chains.Swap(bindings))
	return chains
}

// A user who may create pods in one namespace must not find one that the default policies
// fail on: not at admission, not when it is offloaded, and not with rules for labels.
func TestBuiltinsHandleTheLargestPods(t *testing.T) {
	pods := largest(t)
	rules := `{"rules":[{"drop":["a*","example.com/"]},{"rename":{"b":"example.org/b"}},{"keep":["?*"]}]}`
	for name, chains := range map[string]*chain.Chains{
		"without settings": defaultChains(t, nil),
		"with rules":       defaultChains(t, map[contract.Point]string{contract.MetadataFilter: rules}),
	} {
		for kind, pod := range pods {
			t.Run(name+", "+kind, func(t *testing.T) {
				draft := remote.PodDraft(pod, "remote", remote.Origin{})
				result, err := view.OffloadPod(t.Context(), chains, view.OffloadInput{Local: pod, Draft: draft})
				require.NoError(t, err)
				assertAntiAffinity(t, pod, result.ShadowPod)
				_, err = view.AdmitPod(t.Context(), chains, view.AdmissionInput{
					Pod: pod, Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}},
					Offloading: &offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: offloadingv1beta1.RemotePodOffloadingStrategyType},
				})
				assert.NoError(t, err)
			})
		}
	}
}

// assertAntiAffinity looks at what the preset of the pod has made of its remote pod.
func assertAntiAffinity(t *testing.T, pod *corev1.Pod, shadow *offloadingv1beta1.ShadowPod) {
	t.Helper()
	preset := pod.Annotations[presetAnnotation]
	if preset == "" {
		assert.Nil(t, shadow.Spec.Pod.Affinity)
		return
	}
	got := shadow.Spec.Pod.Affinity.PodAntiAffinity
	switch preset {
	case "propagate":
		assert.Len(t, got.RequiredDuringSchedulingIgnoredDuringExecution, len(pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution))
	case "soft":
		assert.Equal(t, shadow.Labels, got.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector.MatchLabels)
	default:
		assert.Greater(t, len(got.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels), 3000)
	}
}

func TestBuiltinsDropAllLabelsOfTheLargestPod(t *testing.T) {
	pod := largest(t)["short labels, without preset"]
	chains := defaultChains(t, map[contract.Point]string{contract.MetadataFilter: `{"rules":[{"keep":[]}]}`})
	labels, _, _, err := view.FilterMetadata(t.Context(), chains, view.MetadataInput{APIVersion: "v1", Kind: "Pod", Labels: pod.Labels})
	require.NoError(t, err)
	assert.Empty(t, labels)
}

// What a user with many namespaces writes into a NamespaceOffloading is as large.
func TestBuiltinsHandleTheLargestClusterSelector(t *testing.T) {
	var spec offloadingv1beta1.NamespaceOffloadingSpec
	spec.PodOffloadingStrategy = offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType
	term := corev1.NodeSelectorTerm{}
	for i := range 60_000 {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key(i), Operator: "Exists"})
	}
	spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{term}
	result, err := view.AdmitPod(t.Context(), defaultChains(t, nil), view.AdmissionInput{
		Pod:        &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}},
		Offloading: &spec,
	})
	require.NoError(t, err)
	terms := result.Pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	require.Len(t, terms, 2)
	assert.Len(t, terms[0].MatchExpressions, 60_000)
}
