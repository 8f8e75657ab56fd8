package quota

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	// roomLifetime is how long ShadowPods are admitted from a room after it was written.
	roomLifetime = 10 * time.Second
	// roomPods is for how many further ShadowPods a room is reserved.
	roomPods = 32
	// minRoomPods is the least that a room is enlarged by. Where less is free, each decision is
	// written before it is answered.
	minRoomPods = 4
	// roomShare divides what is free in the Quota: a room has at most this part of it.
	roomShare = 8
)

// room is capacity of a Quota that this replica reserves before ShadowPods need it, so that it
// admits them without a write. One reservation in the Quota's status covers what is left of the
// room, and the ShadowPods that were admitted from it since the last write. The next write gives
// these reservations of their own. It is not safe for concurrent use.
type room struct {
	// holder is the name and the UID of the reservation.
	holder types.UID
	// quota and generation are those of the Quota that the room was reserved in.
	quota      types.UID
	generation int64
	left       corev1.ResourceList
	// size is the number of ShadowPods that the room was for when it was written.
	size int64
	// until is when the room ends; zero if it is closed.
	until time.Time
	// admitted are the ShadowPods that only the reservation of the room covers.
	admitted []offloadingv1beta1.QuotaReservation
}

// take admits a new ShadowPod from the room, and reports whether it could. If the Quota has
// changed, and for a change of a ShadowPod, a decision is needed.
func (r *room) take(quota *offloadingv1beta1.Quota, shadow *offloadingv1beta1.ShadowPod, dryRun bool, now time.Time) bool {
	if quota == nil || !r.isOpen(quota, now) || shadow.ResourceVersion != "" || checkLimits(&shadow.Spec.Pod, quota.Spec.LimitsEnforcement) != nil {
		return false
	}
	requests, err := Requests(&shadow.Spec.Pod)
	if err != nil || !covers(r.left, requests) {
		return false
	}
	if !dryRun {
		subtract(r.left, requests)
		r.admitted = append(r.admitted, reservationOf(shadow, requests, now))
	}
	return true
}

// isOpen reports whether ShadowPods can be admitted from the room under a Quota.
func (r *room) isOpen(quota *offloadingv1beta1.Quota, now time.Time) bool {
	return r.quota == quota.UID && r.generation == quota.Generation && now.Before(r.until)
}

// isLow reports whether more than half of the room is used.
func (r *room) isLow() bool { return 2*r.left.Pods().Value() < r.size }

// hold returns the room as the next status is to cover it. ShadowPods may be admitted from the
// room until that status is written. They may not if ShadowPods wait for the decision, which then
// has all that is free, or if none was admitted from the room for some time.
func (r *room) hold(quota *offloadingv1beta1.Quota, waiting bool, now time.Time) *room {
	isOpen := r.isOpen(quota, now)
	isUsed := waiting || isOpen && len(r.admitted) > 0
	isIdle := !isUsed && now.Sub(r.until) >= refreshDelay-roomLifetime
	if waiting || isIdle || !isOpen {
		r.left, r.until = nil, time.Time{}
	}
	held := *r
	held.left, held.admitted = r.left.DeepCopy(), slices.Clone(r.admitted)
	held.quota, held.generation = quota.UID, quota.Generation
	if isUsed {
		held.until = now.Add(roomLifetime).Truncate(time.Second) // as the status has it
	}
	return &held
}

// example returns the requests of the ShadowPod that was admitted last, if the room is in use.
func (r *room) example() corev1.ResourceList {
	if len(r.admitted) == 0 || r.until.IsZero() {
		return nil
	}
	return r.admitted[len(r.admitted)-1].Resources
}

// extend records that a status was written that covers a room that was held, and more.
func (r *room) extend(held *room, more corev1.ResourceList) {
	// Those that were admitted while the status was written are covered by the room.
	r.admitted = slices.Clone(r.admitted[len(held.admitted):])
	r.quota, r.generation, r.until = held.quota, held.generation, held.until
	if r.left == nil {
		r.left = corev1.ResourceList{}
	}
	add(r.left, more)
	r.size = r.left.Pods().Value()
}

// replaceIn returns the Quota without the reservation of the room, and with those of the
// ShadowPods that were admitted from it. It is pure.
func (r *room) replaceIn(quota *offloadingv1beta1.Quota) *offloadingv1beta1.Quota {
	replaced := map[types.UID]bool{r.holder: true}
	for i := range r.admitted {
		// A write whose answer was lost has reserved them, too.
		replaced[r.admitted[i].UID] = true
	}
	next := quota.DeepCopy()
	next.Status.Reservations = slices.DeleteFunc(next.Status.Reservations, func(e offloadingv1beta1.QuotaReservation) bool {
		return replaced[e.UID] && e.ResourceVersion == ""
	})
	next.Status.Reservations = append(next.Status.Reservations, r.admitted...)
	return next
}

// reserveIn adds the reservation of the room to the status of a Quota, and returns by how much the
// room becomes larger with it, for ShadowPods like an example. It is pure but for the status.
func (r *room) reserveIn(quota *offloadingv1beta1.Quota, example corev1.ResourceList) corev1.ResourceList {
	status := &quota.Status
	all, more := corev1.ResourceList{}, corev1.ResourceList{}
	add(all, r.left)
	add(status.Used, r.left)
	if pods := roomFor(quota, example) - r.left.Pods().Value(); pods >= minRoomPods {
		for name, amount := range example {
			product := amount.DeepCopy()
			product.Mul(pods)
			more[name] = product
		}
	}
	add(all, more)
	add(status.Used, more)
	if len(all) > 0 {
		status.Reservations = append(status.Reservations, offloadingv1beta1.QuotaReservation{
			Name: string(r.holder), UID: r.holder, Resources: all, Time: metav1.NewTime(r.until),
		})
	}
	return more
}

// roomFor returns for how many ShadowPods with these requests a room may be. It is pure.
func roomFor(quota *offloadingv1beta1.Quota, requests corev1.ResourceList) int64 {
	if len(requests) == 0 || ptr.Deref(quota.Spec.Cordoned, false) {
		return 0
	}
	most := int64(roomPods)
	for name, request := range requests {
		limit, ok := quota.Spec.Resources[name]
		if request.IsZero() || !ok && name == corev1.ResourcePods {
			continue
		}
		free := limit.DeepCopy()
		free.Sub(quota.Status.Used[name])
		most = min(most, int64(free.AsApproximateFloat64()/request.AsApproximateFloat64()/roomShare))
	}
	return most
}
