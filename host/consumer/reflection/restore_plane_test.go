package reflection_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// A provider whose etcd is restored from a backup goes back in time: its resource versions
// are lower than those that the engine has seen.
func TestAProviderRestoredFromABackupConverges(t *testing.T) {
	planetest.NeedsControlPlane(t)
	r := newRig(t)
	r.remap(t, remoteNamespace)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "settings"}, Data: map[string]string{"k": "1"}}
	require.NoError(t, r.rome.Create(t.Context(), settings))
	r.createPods(t, "web-", 2)
	planetest.Until(t, func(t planetest.T) bool { return r.countPods(t, corev1.PodRunning) == 2 }, soon, tick)
	r.awaitSetting(t, "1")

	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, r.provider.BackUp(t.Context(), backup))

	// What happens after the backup.
	settings.Data["k"] = "2"
	require.NoError(t, r.rome.Update(t.Context(), settings))
	r.awaitSetting(t, "2")
	require.NoError(t, r.rome.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "web-0"}}))
	r.createPods(t, "late-", 1)
	planetest.Until(t, func(t planetest.T) bool {
		return r.isAbsent(t, "web-0") && r.countPods(t, corev1.PodRunning) == 2
	}, soon, tick)
	for i := range 300 {
		require.NoError(t, r.milan.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "later-" + strconv.Itoa(i)},
		}))
	}

	require.NoError(t, r.provider.Restore(t.Context(), backup))
	r.play(t)
	r.awaitSetting(t, "2")
	planetest.Until(t, func(t planetest.T) bool { return r.isAbsent(t, "web-0") && !r.isAbsent(t, "late-0") }, soon, tick,
		"the ShadowPod of the deleted pod goes again, and the later pod gets a ShadowPod again")
	assert.False(t, r.isAbsent(t, "web-1"))

	// The engine sees what happens from now on.
	settings.Data["k"] = "3"
	require.NoError(t, r.rome.Update(t.Context(), settings))
	r.awaitSetting(t, "3")
	require.NoError(t, r.rome.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "web-1"}}))
	planetest.Until(t, func(t planetest.T) bool {
		err := r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "web-1"}, &corev1.Pod{})
		return apierrors.IsNotFound(err) && r.isAbsent(t, "web-1")
	}, soon, tick)
}

// awaitSetting waits until the remote ConfigMap has a value.
func (r *rig) awaitSetting(t *testing.T, value string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		cm := &corev1.ConfigMap{}
		require.NoError(t, r.milan.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "settings"}, cm))
		return cm.Data["k"] == value
	}, soon, tick, "the remote ConfigMap has value %q", value)
}

// isAbsent reports whether the provider has no ShadowPod of this name.
func (r *rig) isAbsent(t planetest.T, name string) bool {
	t.Helper()
	err := r.milan.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: name}, &offloadingv1beta1.ShadowPod{})
	require.NoError(t, client.IgnoreNotFound(err))
	return apierrors.IsNotFound(err)
}
