package quota

import (
	"errors"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

// reservationLifetime is how long a reservation of a ShadowPod that was not observed counts. It
// exceeds the time after which the API server ends a request, one minute, so that a creation
// which is admitted is stored before, or never.
const reservationLifetime = 90 * time.Second

var (
	// errStale is returned when another replica has observed ShadowPods that this one has not.
	errStale = errors.New("the cache of ShadowPods is behind that of another replica")
	// errUnconfirmed is returned when a reservation has expired, and only a list of the user's
	// ShadowPods can tell that its ShadowPod was not created.
	errUnconfirmed = errors.New("a reservation has expired")
)

// observed is what is known of one ShadowPod.
type observed struct {
	key      types.NamespacedName
	version  uint64
	requests corev1.ResourceList
	// deletedAt is when its deletion was observed.
	deletedAt time.Time
	// isInexact is set if the version is an earlier one than that of its deletion.
	isInexact bool
}

// Usage is what is known of the ShadowPods of one user. It is not safe for concurrent use.
type Usage struct {
	pods map[types.UID]*observed
	// sum of the requests of live pods.
	sum corev1.ResourceList
	// live are the UIDs of live pods by name.
	live map[types.NamespacedName]types.UID
	// ended are the ShadowPods that were deleted and whose pods may still run, and ending the sum of what
	// they requested.
	ended  map[types.UID]*observed
	ending corev1.ResourceList
	// version is the newest resource version of a ShadowPod that was observed.
	version uint64
	// listedAt is when the user's ShadowPods were last listed without a cache.
	listedAt time.Time
}

func newUsage() *Usage {
	return &Usage{
		pods: map[types.UID]*observed{}, sum: corev1.ResourceList{}, live: map[types.NamespacedName]types.UID{},
		ended: map[types.UID]*observed{}, ending: corev1.ResourceList{},
	}
}

// observe records a ShadowPod. A finished one uses nothing; older versions are ignored.
func (u *Usage) observe(shadow *offloadingv1beta1.ShadowPod) {
	version := parseVersion(shadow.ResourceVersion)
	before := u.pods[shadow.UID]
	if before != nil && (version < before.version || !before.deletedAt.IsZero()) {
		return
	}
	u.drop(shadow.UID)
	now := &observed{key: types.NamespacedName{Namespace: shadow.Namespace, Name: shadow.Name}, version: version}
	u.pods[shadow.UID] = now
	if isFinished(shadow) {
		return
	}
	requests, err := requestsOfPod(shadow)
	if err != nil {
		// It was created without this check. No pod can come of it.
		requests = corev1.ResourceList{corev1.ResourcePods: *one()}
	}
	now.requests = requests
	u.live[now.key] = shadow.UID
	add(u.sum, requests)
}

// remove records that a ShadowPod was deleted. It stays known until it is forgotten, and what it requested
// counts until [Usage.settle] says otherwise. isExact is set if the ShadowPod has the version of its deletion.
func (u *Usage) remove(shadow *offloadingv1beta1.ShadowPod, isExact bool, now time.Time) {
	before := u.pods[shadow.UID]
	u.drop(shadow.UID)
	gone := &observed{
		key: types.NamespacedName{Namespace: shadow.Namespace, Name: shadow.Name}, version: parseVersion(shadow.ResourceVersion),
		deletedAt: now, isInexact: !isExact,
	}
	u.pods[shadow.UID] = gone
	if before == nil || len(before.requests) == 0 {
		return
	}
	held := *gone
	held.requests = before.requests
	u.ended[shadow.UID] = &held
	add(u.ending, held.requests)
}

// settle ends the count of deleted ShadowPods whose pods the manager has seen to end, or counts itself: those
// that were deleted until a version. A manager of an earlier version, or one that was replaced at this
// moment, says nothing of a deletion: it ends with the time.
func (u *Usage) settle(version uint64, now time.Time) {
	for uid, gone := range u.ended {
		if gone.version <= version && !gone.isInexact || now.Sub(gone.deletedAt) > reservationLifetime {
			u.release(uid)
		}
	}
}

// release ends the count of a deleted ShadowPod.
func (u *Usage) release(uid types.UID) {
	if gone := u.ended[uid]; gone != nil {
		subtract(u.ending, gone.requests)
		delete(u.ended, uid)
	}
}

func (u *Usage) drop(uid types.UID) {
	pod := u.pods[uid]
	if pod == nil {
		return
	}
	subtract(u.sum, pod.requests)
	if u.live[pod.key] == uid {
		delete(u.live, pod.key)
	}
	delete(u.pods, uid)
}

// count returns how many ShadowPods there are. Only where it can be many, it leaves out those that were
// deleted and are still known.
func (u *Usage) count() int {
	count := len(u.pods)
	if count < maxShadowPods {
		return count
	}
	for _, pod := range u.pods {
		if !pod.deletedAt.IsZero() {
			count--
		}
	}
	return count
}

// liveRequests returns the requests of the live pod of a name.
func (u *Usage) liveRequests(key types.NamespacedName) corev1.ResourceList {
	if pod := u.pods[u.live[key]]; pod != nil {
		return pod.requests
	}
	return nil
}

// isFinished reports whether the pod has ended, which gives its quota back.
func isFinished(shadow *offloadingv1beta1.ShadowPod) bool {
	return podend.IsTerminal(shadow.Status.Phase)
}

// parseVersion returns a resource version as the number that it is; zero if it is none.
func parseVersion(version string) uint64 {
	parsed, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return parsed
}
