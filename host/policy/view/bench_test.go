package view_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// largePod returns a pod of about 7 KiB of JSON, like one of a typical Deployment.
func largePod() *corev1.Pod {
	pod := localPod()
	pod.CreationTimestamp = metav1.Unix(1_700_000_000, 0)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d8", UID: "u-2"}}
	for i := range 3 {
		container := corev1.Container{
			Name: fmt.Sprintf("c%d", i), Image: "registry.example/team/app:1.2.3", Command: []string{"/bin/app", "--verbose"},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
			},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")}}, PeriodSeconds: 10},
			VolumeMounts:  []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app", ReadOnly: true}, {Name: "cache", MountPath: "/var/cache"}},
		}
		for j := range 12 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d_%d", i, j), ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: fmt.Sprintf("key-%d", j)},
			}})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
		{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{term("zone"), term("disk")},
	}}}
	return pod
}

func largeOffload() view.OffloadInput {
	in := offloadInput()
	in.Local = largePod()
	in.Draft = draftOf(in.Local)
	return in
}

// Typed pods and their unstructured form give equal requests, so they share cached answers.
func TestTypedAndConvertedPodsGiveEqualRequests(t *testing.T) {
	var requests []string
	spy := policytest.Native("spy", contract.Manifest{Points: []contract.PointManifest{{
		Point: contract.PodMutation,
		Reads: []string{"/object/metadata", "/object/spec", "/local/spec/containers[*]/resources", "/local/spec/containers[name=c1]/livenessProbe", "/local/metadata/ownerReferences[*]/name"},
	}}}, map[contract.Point]func(contract.Request) (contract.Response, error){
		contract.PodMutation: func(r contract.Request) (contract.Response, error) {
			requests = append(requests, string(r.Facts))
			return contract.Response{}, nil
		},
	})
	chains := chain.New(chain.Options{MemoEntries: -1})
	require.NoError(t, chains.Swap([]chain.Binding{{Name: "spy", Policy: spy, Point: contract.PodMutation}}))

	pod := largePod()
	typed, err := view.AdmitPod(t.Context(), chains, view.AdmissionInput{Pod: pod})
	require.NoError(t, err)
	require.Same(t, pod, typed.Pod)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	require.NoError(t, err)
	for _, local := range []any{pod, object} {
		_, err = chains.Evaluate(t.Context(), chain.Input{
			Point: contract.PodMutation, Moment: contract.MomentAdmission, Object: object, Facts: map[string]any{"local": local},
		})
		require.NoError(t, err)
	}
	require.Len(t, requests, 3)
	require.Equal(t, requests[1], requests[2])
	var admission, converted struct{ Object json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(requests[0]), &admission))
	require.NoError(t, json.Unmarshal([]byte(requests[1]), &converted))
	require.Equal(t, string(admission.Object), string(converted.Object))

	var roundTrip corev1.Pod
	require.NoError(t, json.Unmarshal(admission.Object, &roundTrip))
	require.Equal(t, text(t, pod.Spec), text(t, roundTrip.Spec), "nothing is lost")
}

func BenchmarkOffloadPodRemembered(b *testing.B) {
	c, _ := chains(b)
	in := largeOffload()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := view.OffloadPod(b.Context(), c, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOffloadPodWithoutPatch(b *testing.B) {
	c, _ := chains(b)
	in := largeOffload()
	in.Patch, in.Local.Annotations = nil, nil
	b.ReportAllocs()
	for b.Loop() {
		if _, err := view.OffloadPod(b.Context(), c, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOffloadPodForgetful(b *testing.B) {
	c := chain.New(chain.Options{MemoEntries: -1, ReservedKey: remote.ReservedKey})
	policy := defaults()
	var bindings []chain.Binding
	for _, point := range contract.CorePoints() {
		bindings = append(bindings, chain.Binding{Name: "d", Policy: policy, Point: point})
	}
	require.NoError(b, c.Swap(bindings))
	in := largeOffload()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := view.OffloadPod(b.Context(), c, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAdmitPodRemembered(b *testing.B) {
	c, _ := chains(b)
	in := admissionInput()
	in.Pod = largePod()
	b.ReportAllocs()
	for b.Loop() {
		result, err := view.AdmitPod(b.Context(), c, in)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := result.JSONPatch(nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAdmitRawPodRemembered(b *testing.B) {
	c, _ := chains(b)
	in := admissionInput()
	in.Raw, in.Pod = []byte(text(b, largePod())), nil
	b.ReportAllocs()
	for b.Loop() {
		result, err := view.AdmitPod(b.Context(), c, in)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := result.JSONPatch(nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkQuestionFromRawJSON measures a cached answer that changes nothing: splitting the
// pod and encoding the request.
func BenchmarkQuestionFromRawJSON(b *testing.B) {
	c, _ := chains(b)
	in := admissionInput()
	in.Offloading.PodOffloadingStrategy = offloadingv1beta1.LocalPodOffloadingStrategyType
	in.Raw, in.Pod = []byte(text(b, largePod())), nil
	b.ReportAllocs()
	for b.Loop() {
		if _, err := view.AdmitPod(b.Context(), c, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFilterMetadata(b *testing.B) {
	c, _ := chains(b)
	in := view.MetadataInput{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "cm", Labels: localPod().Labels,
		NotReflected: contract.NotReflected{Labels: []string{"internal"}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := view.FilterMetadata(b.Context(), c, in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNativeDecode measures the decoding of a pod, for comparison.
func BenchmarkNativeDecode(b *testing.B) {
	data, err := json.Marshal(largePod())
	require.NoError(b, err)
	b.ReportMetric(float64(len(data)), "bytes")
	b.ReportAllocs()
	for b.Loop() {
		var pod corev1.Pod
		if err := json.Unmarshal(data, &pod); err != nil {
			b.Fatal(err)
		}
	}
}
