package quota

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func TestRoomAdmits(t *testing.T) {
	now := time.Unix(1e9, 0)
	for name, tc := range map[string]struct {
		change func(*room, *offloadingv1beta1.Quota, *offloadingv1beta1.ShadowPod)
		want   bool
	}{
		"what fits":                           {func(*room, *offloadingv1beta1.Quota, *offloadingv1beta1.ShadowPod) {}, true},
		"nothing larger":                      {func(r *room, _ *offloadingv1beta1.Quota, _ *offloadingv1beta1.ShadowPod) { r.left = list("500m", 4) }, false},
		"no more pods":                        {func(r *room, _ *offloadingv1beta1.Quota, _ *offloadingv1beta1.ShadowPod) { r.left = list("8", 0) }, false},
		"nothing after its end":               {func(r *room, _ *offloadingv1beta1.Quota, _ *offloadingv1beta1.ShadowPod) { r.until = now }, false},
		"nothing when the Quota changed":      {func(_ *room, q *offloadingv1beta1.Quota, _ *offloadingv1beta1.ShadowPod) { q.Generation++ }, false},
		"nothing when the Quota was replaced": {func(_ *room, q *offloadingv1beta1.Quota, _ *offloadingv1beta1.ShadowPod) { q.UID = "another" }, false},
		"no change of a ShadowPod":            {func(_ *room, _ *offloadingv1beta1.Quota, s *offloadingv1beta1.ShadowPod) { s.ResourceVersion = "7" }, false},
		"no pod without the limits that the Quota demands": {func(_ *room, q *offloadingv1beta1.Quota, _ *offloadingv1beta1.ShadowPod) {
			q.Spec.LimitsEnforcement = offloadingv1beta1.HardLimitsEnforcement
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			quota := &offloadingv1beta1.Quota{}
			quota.UID, quota.Generation = "quota", 3
			r := &room{quota: "quota", generation: 3, left: list("8", 8), until: now.Add(time.Second)}
			shadow := shadowPod("web", "1")
			tc.change(r, quota, shadow)
			before := r.left.DeepCopy()
			assert.Equal(t, tc.want, r.take(quota, shadow, true, now), "a dry run")
			assert.Equal(t, before, r.left)
			assert.Equal(t, tc.want, r.take(quota, shadow, false, now))
			assert.Len(t, r.admitted, map[bool]int{true: 1}[tc.want])
			if tc.want {
				assert.True(t, equal(list("7", 7), r.left))
			}
		})
	}
}

func TestRoomIsAPartOfWhatIsFree(t *testing.T) {
	for name, tc := range map[string]struct {
		spec offloadingv1beta1.QuotaSpec
		used corev1.ResourceList
		want int64
	}{
		"much is free":              {offloadingv1beta1.QuotaSpec{Resources: list("1000", 1000)}, nil, roomPods},
		"an eighth of the pods":     {offloadingv1beta1.QuotaSpec{Resources: list("1000", 100)}, list("2", 20), 10},
		"an eighth of the cpu":      {offloadingv1beta1.QuotaSpec{Resources: list("100", 1000)}, list("20", 20), 5},
		"nothing is free":           {offloadingv1beta1.QuotaSpec{Resources: list("10", 1000)}, list("20", 20), -1},
		"pods are not limited":      {offloadingv1beta1.QuotaSpec{Resources: corev1.ResourceList{"cpu": list("160", 0)["cpu"]}}, nil, 10},
		"the Quota is cordoned":     {offloadingv1beta1.QuotaSpec{Resources: list("1000", 1000), Cordoned: ptr.To(true)}, nil, 0},
		"a resource is not granted": {offloadingv1beta1.QuotaSpec{Resources: corev1.ResourceList{"pods": list("0", 100)["pods"]}}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			want := tc.want
			got := roomFor(&offloadingv1beta1.Quota{Spec: tc.spec}, tc.used, list("2", 1))
			if want < 0 {
				assert.LessOrEqual(t, got, int64(0))
				return
			}
			assert.Equal(t, want, got)
		})
	}
}

// TestRoomForTheSmallestAmounts asks for a billionth of what is granted.
func TestRoomForTheSmallestAmounts(t *testing.T) {
	granted := corev1.ResourceList{"memory": resource.MustParse("128Gi"), "cpu": resource.MustParse("8"), "pods": resource.MustParse("1000")}
	quota := &offloadingv1beta1.Quota{Spec: offloadingv1beta1.QuotaSpec{Resources: granted}}
	tiny := corev1.ResourceList{"memory": resource.MustParse("1n"), "cpu": resource.MustParse("1"), "pods": resource.MustParse("1")}
	assert.EqualValues(t, 1, roomFor(quota, nil, tiny))
	r := &room{left: list("1", 8)}
	assert.Empty(t, r.more(quota, tiny), "the room is large enough")
}

func TestTheFirstRoomOfAQuota(t *testing.T) {
	created := time.Unix(1e9, 0)
	another := offloadingv1beta1.QuotaReservation{UID: "another", Resources: list("1", 1)}
	for name, tc := range map[string]struct {
		spec   offloadingv1beta1.QuotaSpec
		status offloadingv1beta1.QuotaStatus
		age    time.Duration
		want   corev1.ResourceList
	}{
		"an eighth":                    {spec: offloadingv1beta1.QuotaSpec{Resources: list("4", 110)}, want: list("500m", 13)},
		"of few pods":                  {spec: offloadingv1beta1.QuotaSpec{Resources: list("4000", 4000)}, want: list("500", roomPods)},
		"none of a small Quota":        {spec: offloadingv1beta1.QuotaSpec{Resources: list("4", 7)}},
		"none while it is cordoned":    {spec: offloadingv1beta1.QuotaSpec{Resources: list("4", 110), Cordoned: ptr.To(true)}},
		"none when it is old":          {spec: offloadingv1beta1.QuotaSpec{Resources: list("4", 110)}, age: firstRoomLifetime},
		"none when it is used":         {spec: offloadingv1beta1.QuotaSpec{Resources: list("4", 110)}, status: offloadingv1beta1.QuotaStatus{Used: list("1", 1)}},
		"none when it was used":        {spec: offloadingv1beta1.QuotaSpec{Resources: list("4", 110)}, status: offloadingv1beta1.QuotaStatus{ObservedResourceVersion: "7"}},
		"none beside one of a replica": {spec: offloadingv1beta1.QuotaSpec{Resources: list("4", 110)}, status: offloadingv1beta1.QuotaStatus{Reservations: []offloadingv1beta1.QuotaReservation{another}}},
	} {
		t.Run(name, func(t *testing.T) {
			quota := &offloadingv1beta1.Quota{Spec: tc.spec, Status: tc.status}
			quota.CreationTimestamp = metav1.NewTime(created)
			r := &room{holder: "holder"}
			got := r.openFirst(quota, created.Add(tc.age))
			assert.True(t, equal(tc.want, got), "%v", got)
			assert.Equal(t, tc.want != nil, r.isFirst)
			if tc.want != nil {
				assert.Equal(t, created.Add(firstRoomLifetime), r.until)
			}
		})
	}
}

func TestTheFirstRoomEndsWhenTheQuotaIsUsed(t *testing.T) {
	now := time.Unix(1e9, 0)
	quota := &offloadingv1beta1.Quota{}
	quota.UID, quota.Generation = "quota", 3
	open := func() *room {
		return &room{holder: "holder", quota: "quota", generation: 3, left: list("8", 8), until: now.Add(firstRoomLifetime), isFirst: true}
	}
	held := open().hold(quota, false, now)
	assert.True(t, held.isFirst, "nothing has happened")
	assert.True(t, equal(list("8", 8), held.left))

	quota.Status.Used = list("1", 1)
	assert.Empty(t, open().hold(quota, false, now).left, "another replica has admitted a ShadowPod")

	r := open()
	assert.True(t, r.take(quota, shadowPod("web", "1"), false, now))
	held = r.hold(quota, false, now)
	assert.False(t, held.isFirst)
	assert.Equal(t, now.Add(roomLifetime), held.until, "it is a room like others")
}
