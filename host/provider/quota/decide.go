package quota

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// maxReservations bounds the reservations in the status of a Quota. A consumer could have a status
// written that fills the storage of the API server otherwise: those of one name count once.
const maxReservations = 2000

// maxShadowPods bounds the ShadowPods of a user, finished ones included, which use nothing of a Quota.
// Kubernetes removes finished pods of a whole cluster beyond 12,500.
const maxShadowPods = 20_000

// errTooManyReservations is returned while the Quota has maxReservations.
var errTooManyReservations = fmt.Errorf("the quota has %d reservations of ShadowPods that were not stored: the ShadowPod can be created again when they have ended, after %s at the latest", maxReservations, reservationLifetime)

// Denied is the error of a ShadowPod that its quota does not admit.
type Denied struct{ Reason string }

// Error implements error.
func (d *Denied) Error() string { return d.Reason }

// reserve adds a reservation to the status of a quota, for a new ShadowPod or for a change of one
// that has a resource version and was another before, or returns why the quota does not admit it. The
// status must be that of [refresh]. The decision holds if the status is written over the quota that it
// was made from.
func reserve(quota *offloadingv1beta1.Quota, usage *Usage, before, shadow *offloadingv1beta1.ShadowPod, now time.Time) error {
	isNew := shadow.ResourceVersion == ""
	if isNew && ptr.Deref(quota.Spec.Cordoned, false) {
		return &Denied{fmt.Sprintf("quota %s is cordoned: the provider accepts no new pods of this virtual node", quota.Name)}
	}
	if isNew && usage.count() >= maxShadowPods {
		return &Denied{fmt.Sprintf("quota %s has %d ShadowPods: delete pods that have finished", quota.Name, maxShadowPods)}
	}
	requests, err := Requests(&shadow.Spec.Pod)
	if err != nil {
		return &Denied{err.Error()}
	}
	if err := checkLimits(&shadow.Spec.Pod, quota.Spec.LimitsEnforcement); err != nil {
		return &Denied{err.Error()}
	}
	status := &quota.Status
	if len(status.Reservations) >= maxReservations {
		return errTooManyReservations
	}
	// Names are unique: of several creations of one name, one is stored at a time.
	key := types.NamespacedName{Namespace: shadow.Namespace, Name: shadow.Name}
	var reserved corev1.ResourceList
	for i := range status.Reservations {
		if r := &status.Reservations[i]; keyOf(r) == key {
			reserved = larger(reserved, r.Resources)
		}
	}
	wanted := excess(larger(reserved, requests), key, usage)
	subtract(wanted, excess(reserved, key, usage))
	grown := growth(before, requests)
	if reason := exceeded(quota, taken(status, usage), grown, wanted); reason != "" {
		return &Denied{reason}
	}
	if len(grown) > 0 && ptr.Deref(quota.Spec.Cordoned, false) {
		return &Denied{fmt.Sprintf("quota %s is cordoned: the provider gives no more resources to pods of this virtual node", quota.Name)}
	}
	add(status.Used, wanted)
	status.Reservations = append(status.Reservations, offloadingv1beta1.QuotaReservation{
		Namespace: shadow.Namespace, Name: shadow.Name, UID: shadow.UID, ResourceVersion: shadow.ResourceVersion, Resources: requests, Time: metav1.NewTime(now),
	})
	return nil
}

// refresh returns the status of a quota without the reservations that have ended: those of
// ShadowPods that were observed, and expired ones of ShadowPods that do not exist. It is pure.
//
// A replica of an earlier version reserved resources ahead, without a namespace, and admits ShadowPods from
// them while it runs beside this one. Such a reservation counts, and expires, like each other.
func refresh(quota *offloadingv1beta1.Quota, usage *Usage, now time.Time) (*offloadingv1beta1.QuotaStatus, error) {
	fence := parseVersion(quota.Status.ObservedResourceVersion)
	if usage.version < fence {
		return nil, errStale
	}
	status := &offloadingv1beta1.QuotaStatus{
		Used: usage.sum.DeepCopy(), Ending: quota.Status.Ending, EndingResourceVersion: quota.Status.EndingResourceVersion,
		Abandoned: quota.Status.Abandoned, Claims: quota.Status.Claims,
	}
	reserved := map[types.NamespacedName]corev1.ResourceList{}
	for i := range quota.Status.Reservations {
		r := &quota.Status.Reservations[i]
		if pod := usage.pods[r.UID]; pod != nil && !awaitsChange(r, pod) {
			// Other replicas must have observed it, too, before they count without the reservation.
			fence = max(fence, pod.version)
			continue
		}
		if expiry := r.Time.Add(reservationLifetime); now.After(expiry) {
			if !usage.listedAt.After(expiry) {
				return nil, errUnconfirmed
			}
			continue
		}
		status.Reservations = append(status.Reservations, *r.DeepCopy())
		reserved[keyOf(r)] = larger(reserved[keyOf(r)], r.Resources)
	}
	for key, resources := range reserved {
		add(status.Used, excess(resources, key, usage))
	}
	if fence > 0 {
		status.ObservedResourceVersion = strconv.FormatUint(fence, 10)
	}
	return status, nil
}

// taken returns what no other ShadowPod can have: what is used, what pods hold whose ShadowPods are gone, be it
// that the manager knows of them or not yet, and what the consumer's pods hold whose ResourceSlices are gone.
func taken(status *offloadingv1beta1.QuotaStatus, usage *Usage) corev1.ResourceList {
	sum := corev1.ResourceList{}
	add(sum, status.Used)
	add(sum, status.Ending)
	add(sum, usage.ending)
	add(sum, status.Abandoned)
	return sum
}

// excess returns what reservations of a name take beyond its live pod, if there is one: the API
// server stores the new ShadowPod only when the old one is gone.
func excess(reserved corev1.ResourceList, key types.NamespacedName, usage *Usage) corev1.ResourceList {
	have := usage.liveRequests(key)
	most := larger(reserved, have)
	subtract(most, have)
	return most
}

// awaitsChange reports whether the change that a reservation is for was not observed.
func awaitsChange(r *offloadingv1beta1.QuotaReservation, pod *observed) bool {
	return r.ResourceVersion != "" && pod.deletedAt.IsZero() && pod.version <= parseVersion(r.ResourceVersion)
}

// growth returns the requests that are larger than those of the ShadowPod before the change, or all
// without one. The others are no cause to deny a change: the grant may be less than what is used. What is
// known of the ShadowPod can be older than the change is made from.
func growth(before *offloadingv1beta1.ShadowPod, requests corev1.ResourceList) corev1.ResourceList {
	if before == nil {
		return requests
	}
	had, err := Requests(&before.Spec.Pod)
	if err != nil {
		had = nil // It was created without this check.
	}
	grown := maps.Clone(requests)
	maps.DeleteFunc(grown, func(name corev1.ResourceName, amount resource.Quantity) bool { return amount.Cmp(had[name]) <= 0 })
	return grown
}

func keyOf(r *offloadingv1beta1.QuotaReservation) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}
