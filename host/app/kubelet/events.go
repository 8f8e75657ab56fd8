package kubelet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientevents "k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/node"
)

// recorder records the events of the reflection through the manager.
type recorder struct{ events clientevents.EventRecorder }

// Event implements engine.Recorder.
func (r recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.events.Eventf(object, nil, eventType, reason, reason, "%s", message)
}

// tellTimeout bounds the requests for one event.
const tellTimeout = 5 * time.Second

// tell is what a Node tells, maybe at the end of a look at the provider that took all of
// its time.
func (a *App) tell(ctx context.Context, vn *offloadingv1beta1.VirtualNode, reason node.Reason, message string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
	defer cancel()
	a.warn(ctx, vn, string(reason), message)
}

// warn tells the owner of the VirtualNode why its virtual kubelet does not work. The
// process may be about to end, so the event is written at once, and one that says the
// same is counted up: a process that starts again and again is one event.
func (a *App) warn(ctx context.Context, vn *offloadingv1beta1.VirtualNode, reason, message string) {
	sum := sha256.Sum256([]byte(message))
	now := metav1.NewTime(time.Now())
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: vn.Name + "." + hex.EncodeToString(sum[:8])},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "VirtualNode", Namespace: vn.Namespace, Name: vn.Name, UID: vn.UID,
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		Source: corev1.EventSource{Component: "virtual-kubelet"}, ReportingController: "virtual-kubelet", ReportingInstance: a.options.NodeName,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	err := a.direct.Create(ctx, event)
	if apierrors.IsAlreadyExists(err) {
		had := &corev1.Event{}
		if err = a.direct.Get(ctx, client.ObjectKeyFromObject(event), had); err == nil {
			had.Count, had.LastTimestamp = had.Count+1, now
			err = a.direct.Update(ctx, had)
		}
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Recording an event on the VirtualNode failed", "reason", message)
	}
}
