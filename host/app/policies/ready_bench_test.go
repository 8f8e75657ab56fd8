package policies_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/fuel/wasmtest"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	benchPatience = time.Minute
	benchPoll     = time.Millisecond
)

// bed is a component with policies, at a real API server.
type bed struct {
	b        *testing.B
	client   client.Client
	policies *policies.Policies
	wasm     []byte
}

// BenchmarkWriteToReady measures from the write of a module, or of settings, until the
// first pod is decided by it (ms/first-use) and until status says Ready with it
// (ms/ready). A standard Go module of two MiB, compiled anew each time. ns/op is the
// latter and what the benchmark itself needs.
func BenchmarkWriteToReady(b *testing.B) {
	bench := newBed(b)
	version := 0
	b.Run("module", func(b *testing.B) {
		bench.run(b, func() (string, int64) {
			version++
			raw, digest := bench.version(b, version)
			return digest, bench.store(b, raw)
		})
	})
	b.Run("settings", func(b *testing.B) {
		_, digest := bench.version(b, version)
		bench.run(b, func() (string, int64) {
			version++
			policy := bench.policy(b)
			policy.Spec.Settings = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"rewrites":[{"from":"v%d.example","to":"mirror.example"}]}`, version)}
			require.NoError(b, bench.client.Update(b.Context(), policy))
			return digest, policy.Generation
		})
	})
}

// run times writes, each of which returns the digest and the generation to wait for.
func (s *bed) run(b *testing.B, write func() (digest string, generation int64)) {
	b.Helper()
	var use, ready time.Duration
	for b.Loop() {
		began := time.Now()
		digest, generation := write()
		settings := s.policy(b).Spec.Settings.Raw
		planetest.Until(b, func(b planetest.T) bool { return s.decides(b, digest, settings) }, benchPatience, benchPoll)
		use += time.Since(began)
		planetest.Until(b, func(b planetest.T) bool {
			status := s.policy(b).Status
			return status.Digest == digest && status.ObservedGeneration == generation && meta.IsStatusConditionTrue(status.Conditions, policyv1alpha1.ReadyCondition)
		}, benchPatience, benchPoll)
		ready += time.Since(began)
	}
	b.ReportMetric(float64(use.Microseconds())/1000/float64(b.N), "ms/first-use")
	b.ReportMetric(float64(ready.Microseconds())/1000/float64(b.N), "ms/ready")
}

// decides tells whether a pod is decided by these bytes with these settings: its image
// names the version that the settings rewrite.
func (s *bed) decides(b planetest.T, digest string, settings []byte) bool {
	b.Helper()
	var rules struct {
		Rewrites []struct{ From, To string } `json:"rewrites"`
	}
	require.NoError(b, json.Unmarshal(settings, &rules))
	result, err := s.policies.Chains().Evaluate(b.Context(), chain.Input{
		Point: contract.PodMutation, Moment: contract.MomentOffload,
		Object: map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": "web", "image": rules.Rewrites[0].From + "/nginx:1"},
		}}},
	})
	if err != nil {
		return false
	}
	for _, decision := range result.Decisions {
		if decision.Binding == "bench" {
			return decision.Digest == digest && result.Changed
		}
	}
	return false
}

// version returns the module with a name of its own in it, packed, and its digest.
func (s *bed) version(b *testing.B, number int) (packed []byte, digest string) {
	b.Helper()
	name := fmt.Sprintf("version %d", number)
	wasm := append(bytes.Clone(s.wasm), encode.Section(0, append([]byte{byte(len(name))}, name...))...)
	var buffer bytes.Buffer
	w, err := gzip.NewWriterLevel(&buffer, gzip.BestSpeed)
	require.NoError(b, err)
	_, err = w.Write(wasm)
	require.NoError(b, err)
	require.NoError(b, w.Close())
	return buffer.Bytes(), module.Digest(wasm)
}

// store writes a module and returns the generation of its policy, which stays.
func (s *bed) store(b *testing.B, raw []byte) int64 {
	b.Helper()
	generation := s.policy(b).Generation
	require.NoError(b, s.client.Update(b.Context(), moduleConfigMap(raw)))
	return generation
}

func (s *bed) policy(b planetest.T) *policyv1alpha1.OffloadingPolicy {
	b.Helper()
	policy := &policyv1alpha1.OffloadingPolicy{}
	require.NoError(b, s.client.Get(b.Context(), client.ObjectKey{Name: "bench"}, policy))
	return policy
}

func moduleConfigMap(raw []byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "bench"},
		BinaryData: map[string][]byte{"module.wasm.gz": raw},
	}
}

func newBed(b *testing.B) *bed {
	b.Helper()
	bench := &bed{b: b, wasm: wasmtest.BuildGo(b, "../../../plugins/registryrewrite")}
	packed, _ := bench.version(b, 0)
	bench.client, bench.policies = start(b, moduleConfigMap(packed), &policyv1alpha1.OffloadingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		Spec: policyv1alpha1.OffloadingPolicySpec{
			Module:   policyv1alpha1.ModuleSource{ConfigMap: &policyv1alpha1.ConfigMapSource{Namespace: "longshore", Name: "bench"}},
			Settings: &runtime.RawExtension{Raw: []byte(`{"rewrites":[{"from":"v0.example","to":"mirror.example"}]}`)},
		},
	})
	return bench
}
