package shadowendpointslice

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/contest"
)

// pause returns how long the next write of an EndpointSlice waits, because another writer of this
// cluster changes or deletes it again and again. When it need not wait any more, an event says
// so.
func (r *Reconciler) pause(shadow *offloadingv1beta1.ShadowEndpointSlice, desired *discoveryv1.EndpointSlice) time.Duration {
	pause, isDue := r.lastWrite(shadow).Pause(identity(shadow, desired), r.Clock.Now())
	if isDue && pause == 0 {
		r.Events.Eventf(shadow, desired, corev1.EventTypeWarning, ReasonContested, actionCreate,
			"A controller or user in the provider keeps changing EndpointSlice %q. The administrator of the provider stops it.", desired.Name)
	}
	return pause
}

// wrote records a write of an EndpointSlice.
func (r *Reconciler) wrote(shadow *offloadingv1beta1.ShadowEndpointSlice, desired *discoveryv1.EndpointSlice) {
	r.writes.Store(client.ObjectKeyFromObject(shadow), r.lastWrite(shadow).Wrote(identity(shadow, desired), r.Clock.Now()))
}

func (r *Reconciler) lastWrite(shadow *offloadingv1beta1.ShadowEndpointSlice) contest.LastWrite {
	value, _ := r.writes.Load(client.ObjectKeyFromObject(shadow))
	last, _ := value.(contest.LastWrite)
	return last
}

// identity returns a short text that differs for different contents of the EndpointSlice.
func identity(shadow *offloadingv1beta1.ShadowEndpointSlice, desired *discoveryv1.EndpointSlice) string {
	body, err := json.Marshal(desired)
	if err != nil {
		return "" // An EndpointSlice is always encoded.
	}
	sum := sha256.Sum256(body)
	return string(shadow.UID) + string(sum[:])
}
