package quota

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// TestAChangeTakesOnlyWhatIsNew changes a pod of 4 CPUs and 1 GiB whose Quota grants 2 CPUs and 2 GiB now.
func TestAChangeTakesOnlyWhatIsNew(t *testing.T) {
	pod := func(cpu, memory string) *offloadingv1beta1.ShadowPod {
		shadow := &offloadingv1beta1.ShadowPod{}
		shadow.Namespace, shadow.Name, shadow.UID, shadow.ResourceVersion = "shop-rome", "pod", "1", "7"
		shadow.Spec.Pod.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}}}}
		return shadow
	}
	for name, tc := range map[string]struct {
		change *offloadingv1beta1.ShadowPod
		isNew  bool
		// behind is set if the ShadowPod was smaller before the change than what is known of it.
		behind, cordoned bool

		denial string
	}{
		"it shrinks into the grant":               {change: pod("1", "1Gi")},
		"it shrinks, and is still over the grant": {change: pod("3", "1Gi")},
		"nothing changes":                         {change: pod("4", "1Gi")},
		"it takes what is left of another one":    {change: pod("3", "2Gi")},
		"it takes more than is left of it":        {change: pod("3", "3Gi"), denial: "exceeded quota gpu: requested memory=3Gi; used memory=1Gi; granted memory=2Gi"},
		"it grows":                                {change: pod("5", "1Gi"), denial: "exceeded quota gpu: requested cpu=5; used cpu=4; granted cpu=2"},
		"it shrinks while the quota is cordoned":  {change: pod("3", "1Gi"), cordoned: true},
		"it grows while the quota is cordoned":    {change: pod("4", "2Gi"), cordoned: true, denial: "quota gpu is cordoned: the provider gives no more resources"},
		"it grows to what is known of it":         {change: pod("4", "1Gi"), behind: true, denial: "exceeded quota gpu: requested cpu=4; used cpu=4; granted cpu=2"},
		"a new one of its name changes nothing":   {change: pod("3", "1Gi"), isNew: true, denial: "exceeded quota gpu: requested cpu=3,pods=1"},
	} {
		t.Run(name, func(t *testing.T) {
			usage := newUsage()
			usage.observe(pod("4", "1Gi"))
			quota := &offloadingv1beta1.Quota{}
			quota.Name = "gpu"
			quota.Spec.Resources = corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi"), corev1.ResourcePods: resource.MustParse("0"),
			}
			now := time.Unix(1000, 0)
			status, err := refresh(quota, usage, now)
			require.NoError(t, err)
			quota.Status = *status
			before := pod("4", "1Gi")
			if tc.behind {
				before = pod("1", "1Gi")
			}
			quota.Spec.Cordoned = ptr.To(tc.cordoned)
			if tc.isNew {
				before, tc.change.ResourceVersion = nil, ""
			}
			err = reserve(quota, usage, before, tc.change, now)
			if tc.denial == "" {
				require.NoError(t, err)
				return
			}
			var denied *Denied
			require.ErrorAs(t, err, &denied)
			assert.Contains(t, denied.Reason, tc.denial)
		})
	}
}

// TestWhatAnEarlierVersionReservedAheadCounts has a reservation of a replica of an earlier version, which
// belongs to no ShadowPod.
func TestWhatAnEarlierVersionReservedAheadCounts(t *testing.T) {
	quota, now := newQuota(), time.Unix(1e9, 0)
	quota.Status.Reservations = []offloadingv1beta1.QuotaReservation{{Name: "holder", UID: "holder", Resources: list("3", 3), Time: metav1.NewTime(now)}}
	usage := newUsage()
	status, err := refresh(quota, usage, now)
	require.NoError(t, err)
	assert.True(t, equal(list("3", 3), status.Used), "%v", status.Used)
	quota.Status = *status
	var denied *Denied
	require.ErrorAs(t, reserve(quota, usage, nil, shadowPod("web", "2"), now), &denied)

	now = now.Add(reservationLifetime + time.Second)
	usage.listedAt = now
	status, err = refresh(quota, usage, now)
	require.NoError(t, err)
	assert.Empty(t, status.Reservations)
	assert.Empty(t, status.Used)
}
