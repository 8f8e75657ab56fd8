package uninstall_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/app/uninstall"
)

func namespaceOffloading(finalizers ...string) *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "offloading", Finalizers: finalizers}}
}

// run runs all stages on a cluster with an object, in which no component works, and returns what
// is left of the object and what was printed.
func run(t *testing.T, options uninstall.Options, object client.Object, funcs interceptor.Funcs) (finalizers []string, isGone bool, out string, err error) {
	t.Helper()
	c := fakeclient.Builder(object).WithInterceptorFuncs(funcs).Build()
	var printed bytes.Buffer
	options.Client, options.Out, options.PollInterval = c, &printed, time.Millisecond
	err = uninstall.Run(t.Context(), options)
	got := namespaceOffloading()
	getErr := c.Get(context.WithoutCancel(t.Context()), client.ObjectKeyFromObject(object), got)
	return got.Finalizers, apierrors.IsNotFound(getErr), printed.String(), err
}

func TestStages(t *testing.T) {
	long, short := uninstall.Options{StageTimeout: time.Minute, Timeout: time.Minute}, uninstall.Options{StageTimeout: 20 * time.Millisecond, Timeout: time.Minute}
	const ours, other = offloadingv1beta1.NamespaceOffloadingFinalizer, "example.com/of-the-user"
	for name, tc := range map[string]struct {
		options    uninstall.Options
		finalizers []string
		wantLeft   []string
		want       string
	}{
		"what has no finalizer is deleted":               {options: long},
		"a finalizer whose component does not run goes":  {options: short, finalizers: []string{ours}, want: "lost its finalizers"},
		"it goes at once when the time of all is over":   {options: uninstall.Options{StageTimeout: time.Hour, Timeout: time.Millisecond}, finalizers: []string{ours}, want: "lost its finalizers"},
		"a finalizer of another stays, and is printed":   {options: short, finalizers: []string{other}, wantLeft: []string{other}, want: "remains, finalizers: [\"example.com/of-the-user\"]"},
		"beside ours, too; then the object waits for it": {options: short, finalizers: []string{ours, other}, wantLeft: []string{other}, want: "lost its finalizers"},
	} {
		t.Run(name, func(t *testing.T) {
			left, isGone, out, err := run(t, tc.options, namespaceOffloading(tc.finalizers...), interceptor.Funcs{})
			require.NoError(t, err)
			assert.Equal(t, tc.wantLeft, left)
			assert.Equal(t, tc.wantLeft == nil, isGone)
			assert.Contains(t, out, tc.want)
		})
	}
}

func TestTransientErrorsAreTriedAgain(t *testing.T) {
	failures := 3
	_, isGone, _, err := run(t, uninstall.Options{StageTimeout: time.Minute, Timeout: time.Minute}, namespaceOffloading(), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if failures--; failures >= 0 {
				return apierrors.NewServiceUnavailable("the API server is busy")
			}
			return c.Delete(ctx, object, options...)
		},
	})
	require.NoError(t, err)
	assert.True(t, isGone)
}

func TestMissingRightsAreReported(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "namespaceoffloadings"}, "offloading", errors.New("no right"))
	_, _, _, err := run(t, uninstall.Options{StageTimeout: 20 * time.Millisecond, Timeout: time.Minute}, namespaceOffloading(), interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return denied },
	})
	require.ErrorIs(t, err, denied)
}

// A manager that runs creates the virtual node of a slice again, as long as there is the slice.
func TestVirtualNodesAreNotCreatedAgain(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{"liqo.io/replication": "true"}}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: meta}
	isRun := false
	c := fakeclient.Builder(slice, &offloadingv1beta1.VirtualNode{ObjectMeta: meta}).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			err := c.Delete(ctx, object, options...)
			if object.GetObjectKind().GroupVersionKind().Kind != "VirtualNode" || err != nil {
				return err
			}
			isRun = true
			if err := c.Get(ctx, client.ObjectKeyFromObject(slice), &authv1beta1.ResourceSlice{}); err != nil {
				return client.IgnoreNotFound(err)
			}
			return c.Create(ctx, &offloadingv1beta1.VirtualNode{ObjectMeta: meta})
		},
	}).Build()
	var printed bytes.Buffer
	require.NoError(t, uninstall.Run(t.Context(), uninstall.Options{
		Client: c, Out: &printed, PollInterval: time.Millisecond, StageTimeout: 20 * time.Millisecond, Timeout: time.Minute,
	}))
	assert.True(t, isRun)
	assert.NotContains(t, printed.String(), "did not end")
}

// As a consumer that has a peering leaves it when its manager stops. The Secrets of another namespace
// cannot be read.
func TestCredentials(t *testing.T) {
	const tenant, unreadable = "liqo-tenant-milan", "liqo-tenant-oslo"
	labels := map[string]string{"liqo.io/identity-type": "ControlPlane", "liqo.io/replication": "true"}
	meta := func(namespace, name string, finalizers ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Finalizers: finalizers}
	}
	kubeconfig := &corev1.Secret{ObjectMeta: meta(tenant, "kubeconfig-controlplane-milan", "crdreplicator.liqo.io/operator")}
	unlabeled := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "was-one", Finalizers: []string{"crdreplicator.liqo.io/operator"}}}
	renew := &authv1beta1.Renew{ObjectMeta: meta(tenant, "controlplane-milan", "crdreplicator.liqo.io/resource")}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "nonce"}}
	elsewhere := &corev1.Secret{ObjectMeta: meta("shop", "of-the-user")}
	c := fakeclient.Builder(
		kubeconfig, unlabeled, renew, key, elsewhere,
		&rbacv1.RoleBinding{ObjectMeta: meta(tenant, "longshore-manager-tenant-namespace", "longshore.dev/tenant-namespace")},
		&rbacv1.RoleBinding{ObjectMeta: meta(unreadable, "longshore-manager-tenant-namespace", "longshore.dev/tenant-namespace")},
	).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			namespace := (&client.ListOptions{}).ApplyOptions(options).Namespace
			if list.GetObjectKind().GroupVersionKind().Kind == "SecretList" && namespace != tenant {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no right in namespace "+namespace))
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	var printed bytes.Buffer
	require.NoError(t, uninstall.Run(t.Context(), uninstall.Options{
		Client: c, Out: &printed, PollInterval: time.Millisecond, StageTimeout: 20 * time.Millisecond, Timeout: time.Minute,
	}))
	for _, gone := range []client.Object{kubeconfig, unlabeled, renew} {
		assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(gone), gone)), gone.GetName())
	}
	for _, kept := range []client.Object{key, elsewhere} {
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(kept), kept))
	}
	bindings := &rbacv1.RoleBindingList{}
	require.NoError(t, c.List(t.Context(), bindings))
	for _, binding := range bindings.Items {
		assert.Empty(t, binding.Finalizers)
	}
	assert.Contains(t, printed.String(), "Secret liqo-tenant-milan/kubeconfig-controlplane-milan did not end within")
	assert.Contains(t, printed.String(), "The Secrets of namespace liqo-tenant-oslo cannot be read")
}

// Requests are withdrawn whatever labels they have: before the API server refused it, peers could change them.
func TestRequestsAreFoundWithoutLabels(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"none": nil, "those of a copy": {"liqo.io/replicated": "true"}, "those of neither": {"liqo.io/replicated": "false", "liqo.io/replication": "false"},
	} {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan", Labels: labels}
			meta.Finalizers = []string{"crdreplicator.liqo.io/resource"}
			slice, renew := &authv1beta1.ResourceSlice{ObjectMeta: *meta.DeepCopy()}, &authv1beta1.Renew{ObjectMeta: *meta.DeepCopy()}
			meta.Finalizers = append(meta.Finalizers, offloadingv1beta1.NamespaceMapFinalizer)
			nm := &offloadingv1beta1.NamespaceMap{ObjectMeta: meta}
			c := fakeclient.Builder(slice, renew, nm).Build()
			var printed bytes.Buffer
			require.NoError(t, uninstall.Run(t.Context(), uninstall.Options{
				Client: c, Out: &printed, PollInterval: time.Millisecond, StageTimeout: 20 * time.Millisecond, Timeout: time.Minute,
			}))
			for _, gone := range []client.Object{slice, renew, nm} {
				assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(gone), gone)), "%T", gone)
			}
		})
	}
}
