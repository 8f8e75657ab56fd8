package process_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/app/process"
)

// A container that was killed leaves its lease behind, here for an hour. The container that is started
// again in its pod works at once: the lease has had no other holder meanwhile.
func TestAContainerTakesTheLeaseOfItsPod(t *testing.T) {
	t.Parallel()
	plane := planetest.ForTest(t, "rome")
	identity := process.PodIdentity("manager-0", "uid-1")
	clientset, err := kubernetes.NewForConfig(plane.RESTConfig())
	require.NoError(t, err)
	leases := clientset.CoordinationV1().Leases(metav1.NamespaceDefault)
	_, err = leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(identity), LeaseDurationSeconds: ptr.To[int32](3600),
		AcquireTime: ptr.To(metav1.NowMicro()), RenewTime: ptr.To(metav1.NowMicro()), LeaseTransitions: ptr.To[int32](3),
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	errWorks := errors.New("the process is at work")
	app, err := process.New(&process.Options{
		Config: plane.RESTConfig(), ClusterID: "rome", Namespace: metav1.NamespaceDefault, MetricsAddress: "0", HealthProbeAddress: "0", Identity: identity,
	}, process.Definition{Name: "the manager", Lease: "manager", Add: func(mgr ctrl.Manager) error {
		return mgr.Add(manager.RunnableFunc(func(context.Context) error { return errWorks }))
	}})
	require.NoError(t, err)
	require.ErrorIs(t, app.Run(t.Context()), errWorks)
	lease, err := leases.Get(t.Context(), "manager", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, int32(3), *lease.Spec.LeaseTransitions)
}
