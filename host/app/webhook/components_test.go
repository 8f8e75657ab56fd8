package webhook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
)

const (
	starting = corev1.ConditionFalse
	serving  = corev1.ConditionTrue
)

// replica is a pod of the webhook.
func replica(name string, ready corev1.ConditionStatus, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: name, Labels: map[string]string{
			"app.kubernetes.io/name": "longshore-webhook", "app.kubernetes.io/instance": "longshore", "pod-template-hash": name[:1],
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func TestComponents(t *testing.T) {
	going := func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/f"}
	}
	for name, tc := range map[string]struct {
		pod         string
		pods        []client.Object
		want        []string
		wantSpeaker string
	}{
		"no pod of a cluster":                      {want: []string{"webhook"}, wantSpeaker: "webhook"},
		"the only replica":                         {pod: "b", pods: []client.Object{replica("b", starting, nil)}, want: []string{"webhook/b"}, wantSpeaker: "webhook/b"},
		"the speaker is the first":                 {pod: "b", pods: []client.Object{replica("a", serving, nil), replica("b", serving, nil)}, want: []string{"webhook/a", "webhook/b"}, wantSpeaker: "webhook/a"},
		"the first of those ready":                 {pod: "b", pods: []client.Object{replica("a", starting, nil), replica("b", serving, nil), replica("c", serving, nil)}, want: []string{"webhook/a", "webhook/b", "webhook/c"}, wantSpeaker: "webhook/b"},
		"a terminating replica is not the speaker": {pod: "b", pods: []client.Object{replica("a", serving, going), replica("b", serving, nil)}, want: []string{"webhook/a", "webhook/b"}, wantSpeaker: "webhook/b"},
		"a terminating replica that is not ready":  {pod: "b", pods: []client.Object{replica("a", starting, going), replica("b", serving, nil)}, want: []string{"webhook/b"}, wantSpeaker: "webhook/b"},
		"a replica that has ended":                 {pod: "b", pods: []client.Object{replica("a", starting, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), replica("b", serving, nil)}, want: []string{"webhook/b"}, wantSpeaker: "webhook/b"},
		"other pods beside them": {pod: "b", pods: []client.Object{
			replica("a", serving, func(p *corev1.Pod) { p.Labels["app.kubernetes.io/name"] = "longshore-manager" }),
			replica("a2", serving, func(p *corev1.Pod) { p.Labels["app.kubernetes.io/instance"] = "other" }),
			replica("a3", serving, func(p *corev1.Pod) { p.Namespace = "other" }),
			replica("b", serving, nil),
		}, want: []string{"webhook/b"}, wantSpeaker: "webhook/b"},
		"a pod without the labels":        {pod: "b", pods: []client.Object{replica("a", serving, nil), replica("b", serving, func(p *corev1.Pod) { p.Labels = nil })}, want: []string{"webhook/b"}, wantSpeaker: "webhook/b"},
		"a cache without this pod so far": {pod: "b", pods: []client.Object{replica("a", serving, nil)}, wantSpeaker: "webhook/b"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := scheme.New()
			require.NoError(t, err)
			node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
			reader := fake.NewClientBuilder().WithScheme(s).WithObjects(append(tc.pods, node)...).Build()
			got, err := components{reader: reader, pod: client.ObjectKey{Namespace: "longshore", Name: tc.pod}}.list(t.Context())
			require.NoError(t, err)
			assert.Equal(t, tc.wantSpeaker, got.Speaker)
			if tc.want == nil {
				assert.Nil(t, got.Names, "no component is removed")
				return
			}
			want := map[string]bool{"virtual-kubelet/milan": true}
			for _, name := range tc.want {
				want[name] = true
			}
			assert.Equal(t, want, got.Names)
		})
	}
}
