package pod

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func finalized(names ...string) podOption { return func(p *corev1.Pod) { p.Finalizers = names } }

func shadowFinalized(names ...string) shadowOption {
	return func(s *offloadingv1beta1.ShadowPod) { s.Finalizers = names }
}

// A pod that waits for finalizers in the provider says so, and what its user can do.
func TestAPodSaysForWhichFinalizersItWaits(t *testing.T) {
	const stays = "The pod stays until cluster milan has removed "
	const begins = "The pod begins when cluster milan has removed what is left of an earlier pod of its name: "
	earlier := shadowAnnotation(remote.LocalPodUIDAnnotation, "local-0")
	for name, tc := range map[string]struct {
		local  *corev1.Pod
		shadow *offloadingv1beta1.ShadowPod
		pod    *corev1.Pod
		want   string
	}{
		"on the ShadowPod":                   {terminating(1), shadowPod(shadowDeleting, shadowFinalized("a.example/x", "b")), nil, stays + "ShadowPod shop-rome/web with the finalizers a.example/x, b."},
		"on the remote pod":                  {terminating(1), nil, remoteWithMinute(deletedWith(0), finalized("c")), stays + "pod shop-rome/web with the finalizers c."},
		"on both":                            {terminating(1), shadowPod(shadowDeleting, shadowFinalized("a")), remoteWithMinute(deleting, phase(corev1.PodFailed), finalized("c")), stays + "ShadowPod shop-rome/web with the finalizers a and pod shop-rome/web with the finalizers c."},
		"a remote pod that still runs":       {terminating(1), nil, remoteWithMinute(deletedWith(60), finalized("c")), ""},
		"none":                               {terminating(1), shadowPod(shadowDeleting), nil, ""},
		"that of the garbage collector only": {terminating(1), shadowPod(shadowDeleting, shadowFinalized(metav1.FinalizerDeleteDependents)), nil, ""},
		"on an object that is not deleted":   {localPod(), shadowPod(shadowFinalized("a")), remotePod(running, finalized("c")), ""},
		"on an earlier ShadowPod":            {localPod(), shadowPod(shadowDeleting, shadowFinalized("a"), earlier), nil, begins + "ShadowPod shop-rome/web with the finalizers a."},
		"on an earlier remote pod":           {localPod(), nil, remotePod(deletedWith(0), finalized("c"), annotation(remote.LocalPodUIDAnnotation, "local-0")), begins + "pod shop-rome/web with the finalizers c."},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(tc.local, tc.shadow, tc.pod)
			tc.local.CreationTimestamp = metav1.NewTime(now.Add(-time.Second))
			decided := func() (messages []string) {
				actions, err := decide(t.Context(), definition(&policies{}), in)
				require.NoError(t, err)
				for _, action := range actions {
					if event, ok := action.(engine.RecordEvent); ok {
						messages = append(messages, event.Message)
					}
				}
				return messages
			}
			assert.Empty(t, decided(), "controllers of the provider have a moment for what their finalizers are for")
			in.Facts.Now = now.Add(time.Minute)
			messages := decided()
			if tc.want == "" {
				assert.Empty(t, messages)
				return
			}
			require.Len(t, messages, 1)
			assert.Contains(t, messages[0], tc.want+" Ask the administrator of the cluster to remove the finalizers.")
			assert.Equal(t, tc.local.DeletionTimestamp != nil, strings.Contains(messages[0], "kubectl delete pod web --namespace shop --grace-period=0 --force"))
			assert.LessOrEqual(t, len(messages[0]), maxMessage)
		})
	}
}

// A deletion by force lets go of the local pod, whatever is left in the provider; its finalizers are not waited
// for, and a pod that is not being deleted there is.
func TestADeletionByForceWaitsForNoFinalizers(t *testing.T) {
	held := shadowPod(shadowFinalized("a"))
	in := input(nil, held, remotePod(running, finalized("c")))
	in.Memory = known
	actions, err := decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	assert.Equal(t, "delete ShadowPod, delete pod within 1s, keep LocalPodGone", summary(actions))
	shadowDeleting(held)
	in = input(nil, held, remotePod(deletedWith(0), finalized("c")))
	actions, err = decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	assert.Equal(t, "keep LocalPodGone", summary(actions), "the rest is the provider's")
}
