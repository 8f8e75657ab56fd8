package podplacement

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// BenchmarkAdmission measures one AdmissionReview of a pod of 7 KB over the webhook's HTTP interface: with four
// wasm policies that are asked, with four whose answers are remembered, and a typical webhook of
// controller-runtime that decodes the pod, makes the same changes, encodes it and compares.
func BenchmarkAdmission(b *testing.B) {
	s, err := scheme.New()
	require.NoError(b, err)
	e, err := engine.New(b.Context(), engine.Options{CacheDir: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, e.Close(context.WithoutCancel(b.Context()))) })
	packed, err := builtinpolicies.Module()
	require.NoError(b, err)
	policy, err := module.Load(b.Context(), e, packed, module.Options{Name: "builtin"})
	require.NoError(b, err)
	review := largeReview(b)
	admit := func(name string, hook http.Handler) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				request := httptest.NewRequestWithContext(b.Context(), http.MethodPost, Path, bytes.NewReader(review))
				request.Header.Set("Content-Type", "application/json")
				answer := httptest.NewRecorder()
				hook.ServeHTTP(answer, request)
				if !bytes.Contains(answer.Body.Bytes(), []byte(`"patch":`)) {
					b.Fatal(answer.Code, answer.Body)
				}
			}
		})
	}
	admit("typical", &admission.Webhook{Handler: &typicalWebhook{admission.NewDecoder(s)}})
	for _, way := range []struct {
		name string
		memo int
	}{{"asked", -1}, {"remembered", 0}} {
		chains := chain.New(chain.Options{MemoEntries: way.memo})
		var bindings []chain.Binding
		for i := range 4 {
			bindings = append(bindings, chain.Binding{Name: "placement-" + strconv.Itoa(i), Policy: policy, Point: contract.PodMutation, Order: &i})
		}
		require.NoError(b, chains.Swap(bindings))
		admit(way.name, &admission.Webhook{Handler: &Handler{Reader: warmCache{}, Policies: chains, RuntimeClassName: "liqo"}})
	}
}

// warmCache answers with a new object, as a cache does with a copy.
type warmCache struct{ client.Reader }

// Get implements client.Reader.
func (warmCache) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if offloading, ok := object.(*offloadingv1beta1.NamespaceOffloading); ok {
		offloading.Spec.PodOffloadingStrategy = offloadingv1beta1.RemotePodOffloadingStrategyType
	}
	return nil
}

// typicalWebhook is what a mutating webhook looks like in controller-runtime's own examples.
type typicalWebhook struct{ decoder admission.Decoder }

// Handle implements admission.Handler.
func (w *typicalWebhook) Handle(_ context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := w.decoder.Decode(request, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
		Key: offloadingv1beta1.VirtualNodeTaintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
	})
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: offloadingv1beta1.NodeTypeLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{offloadingv1beta1.NodeTypeVirtual},
		}}}},
	}}}
	encoded, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, encoded)
}

// largeReview is a request of the API server about a pod of about 7 KB, as a Deployment of a service makes it.
func largeReview(b *testing.B) []byte {
	b.Helper()
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "app-5d8-", Namespace: "shop", Labels: map[string]string{"app": "app"}},
	}
	for i := range 3 {
		container := corev1.Container{Name: fmt.Sprintf("app-%d", i), Image: "registry.example/team/app:1.2.3"}
		for j := range 20 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d_%d", i, j), ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings-of-app"}, Key: fmt.Sprintf("section.key-%d", j)},
			}})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	raw, encoding := json.Marshal(pod)
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u-1", Namespace: "shop", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		},
	})
	require.NoError(b, errors.Join(encoding, err))
	return review
}
