package reflection_test

import (
	"context"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// version is one of a policy that drops a label, and sets the hostname of pods that have
// the label "team".
type version struct{ digest, drops string }

// versions runs the latest version, or none at first.
type versions struct{ latest atomic.Pointer[version] }

func (v *versions) Evaluate(_ context.Context, in chain.Input) (*chain.Result, error) {
	now := v.latest.Load()
	if now == nil {
		return &chain.Result{Object: in.Object}, nil
	}
	metadata, _ := in.Object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]string)
	var answer []contract.Operation
	switch {
	case in.Point == contract.MetadataFilter:
		answer = append(answer, contract.Remove("/metadata/labels", now.drops))
	case in.Point == contract.PodMutation && labels["app"] == "recorded":
		answer = append(answer, contract.Set("/spec/hostname", contract.String(now.digest)))
	}
	operations, err := operation.Compile(answer)
	if err != nil {
		return nil, err
	}
	object, effects, err := operation.Apply(in.Object, operations)
	if err != nil || len(effects) == 0 {
		return &chain.Result{Object: in.Object}, err
	}
	return &chain.Result{Object: object, Changed: true, Decisions: []chain.Decision{
		{Point: in.Point, Binding: "p", Module: "m", Digest: "sha256:" + now.digest, Effects: effects},
	}}, nil
}

// filter is what the virtual kubelet gives the engine.
func (v *versions) filter(ctx context.Context, apiVersion, kind string, here, there client.Object) (labels, annotations map[string]string, err error) {
	have := ""
	if there != nil {
		have = there.GetAnnotations()[remote.DecisionsAnnotation]
	}
	return view.ReflectMetadata(ctx, v, view.MetadataInput{
		APIVersion: apiVersion, Kind: kind, Namespace: here.GetNamespace(), Name: here.GetName(),
		Labels: here.GetLabels(), Annotations: here.GetAnnotations(),
	}, have)
}

func (r *rig) provenance(t *testing.T) {
	t.Helper()
	r.policies.latest.Store(&version{"v1", "team"})
	defer r.policies.latest.Store(nil)
	labels := map[string]string{"app": "recorded", "team": "blue", "cost": "1"}
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "recorded", Labels: maps.Clone(labels), Annotations: map[string]string{remote.DecisionsAnnotation: "a third cluster's"}},
		Data:       map[string]string{"k": "1"},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "recorded", Labels: maps.Clone(labels)},
		Spec:       corev1.PodSpec{NodeName: nodeName, TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
	before := r.out.snapshot()
	require.NoError(t, r.rome.Create(t.Context(), settings))
	require.NoError(t, r.rome.Create(t.Context(), pod))

	const byFirst = `[{"point":"MetadataFilter","policy":"p","module":"m","digest":"v1","ops":["remove /metadata/labels[team]"]}]`
	r.tells(t, &corev1.ConfigMap{}, "cost", "team", byFirst)
	const ofFirst = `[{"point":"MetadataFilter","policy":"p","module":"m","digest":"v1","ops":["remove /metadata/labels[team]"]},` +
		`{"point":"PodMutation","policy":"p","module":"m","digest":"v1","ops":["set /spec/hostname"]}]`
	r.tells(t, &offloadingv1beta1.ShadowPod{}, "cost", "team", ofFirst)

	// A version that does the same costs no request. What comes after it does, so that
	// whatever the new version caused is counted then.
	r.policies.latest.Store(&version{"v2", "team"})
	r.engine.PoliciesChanged()
	require.NoError(t, r.rome.Patch(t.Context(), settings, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"k":"2"}}`))))
	require.NoError(t, r.rome.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"note":"x"}}}`))))
	key := client.ObjectKey{Namespace: remoteNamespace, Name: "recorded"}
	require.Eventually(t, func() bool {
		cm, shadow := &corev1.ConfigMap{}, &offloadingv1beta1.ShadowPod{}
		if err := r.milan.Get(t.Context(), key, cm); err != nil {
			return false
		}
		if err := r.milan.Get(t.Context(), key, shadow); err != nil {
			return false
		}
		return cm.Data["k"] == "2" && shadow.Labels["note"] == "x"
	}, soon, tick)
	now := r.out.snapshot()
	assert.Equal(t, 2, now["PATCH configmaps"]-before["PATCH configmaps"], "one that makes it, one for its data")
	assert.Equal(t, 1, now["PATCH shadowpods"]-before["PATCH shadowpods"], "one for the label")
	r.tells(t, &corev1.ConfigMap{}, "cost", "team", byFirst)
	r.tells(t, &offloadingv1beta1.ShadowPod{}, "cost", "team", ofFirst)

	// A version that drops another label is recorded; the spec stays that of the first.
	r.policies.latest.Store(&version{"v3", "cost"})
	r.engine.PoliciesChanged()
	r.tells(t, &corev1.ConfigMap{}, "team", "cost",
		`[{"point":"MetadataFilter","policy":"p","module":"m","digest":"v3","ops":["remove /metadata/labels[cost]"]}]`)
	r.tells(t, &offloadingv1beta1.ShadowPod{}, "team", "cost",
		`[{"part":"spec","point":"PodMutation","policy":"p","module":"m","digest":"v1","ops":["set /spec/hostname"]},`+
			`{"part":"metadata","point":"MetadataFilter","policy":"p","module":"m","digest":"v3","ops":["remove /metadata/labels[cost]"]}]`)

	// Without policies, a copy has no record, and a pod only that of its spec.
	r.policies.latest.Store(nil)
	r.engine.PoliciesChanged()
	r.tells(t, &corev1.ConfigMap{}, "cost", "absent", "")
	r.tells(t, &offloadingv1beta1.ShadowPod{}, "cost", "absent",
		`[{"part":"spec","point":"PodMutation","policy":"p","module":"m","digest":"v1","ops":["set /spec/hostname"]}]`)
	now = r.out.snapshot()
	assert.Equal(t, 4, now["PATCH configmaps"]-before["PATCH configmaps"])
	assert.Equal(t, 3, now["PATCH shadowpods"]-before["PATCH shadowpods"])

	require.NoError(t, r.rome.Delete(t.Context(), pod))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	}, soon, tick)
}

// tells waits until the remote object has one label and lacks another, and holds it to
// what it tells by then.
func (r *rig) tells(t *testing.T, object client.Object, has, lacks, want string) {
	t.Helper()
	key := client.ObjectKey{Namespace: remoteNamespace, Name: "recorded"}
	require.Eventually(t, func() bool {
		if r.milan.Get(t.Context(), key, object) != nil {
			return false
		}
		_, there := object.GetLabels()[has]
		_, gone := object.GetLabels()[lacks]
		return there && !gone
	}, soon, tick)
	assert.Equal(t, want, object.GetAnnotations()[remote.DecisionsAnnotation])
}
