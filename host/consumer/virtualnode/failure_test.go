package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

func TestAFailedReconcileIsReportedInTheCondition(t *testing.T) {
	roles := rbacv1.Resource("clusterroles")
	const prefix = "the manager could not reconcile the VirtualNode and tries again: updating ClusterRole longshore-node-mynode: "
	for sentence, tc := range map[string]struct {
		// status of the condition before, or "".
		status offloadingv1beta1.VirtualNodeConditionStatusType
		err    error
		want   string
	}{
		"a forbidden update has a message, and the virtual kubelet runs": {
			status: offloadingv1beta1.RunningConditionStatusType,
			err:    apierrors.NewForbidden(roles, "longshore-node-mynode", errors.New("cannot patch")),
			want:   `Running: ` + prefix + `clusterroles.rbac.authorization.k8s.io "longshore-node-mynode" is forbidden: cannot patch`,
		},
		"without a condition the virtual kubelet is being created": {
			err: errors.New("no answer"), want: "Creating: " + prefix + "no answer",
		},
		"a conflict is not reported": {
			status: offloadingv1beta1.RunningConditionStatusType,
			err:    apierrors.NewConflict(roles, "longshore-node-mynode", errors.New("changed")), want: "Running: ",
		},
		"the end of the manager is not reported": {
			status: offloadingv1beta1.RunningConditionStatusType, err: context.Canceled, want: "Running: ",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			vn := virtualNode(nil)
			outdated := virtualkubelet.Rights(vn)[1].(*rbacv1.ClusterRole)
			outdated.Rules = nil
			if tc.status != "" {
				vn.Status.Conditions = []offloadingv1beta1.VirtualNodeCondition{{Type: offloadingv1beta1.VirtualKubeletConditionType, Status: tc.status}}
			}
			fails := tc.err
			c := fakeclient.Builder(vn, outdated).WithObjects(peered(kubeconfig)...).
				WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
					if _, ok := obj.(*rbacv1.ClusterRole); ok && fails != nil {
						return fails
					}
					return c.Patch(ctx, obj, patch, options...)
				}}).Build()
			r := &Reconciler{Client: c, APIReader: c, Events: events.NewFakeRecorder(20), Clock: testclock.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
			reconcileOnce := func() (map[string]string, error) {
				current := &offloadingv1beta1.VirtualNode{}
				require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(vn), current))
				_, err := r.Reconcile(t.Context(), current)
				stored := &offloadingv1beta1.VirtualNode{}
				require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(vn), stored))
				return conditions(stored), err
			}
			reported, err := reconcileOnce()
			require.ErrorIs(t, err, tc.err)
			assert.Equal(t, tc.want, reported["VirtualKubelet"])

			fails = nil
			reported, err = reconcileOnce()
			require.NoError(t, err)
			assert.NotContains(t, reported["VirtualKubelet"], prefix, "a successful reconcile removes the message")
		})
	}
}

func TestNothingIsCreatedBeforeTheFinalizer(t *testing.T) {
	options := &offloadingv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Name: "options", Namespace: "longshore"}}
	options.Spec.ContainerImage = "app:2"
	vn := virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		withContainer(vn)
		vn.Finalizers = nil
		vn.Annotations = map[string]string{offloadingv1beta1.ImageAnnotation: "i"}
		vn.Spec.VkOptionsTemplateRef = &corev1.ObjectReference{Name: "options", Namespace: "longshore"}
	})
	fails := errors.New("no answer")
	var writes []string
	c := fakeclient.Builder(vn, options).WithObjects(peered(kubeconfig)...).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
				writes = append(writes, fmt.Sprintf("patch %T", obj))
				if fails != nil {
					return fails
				}
				return c.Patch(ctx, obj, patch, options...)
			},
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.CreateOption) error {
				writes = append(writes, fmt.Sprintf("create %T", obj))
				return c.Create(ctx, obj, options...)
			},
		}).Build()
	r := &Reconciler{Client: c, APIReader: c, Events: events.NewFakeRecorder(20), Clock: testclock.NewFakePassiveClock(time.Unix(0, 0))}
	current := &offloadingv1beta1.VirtualNode{}
	reconcileOnce := func() error {
		writes = nil
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(vn), current))
		_, err := r.Reconcile(t.Context(), current)
		return err
	}
	require.ErrorIs(t, reconcileOnce(), fails)
	assert.Equal(t, []string{"patch *v1beta1.VirtualNode"}, writes)

	fails = nil
	require.NoError(t, reconcileOnce())
	assert.Equal(t, []string{"patch *v1beta1.VirtualNode"}, writes, "the finalizer and the image are one write")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(vn), current))
	assert.Contains(t, current.Finalizers, offloadingv1beta1.VirtualNodeFinalizer)
	assert.Equal(t, "app:2", current.Spec.Template.Spec.Template.Spec.Containers[0].Image)

	require.NoError(t, reconcileOnce())
	assert.Contains(t, writes, "create *v1.Deployment")
	assert.NotContains(t, writes, "patch *v1beta1.VirtualNode")
}
