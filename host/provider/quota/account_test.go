package quota

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// observedAs returns a ShadowPod of a user as a watch delivers it.
func observedAs(user, name, version string) *offloadingv1beta1.ShadowPod {
	shadow := shadowPod(name, "1")
	shadow.Labels[offloadingv1beta1.CreatorUserLabel] = user
	shadow.UID, shadow.ResourceVersion = types.UID(user+"/"+name), version
	return shadow
}

// A consumer has a user for each of its ResourceSlices, and names them as it likes.
func TestUsersThatAreGoneAreForgotten(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	a := NewAccount(clock)
	const users = 100
	for i := range users {
		shadow := observedAs(fmt.Sprintf("user-%d", i), "web", "1")
		a.observe(shadow)
		a.remove(shadow, true)
	}
	require.Len(t, a.users, users, "reservations of the ShadowPods may be open")
	clock.Step(reservationLifetime + time.Second)
	a.observe(observedAs(testUser, "web", "2"))
	a.remove(observedAs("user-0", "web", "3"), true)
	a.observe(observedAs("user-0", "again", "4"))
	a.remove(observedAs("user-0", "again", "5"), true)
	assert.Len(t, a.users, 2, "one has a ShadowPod, one had one a moment ago")
	assert.Len(t, a.creators, 1)
	assert.Len(t, a.gone, 1)
}

// A list may be older than the watch.
func TestAListDoesNotBringDeletedShadowPodsBack(t *testing.T) {
	a := NewAccount(clocktesting.NewFakeClock(time.Unix(1e9, 0)))
	shadow := observedAs(testUser, "web", "5")
	a.observe(shadow)
	listed := []offloadingv1beta1.ShadowPod{*shadow.DeepCopy()}
	deleted := shadow.DeepCopy()
	deleted.ResourceVersion = "7"
	a.remove(deleted, true)
	a.replace(testUser, listed, 6, time.Unix(1e9, 0))
	assert.Empty(t, a.users[testUser].sum)
	assert.Empty(t, a.creators, "no event would remove it")
}
