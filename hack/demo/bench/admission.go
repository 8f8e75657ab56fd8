package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/consumer/admission/podplacement"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	admissionGoal    = 0.4
	admissionBinding = 4
	admissionNote    = "one AdmissionReview of a 7 KB pod over the webhook's HTTP interface; "
)

// admissions measures whole admission requests: ours with four policies, nothing
// remembered, beside a typical controller-runtime webhook that makes the same changes.
func (b *bench) admissions(ctx context.Context, h *policyHosts) error {
	s, err := scheme.New()
	if err != nil {
		return fmt.Errorf("making a scheme: %w", err)
	}
	facts := admissionFacts()
	review, err := admissionReview()
	if err != nil {
		return err
	}
	times := map[string]float64{}
	for _, way := range []struct {
		name     string
		bindings int
		memo     int
		typical  bool
	}{{"typical", 0, -1, true}, {"four", admissionBinding, -1, false}, {"one", 1, -1, false}, {"remembered", admissionBinding, 0, false}} {
		hook := http.Handler(&admission.Webhook{Handler: &typicalWebhook{decoder: admission.NewDecoder(s), facts: facts}})
		if !way.typical {
			chains, err := placementChains(h, way.bindings, way.memo)
			if err != nil {
				return err
			}
			hook = podplacement.Serve(&podplacement.Handler{Reader: facts, Policies: chains, RuntimeClassName: "liqo"})
		}
		if times[way.name], err = measure(func() error { return admit(ctx, hook, review) }); err != nil {
			return fmt.Errorf("admitting a pod, %s: %w", way.name, err)
		}
	}
	baseline := "baseline: a typical controller-runtime webhook that decodes the pod, makes the same changes, encodes it and compares"
	b.record.add(
		compare("policy/admission-four", microseconds, times["four"], times["typical"], ratioGoal(admissionGoal), admissionNote+"four wasm policies, nothing remembered; "+baseline),
		compare("policy/admission-one", microseconds, times["one"], times["typical"], goal{}, admissionNote+"one wasm policy, nothing remembered; "+baseline),
		compare("policy/admission-four-remembered", microseconds, times["remembered"], times["typical"], goal{}, admissionNote+"four wasm policies, answers remembered; "+baseline),
	)
	return nil
}

// placementChains bind the built-in placement policy, n times in order.
func placementChains(h *policyHosts, n, memo int) (*chain.Chains, error) {
	chains := chain.New(chain.Options{MemoEntries: memo})
	bindings := make([]chain.Binding, n)
	for i := range bindings {
		order := i
		bindings[i] = chain.Binding{Name: "placement-" + strconv.Itoa(i), Policy: h.module, Point: contract.PodMutation, Order: &order}
	}
	if err := chains.Swap(bindings); err != nil {
		return nil, fmt.Errorf("binding the placement policy: %w", err)
	}
	return chains, nil
}

// cachedFacts answers as a warm cache does: with a copy.
type cachedFacts struct {
	client.Reader
	namespace  *corev1.Namespace
	offloading *offloadingv1beta1.NamespaceOffloading
}

func admissionFacts() *cachedFacts {
	return &cachedFacts{
		namespace: namespaceObject(offloaded),
		offloading: &offloadingv1beta1.NamespaceOffloading{
			Spec: offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: offloadingv1beta1.RemotePodOffloadingStrategyType},
		},
	}
}

// Get implements client.Reader.
func (f *cachedFacts) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch target := object.(type) {
	case *corev1.Namespace:
		f.namespace.DeepCopyInto(target)
	case *offloadingv1beta1.NamespaceOffloading:
		f.offloading.DeepCopyInto(target)
	default:
		return fmt.Errorf("no fact of type %T", object)
	}
	return nil
}

// typicalWebhook is what a mutating webhook looks like in controller-runtime's own
// examples: decode, change, encode, compare. It makes the changes of the placement policy.
type typicalWebhook struct {
	decoder admission.Decoder
	facts   *cachedFacts
}

// Handle implements admission.Handler.
func (w *typicalWebhook) Handle(ctx context.Context, request admission.Request) admission.Response {
	offloading, pod := &offloadingv1beta1.NamespaceOffloading{}, &corev1.Pod{}
	err := w.facts.Get(ctx, client.ObjectKey{Namespace: request.Namespace}, offloading)
	if err = errors.Join(err, w.decoder.Decode(request, pod)); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	place(pod)
	encoded, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, encoded)
}

// place is the placement policy for strategy Remote, natively.
func place(pod *corev1.Pod) {
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
		Key: offloadingv1beta1.VirtualNodeTaintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
	})
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: offloadingv1beta1.NodeTypeLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{offloadingv1beta1.NodeTypeVirtual},
		}}}},
	}}
}

// admissionReview is a request of the API server about a pod of 7 KB.
func admissionReview() ([]byte, error) {
	pod, err := json.Marshal(sizeablePod())
	if err != nil {
		return nil, fmt.Errorf("encoding the pod: %w", err)
	}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u-1", Namespace: offloaded, Operation: admissionv1.Create,
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:replicaset-controller"},
			Object:   runtime.RawExtension{Raw: pod},
		},
	}
	data, err := json.Marshal(review)
	if err != nil {
		return nil, fmt.Errorf("encoding the review: %w", err)
	}
	return data, nil
}

// sizeablePod is a pod of about 7 KB, as a Deployment of a service makes it.
func sizeablePod() *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "app-5d8-", Namespace: offloaded, Labels: map[string]string{"app": "app"}},
	}
	for i := range 3 {
		container := podSpec().Containers[0]
		container.Name = "app-" + strconv.Itoa(i)
		for j := range 20 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d_%d", i, j), ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings-of-app"}, Key: fmt.Sprintf("section.key-%d", j)},
			}})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	return pod
}

// admit sends a review as the API server does, but for the connection.
func admit(ctx context.Context, hook http.Handler, review []byte) error {
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, podplacement.Path, bytes.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	hook.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK || !bytes.Contains(answer.Body.Bytes(), []byte(`"patch":`)) {
		return fmt.Errorf("status %d without a patch: %s", answer.Code, answer.Body)
	}
	return nil
}
