package quota

import (
	"errors"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
	// firstRoomLifetime is how long a new Quota has room for its first ShadowPods.
	firstRoomLifetime = 5 * time.Minute
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
	// isFirst is set for the room of a new Quota, until a ShadowPod was admitted.
	isFirst bool
	// admitted are the ShadowPods that only the reservation of the room covers.
	admitted []offloadingv1beta1.QuotaReservation
}

// take admits a new ShadowPod from the room, and reports whether it could. If the Quota has
// changed, and for a change of a ShadowPod, a decision is needed.
func (r *room) take(quota *offloadingv1beta1.Quota, shadow *offloadingv1beta1.ShadowPod, dryRun bool, now time.Time) bool {
	if quota == nil || !r.isOpen(quota, now) || shadow.ResourceVersion != "" {
		return false
	}
	requests, err := Requests(&shadow.Spec.Pod)
	if err != nil || checkLimits(&shadow.Spec.Pod, quota.Spec.LimitsEnforcement) != nil || !covers(r.left, requests) {
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
	isIdle := !isUsed && (r.isFirst && isInUse(quota, r.holder) || now.Sub(r.until) >= refreshDelay-roomLifetime)
	if waiting || isIdle || !isOpen {
		r.left, r.until, r.isFirst = nil, time.Time{}, false
	}
	held := *r
	held.left, held.admitted = r.left.DeepCopy(), slices.Clone(r.admitted)
	held.quota, held.generation = quota.UID, quota.Generation
	if isUsed {
		held.until, held.isFirst = now.Add(roomLifetime).Truncate(time.Second), false // as the status has it
	}
	return &held
}

// isInUse reports whether a Quota has or had ShadowPods, or has reservations of others than a holder.
func isInUse(quota *offloadingv1beta1.Quota, holder types.UID) bool {
	return len(quota.Status.Used) > 0 || quota.Status.ObservedResourceVersion != "" || slices.ContainsFunc(quota.Status.Reservations, func(r offloadingv1beta1.QuotaReservation) bool {
		return r.UID != holder
	})
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
	r.quota, r.generation, r.until, r.isFirst = held.quota, held.generation, held.until, held.isFirst
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

// openFirst opens the room of a Quota that was never used, and returns what it has: the first
// ShadowPods do not wait for a write then. The room of another replica counts as use. It is pure but
// for the room.
func (r *room) openFirst(quota *offloadingv1beta1.Quota, now time.Time) corev1.ResourceList {
	until := quota.CreationTimestamp.Add(firstRoomLifetime)
	isOpen := len(r.left) > 0 || !r.until.IsZero()
	if isOpen || isInUse(quota, r.holder) || !now.Before(until.Add(-roomLifetime)) || ptr.Deref(quota.Spec.Cordoned, false) {
		return nil
	}
	first := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(roomPods, resource.DecimalSI)}
	for name, limit := range quota.Spec.Resources {
		share := *resource.NewQuantity(limit.Value()/roomShare, limit.Format)
		if name == corev1.ResourceCPU {
			share = *resource.NewMilliQuantity(limit.MilliValue()/roomShare, limit.Format)
		}
		if most, ok := first[name]; !ok || share.Cmp(most) < 0 {
			first[name] = share
		}
	}
	if first.Pods().IsZero() {
		return nil
	}
	r.until, r.isFirst = until, true
	return first
}

// endFirstRoom marks a new Quota as used if it has denied a ShadowPod while another replica has room:
// that replica gives the first room back then.
func endFirstRoom(quota *offloadingv1beta1.Quota, usage *Usage, errs []error) {
	status := &quota.Status
	isDenied := slices.ContainsFunc(errs, func(err error) bool {
		var denied *Denied
		return errors.As(err, &denied)
	})
	if isDenied && status.ObservedResourceVersion == "" && slices.ContainsFunc(status.Reservations, func(r offloadingv1beta1.QuotaReservation) bool { return isRoom(&r) }) {
		status.ObservedResourceVersion = strconv.FormatUint(max(usage.version, 1), 10)
	}
}

// more returns by how much the room becomes larger, for ShadowPods like an example. It is pure.
func (r *room) more(quota *offloadingv1beta1.Quota, example corev1.ResourceList) corev1.ResourceList {
	used, more := taken(&quota.Status), corev1.ResourceList{}
	add(used, r.left)
	if pods := roomFor(quota, used, example) - r.left.Pods().Value(); pods >= minRoomPods {
		for name, amount := range example {
			product := amount.DeepCopy()
			product.Mul(pods)
			more[name] = product
		}
	}
	return more
}

// reserveIn adds the reservation of the room, and of what it becomes larger by, to the status of a
// Quota. It is pure but for the status.
func (r *room) reserveIn(quota *offloadingv1beta1.Quota, more corev1.ResourceList) {
	all := corev1.ResourceList{}
	add(all, r.left)
	add(all, more)
	if len(all) > 0 {
		quota.Status.Reservations = append(quota.Status.Reservations, offloadingv1beta1.QuotaReservation{
			Name: string(r.holder), UID: r.holder, Resources: all, Time: metav1.NewTime(r.until),
		})
	}
}

// isRoom reports whether a reservation is that of a room, which belongs to no namespace.
func isRoom(r *offloadingv1beta1.QuotaReservation) bool { return r.Namespace == "" }

// roomFor returns for how many ShadowPods with these requests a room may be, beside what is used. It
// is pure.
func roomFor(quota *offloadingv1beta1.Quota, used, requests corev1.ResourceList) int64 {
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
		free.Sub(used[name])
		// A share may be larger than any integer: the smallest amount is a billionth.
		share := free.AsApproximateFloat64() / request.AsApproximateFloat64() / roomShare
		most = int64(min(float64(most), max(0, share)))
	}
	return most
}
