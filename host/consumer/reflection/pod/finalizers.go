package pod

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/kit/events"
)

// ReasonRemoteFinalizers is the reason of an event on a local pod that waits for finalizers in the provider.
const ReasonRemoteFinalizers = "RemoteFinalizers"

// finalizerPatience is how long controllers of the provider have for what their finalizers are for.
const finalizerPatience = 10 * time.Second

// HeldByFinalizers names the remote objects of a pod, each of which may be nil, that have ended but for their
// finalizers; empty for none.
func HeldByFinalizers(shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) string {
	var held []string
	if shadow != nil && shadow.DeletionTimestamp != nil {
		held = appendHeld(held, "ShadowPod", &shadow.ObjectMeta)
	}
	if pod != nil && pod.DeletionTimestamp != nil && hasEnded(pod) {
		held = appendHeld(held, "pod", &pod.ObjectMeta)
	}
	return strings.Join(held, " and ")
}

func appendHeld(held []string, kind string, object *metav1.ObjectMeta) []string {
	finalizers := slices.DeleteFunc(slices.Clone(object.Finalizers), func(f string) bool {
		// The garbage collector has these, which waits for the pod.
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	})
	if len(finalizers) == 0 {
		return held
	}
	return append(held, fmt.Sprintf("%s %s/%s with the finalizers %s", kind, object.Namespace, object.Name, strings.Join(finalizers, ", ")))
}

// reportHeld says on the local pod for which finalizers in the provider it waits, once they have had their
// time: a pod that is to be deleted, or one whose name is taken by what is left of an earlier one.
func (o *observation) reportHeld() []engine.Action {
	held := HeldByFinalizers(o.shadow, o.anyRemotePod())
	if held == "" {
		return nil
	}
	cluster := "cluster " + o.in.Facts.ProviderClusterID
	held = events.Cut(held, maxMessage/2)
	since, message := o.local.CreationTimestamp.Time, "The pod begins when "+cluster+" has removed what is left of an earlier pod of its name: "+held+
		". Ask the administrator of the cluster to remove the finalizers."
	if at := o.local.DeletionTimestamp; at != nil {
		since, message = at.Time, "The pod stays until "+cluster+" has removed "+held+
			". Ask the administrator of the cluster to remove the finalizers. To let go of the pod now, run kubectl delete pod "+o.local.Name+
			" --namespace "+o.local.Namespace+" --grace-period=0 --force: these objects then stay in the cluster until their finalizers are removed."
	}
	if left := remaining(since, finalizerPatience, o.in.Facts.Now); left > 0 {
		return []engine.Action{engine.Requeue{After: left, Reason: waitRemotePodEnd}}
	}
	return []engine.Action{engine.RecordEvent{Type: engine.EventWarning, Reason: ReasonRemoteFinalizers, Message: message}}
}
