package virtualnode

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
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
			s, err := scheme.New()
			require.NoError(t, err)
			vn := virtualNode(nil)
			outdated := virtualkubelet.Rights(vn)[1].(*rbacv1.ClusterRole)
			outdated.Rules = nil
			if tc.status != "" {
				vn.Status.Conditions = []offloadingv1beta1.VirtualNodeCondition{{Type: offloadingv1beta1.VirtualKubeletConditionType, Status: tc.status}}
			}
			fails := tc.err
			c := fake.NewClientBuilder().WithScheme(s).WithObjects(vn).WithStatusSubresource(vn).WithObjects(peered(kubeconfig)...).WithObjects(outdated).
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
