package chart_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/app/uninstall"
)

const (
	hookName  = "longshore-uninstall"
	hookSoon  = 2 * time.Minute
	hookTick  = 50 * time.Millisecond
	hookStage = time.Second
)

// runUninstallJob does what a node does with the Job of the pre-delete hook: it runs the command
// with the rights of the Job's service account, and reports that its pod has ended. It returns what
// the command printed.
func (r *release) runUninstallJob(t *testing.T) string {
	t.Helper()
	job := &batchv1.Job{}
	planetest.Until(t, func(t planetest.T) bool {
		return r.admin.Get(t.Context(), client.ObjectKey{Namespace: "longshore", Name: hookName}, job) == nil
	}, hookSoon, hookTick, "Helm creates the Job")
	container := job.Spec.Template.Spec.Containers[0]
	assert.Equal(t, []string{"/usr/bin/longshore"}, container.Command)
	assert.Equal(t, []string{"uninstall", "--stage-timeout=60s", "--timeout=240s"}, container.Args)
	assert.Equal(t, hookName, job.Spec.Template.Spec.ServiceAccountName)
	// helm uninstall waits for five minutes.
	assert.Equal(t, ptr.To[int64](290), job.Spec.ActiveDeadlineSeconds)

	c := r.client(t, rest.ImpersonationConfig{
		UserName: "system:serviceaccount:longshore:" + hookName,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:longshore", "system:authenticated"},
	})
	var out bytes.Buffer
	require.NoError(t, uninstall.Run(t.Context(), uninstall.Options{Client: c, StageTimeout: hookStage, Timeout: hookSoon, PollInterval: hookTick, Out: &out}))

	pods := &corev1.PodList{}
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.admin.List(t.Context(), pods, client.InNamespace("longshore"), client.MatchingLabels{batchv1.JobNameLabel: hookName}))
		return len(pods.Items) == 1
	}, hookSoon, hookTick, "the Job has a pod")
	pod := &pods.Items[0]
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodSucceeded
	require.NoError(t, r.admin.Status().Patch(t.Context(), pod, client.MergeFrom(before)))
	return out.String()
}

// client returns a client that knows the kinds of Longshore.
func (r *release) client(t *testing.T, as rest.ImpersonationConfig) client.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	require.NoError(t, err)
	config.Impersonate, config.QPS = as, -1
	kinds, err := scheme.New()
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: kinds})
	require.NoError(t, err)
	return c
}

// No component runs here, as when they crash or an administrator has scaled them down: the
// finalizers of all that Longshore made go anyway, and other finalizers stay.
func TestUninstallLeavesNoFinalizerWithoutComponents(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	chrt := currentChart(t)
	planetest.Until(t, func(t planetest.T) bool { return r.install(t, chrt, "1") == nil }, established, poll)
	create := func(group, kind, namespace, name string, spec map[string]any, labels map[string]string, finalizers ...string) *unstructured.Unstructured {
		t.Helper()
		object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1beta1", Kind: kind})
		object.SetNamespace(namespace)
		object.SetName(name)
		object.SetLabels(labels)
		object.SetFinalizers(finalizers)
		require.NoError(t, r.admin.Create(t.Context(), object), kind)
		return object
	}
	for _, name := range []string{"shop", "liqo-tenant-milan"} {
		require.NoError(t, r.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	replicated := map[string]string{"liqo.io/replication": "true", "liqo.io/remoteID": "milan"}
	const core, offloading, authentication = "core.liqo.io", "offloading.liqo.io", "authentication.liqo.io"
	gone := []client.Object{
		create(offloading, "NamespaceMap", "liqo-tenant-milan", "milan", map[string]any{}, replicated, "crdreplicator.liqo.io/resource", "namespacemap-controller.liqo.io/finalizer"),
		create(authentication, "ResourceSlice", "liqo-tenant-milan", "slice", map[string]any{"class": "default"}, replicated, "crdreplicator.liqo.io/resource"),
		create(authentication, "Tenant", "liqo-tenant-milan", "milan", map[string]any{"clusterID": "milan"}, nil, "tenant.liqo.io/finalizer"),
		create(core, "ForeignCluster", "", "milan", map[string]any{"clusterID": "milan"}, nil, "api-server-checker.liqo.io/finalizer"),
	}
	bound := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "milan", Finalizers: []string{"longshore.dev/virtual-kubelet-access", "example.com/of-the-user"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}
	require.NoError(t, r.admin.Create(t.Context(), bound))
	gone = append(gone, r.createCredentials(t, "liqo-tenant-milan")...)
	printed, err := r.uninstall(t)
	require.NoError(t, err)
	assert.Contains(t, printed, "Secret liqo-tenant-milan/kubeconfig-controlplane-milan did not end")
	admin := r.client(t, rest.ImpersonationConfig{})
	for _, object := range gone {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
		assert.True(t, apierrors.IsNotFound(err), "%s: %v", object.GetName(), err)
	}
	tenant := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-milan"}}
	require.NoError(t, r.admin.Delete(t.Context(), tenant))
	planetest.Until(t, func(t planetest.T) bool {
		return apierrors.IsNotFound(r.admin.Get(t.Context(), client.ObjectKeyFromObject(tenant), &corev1.Namespace{}))
	}, hookSoon, hookTick, "the tenant namespace can be deleted")
	left := &rbacv1.RoleBinding{}
	require.NoError(t, r.admin.Get(t.Context(), client.ObjectKeyFromObject(bound), left))
	assert.Equal(t, []string{"example.com/of-the-user"}, left.Finalizers)
	for _, kind := range []client.Object{&batchv1.Job{}, &corev1.ServiceAccount{}} {
		planetest.Until(t, func(t planetest.T) bool {
			return apierrors.IsNotFound(r.admin.Get(t.Context(), client.ObjectKey{Namespace: "longshore", Name: hookName}, kind))
		}, hookSoon, hookTick, "the hook's objects are deleted")
	}
}

// createCredentials makes what a consumer has to ask a provider, as the manager and the replicator
// leave it: an Identity with its kubeconfig and its Renew, a kubeconfig of a peering by hand, and
// the rights on them.
func (r *release) createCredentials(t *testing.T, namespace string) []client.Object {
	t.Helper()
	meta := func(name string, finalizers ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers}
	}
	identity := &authv1beta1.Identity{ObjectMeta: meta("controlplane-milan"), Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Type: authv1beta1.ControlPlaneIdentityType}}
	admin := r.client(t, rest.ImpersonationConfig{})
	require.NoError(t, admin.Create(t.Context(), identity))
	owned := []metav1.OwnerReference{*metav1.NewControllerRef(identity, authv1beta1.GroupVersion.WithKind("Identity"))}
	labels := map[string]string{"liqo.io/identity-type": "ControlPlane", "liqo.io/remote-cluster-id": "milan"}
	kubeconfig := &corev1.Secret{ObjectMeta: meta("kubeconfig-controlplane-milan", "crdreplicator.liqo.io/operator")}
	byHand := &corev1.Secret{ObjectMeta: meta("by-hand", "crdreplicator.liqo.io/operator")}
	renew := &authv1beta1.Renew{ObjectMeta: meta("controlplane-milan", "crdreplicator.liqo.io/resource"), Spec: authv1beta1.RenewSpec{ConsumerClusterID: "rome", IdentityType: authv1beta1.ControlPlaneIdentityType}}
	kubeconfig.Labels, byHand.Labels, renew.Labels = labels, labels, map[string]string{"liqo.io/replication": "true", "liqo.io/remoteID": "milan"}
	kubeconfig.OwnerReferences, renew.OwnerReferences = owned, owned
	rights := &rbacv1.RoleBinding{
		ObjectMeta: meta("longshore-manager-tenant-namespace", "longshore.dev/tenant-namespace"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "longshore-manager-tenant-namespace"},
		Subjects: []rbacv1.Subject{
			{Kind: "ServiceAccount", Namespace: "longshore", Name: "longshore-manager"},
			{Kind: "ServiceAccount", Namespace: "longshore", Name: hookName},
		},
	}
	for _, object := range []client.Object{kubeconfig, byHand, renew, rights} {
		require.NoError(t, admin.Create(t.Context(), object))
	}
	return []client.Object{identity, kubeconfig, byHand, renew}
}
