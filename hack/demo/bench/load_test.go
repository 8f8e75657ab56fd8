package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestDeploymentsShareThePods(t *testing.T) {
	for pods, want := range map[int][]int32{1: {1}, 50: {50}, 120: {50, 50, 20}} {
		var got []int32
		names := map[string]bool{}
		for _, d := range deployments(pods) {
			got = append(got, *d.Spec.Replicas)
			names[d.Name] = true
			assert.Equal(t, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels)
		}
		assert.Equal(t, want, got)
		assert.Len(t, names, len(want))
	}
	assert.Len(t, deployments(1000), 20)
}

func TestTheFloorRunsTheSameDeploymentsOnItsOwnNode(t *testing.T) {
	load, floor := deployments(60), floorDeployments(60)
	require.Len(t, floor, len(load))
	for i, d := range floor {
		assert.Equal(t, floorNamespace, d.Namespace)
		assert.Equal(t, load[i].Spec.Replicas, d.Spec.Replicas)
		assert.Equal(t, load[i].Spec.Template.Spec.Containers, d.Spec.Template.Spec.Containers)
		assert.Equal(t, map[string]string{corev1.LabelHostname: floorNode}, d.Spec.Template.Spec.NodeSelector)
		assert.Len(t, d.Spec.Template.Spec.Tolerations, 1)
	}
}

func TestPlainShadowPodsEqualTheTemplate(t *testing.T) {
	template := &offloadingv1beta1.ShadowPod{}
	template.Name, template.Namespace, template.UID, template.ResourceVersion = "load-1", "bench-rome", "u", "7"
	template.Labels = map[string]string{offloadingv1beta1.OriginLabel: "rome", "app": "load"}
	template.Annotations = map[string]string{"a": "b"}
	template.Spec.Pod = corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}
	got := plainShadowPod(template, 3)
	assert.Equal(t, "plain-0003", got.Name)
	assert.Equal(t, plain, got.Namespace)
	assert.Empty(t, got.UID)
	assert.Empty(t, got.ResourceVersion)
	assert.Equal(t, map[string]string{offloadingv1beta1.OriginLabel: plainOrigin, "app": "load"}, got.Labels)
	assert.Equal(t, template.Annotations, got.Annotations)
	assert.Equal(t, template.Spec, got.Spec)
	assert.Equal(t, "rome", template.Labels[offloadingv1beta1.OriginLabel], "the template stays")
}

func TestSightingsKeepTheFirstMoment(t *testing.T) {
	s := newSightings()
	first := s.all()
	require.Empty(t, first)
	seen := make(chan error, 1)
	go func() {
		_, err := s.wait(t.Context(), 2)
		seen <- err
	}()
	begin := timeAt(1)
	s.see("a", begin)
	s.see("a", timeAt(2))
	s.see("b", timeAt(3))
	require.NoError(t, <-seen)
	last, err := s.wait(t.Context(), 2)
	require.NoError(t, err)
	assert.Equal(t, timeAt(3), last)
	assert.Equal(t, begin, s.all()["a"])
}

func TestQuestionsAskEachCorePoint(t *testing.T) {
	var asked []contract.Point
	for _, vector := range questionVectors {
		input, err := questionOf(vector)
		require.NoError(t, err)
		asked = append(asked, input.Point)
		assert.NotEmpty(t, input.Object, vector)
		assert.NotContains(t, input.Facts, "object", vector)
		chains := chain.New(chain.Options{})
		require.NoError(t, chains.Swap([]chain.Binding{{Name: "native", Policy: nativePolicy(), Point: input.Point}}))
		result, err := chains.Evaluate(t.Context(), input)
		require.NoError(t, err)
		assert.True(t, result.Changed, vector)
	}
	assert.ElementsMatch(t, contract.CorePoints(), asked)
}

func TestCallsThatFailEndTheMeasure(t *testing.T) {
	failed := errors.New("failed")
	_, err := p50(t.Context(), 1, func() error { return failed })
	assert.ErrorIs(t, err, failed)
	made := 0
	_, err = p50(t.Context(), 1, func() error { made++; return nil })
	require.NoError(t, err)
	assert.Equal(t, callsBefore+1, made)
}
