package chart_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/kit/feed"
)

// feedValues are those of a release whose webhook does not run.
func feedValues(isOn bool) map[string]any {
	values := lifecycleValues("1")
	values["provider"] = map[string]any{"feed": isOn}
	return values
}

// The API of a feed that does not answer keeps namespaces from being deleted. Helm upgrades and
// uninstalls the release nevertheless, and leaves nothing of the feed.
func TestAFeedThatIsSwitchedOffLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	chrt := currentChart(t)
	planetest.Until(t, func(t planetest.T) bool { return r.installWith(t, chrt, feedValues(true), false) == nil }, established, poll)
	service := &unstructured.Unstructured{}
	service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	reader := &rbacv1.RoleBinding{}
	objects := map[client.ObjectKey]client.Object{
		{Name: feed.Version + "." + feed.Group}:                                     service,
		{Namespace: "kube-system", Name: "longshore-webhook-authentication-reader"}: reader,
	}
	exist := func(t planetest.T) (found int) {
		t.Helper()
		for key, object := range objects {
			err := r.admin.Get(t.Context(), key, object)
			require.NoError(t, client.IgnoreNotFound(err))
			if err == nil {
				found++
			}
		}
		return found
	}
	require.Equal(t, len(objects), exist(t))

	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	require.NoError(t, r.admin.Create(t.Context(), shop))
	require.NoError(t, r.admin.Delete(t.Context(), shop))
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.admin.Get(t.Context(), client.ObjectKeyFromObject(shop), shop))
		for _, condition := range shop.Status.Conditions {
			if condition.Type == corev1.NamespaceDeletionDiscoveryFailure && condition.Status == corev1.ConditionTrue {
				return assert.Contains(t, condition.Message, feed.Group)
			}
		}
		return false
	}, established, poll, "the namespace reports why it is not deleted")

	require.NoError(t, r.upgradeWith(t, chrt, feedValues(false), false))
	assert.Zero(t, exist(t))
	planetest.Until(t, func(t planetest.T) bool {
		return apierrors.IsNotFound(r.admin.Get(t.Context(), client.ObjectKeyFromObject(shop), shop))
	}, established, poll, "the namespace is deleted")
	role := &rbacv1.ClusterRole{}
	for _, name := range []string{"longshore-webhook", "liqo-virtual-kubelet-remote-clusterwide"} {
		require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: name}, role))
		for _, rule := range role.Rules {
			assert.NotContains(t, rule.APIGroups, feed.Group, name)
			assert.NotContains(t, rule.Resources, "subjectaccessreviews", name)
		}
	}

	require.NoError(t, r.upgradeWith(t, chrt, feedValues(true), false))
	require.Equal(t, len(objects), exist(t))
	_, err := r.uninstall(t)
	require.NoError(t, err)
	assert.Zero(t, exist(t))
}
