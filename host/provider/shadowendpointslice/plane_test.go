package shadowendpointslice_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
)

const (
	soon = 2 * time.Minute
	tick = 25 * time.Millisecond
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func TestShadowEndpointSlicesOnARealAPIServer(t *testing.T) {
	cluster := planetest.ForTest(t, "milan")
	runtimeTypes, err := scheme.New()
	require.NoError(t, err)
	c, err := client.New(cluster.RESTConfig(), client.Options{Scheme: runtimeTypes})
	require.NoError(t, err)
	// The garbage collector learns of new kinds every half minute, or when it starts.
	require.NoError(t, cluster.Crash())
	require.NoError(t, cluster.Restart(t.Context()))
	create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}}, shadow("web"), shadow("taken"), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "taken", Namespace: "shop-rome"}, AddressType: discoveryv1.AddressTypeIPv4,
	})
	runManager(t, cluster)

	slice := await(t, c, "is created", func(*discoveryv1.EndpointSlice) bool { return true })
	assert.Equal(t, map[string]string{
		discoveryv1.LabelServiceName: "web", offloadingv1beta1.OriginLabel: "rome",
		discoveryv1.LabelManagedBy:       "endpointslice.reflection.liqo.io",
		offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowEndpointSlice,
	}, slice.Labels)
	assert.Equal(t, offloadingv1beta1.ShadowEndpointSliceGVK.Kind, metav1.GetControllerOf(slice).Kind)
	assert.Equal(t, ptr.To(true), slice.Endpoints[0].Conditions.Ready)

	// The network to the consumer goes down, and comes up again.
	fc := &liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}, Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: "rome"}}
	create(t, c, fc)
	setNetwork(t, c, fc, liqocorev1beta1.ConditionStatusError)
	await(t, c, "is not ready", isReady(false))
	setNetwork(t, c, fc, liqocorev1beta1.ConditionStatusEstablished)
	slice = await(t, c, "is ready again", isReady(true))

	// A label that the source loses is removed, a deleted EndpointSlice is created again.
	patch(t, c, `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)
	await(t, c, "has no Service", func(s *discoveryv1.EndpointSlice) bool { return s.Labels[discoveryv1.LabelServiceName] == "" })
	require.NoError(t, c.Delete(t.Context(), slice))
	slice = await(t, c, "is created again", func(s *discoveryv1.EndpointSlice) bool { return s.UID != slice.UID })
	version := slice.ResourceVersion

	// An unmanaged EndpointSlice is left alone.
	taken := &discoveryv1.EndpointSlice{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "taken"}, taken))
	assert.Empty(t, taken.OwnerReferences)
	assert.Empty(t, taken.Endpoints)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(slice), slice))
	assert.Equal(t, version, slice.ResourceVersion, "nothing is written twice")

	require.NoError(t, c.Delete(t.Context(), shadow("web")))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(slice), slice))
	}, soon, tick, "the garbage collector deletes the EndpointSlice")
}

// runManager runs the manager until the test ends.
func runManager(t *testing.T, cluster *testplane.Cluster) {
	t.Helper()
	chartrights.Install(t, cluster.RESTConfig())
	app, err := manager.New(manager.Options{ShadowPodWorkers: 1, ShadowEndpointSliceWorkers: 2, Options: process.Options{
		Config: chartrights.As(t, cluster.RESTConfig(), chartrights.Namespace, chartrights.Manager), ClusterID: "milan", Namespace: chartrights.Namespace, MetricsAddress: "0", HealthProbeAddress: "0",
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
}

func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		require.NoError(t, c.Create(t.Context(), object))
	}
}

func shadow(name string) *offloadingv1beta1.ShadowEndpointSlice {
	return &offloadingv1beta1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop-rome",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", offloadingv1beta1.OriginLabel: "rome",
				discoveryv1.LabelManagedBy: "endpointslice.reflection.liqo.io",
			},
			Annotations: map[string]string{provider.DirectConnectionsDataAnnotation: "{}"},
		},
		Spec: offloadingv1beta1.ShadowEndpointSliceSpec{Template: offloadingv1beta1.EndpointSliceTemplate{
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.5"}, NodeName: ptr.To("rome")}},
			Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}},
		}},
	}
}

func isReady(want bool) func(*discoveryv1.EndpointSlice) bool {
	return func(s *discoveryv1.EndpointSlice) bool {
		return ptr.Deref(s.Endpoints[0].Conditions.Ready, !want) == want
	}
}

func setNetwork(t *testing.T, c client.Client, fc *liqocorev1beta1.ForeignCluster, status liqocorev1beta1.ConditionStatusType) {
	t.Helper()
	before := fc.DeepCopy()
	fc.Status.Role = liqocorev1beta1.ConsumerRole
	fc.Status.Modules.Networking = liqocorev1beta1.Module{Enabled: true, Conditions: []liqocorev1beta1.Condition{{
		Type: liqocorev1beta1.NetworkConnectionStatusCondition, Status: status, LastTransitionTime: metav1.Now(),
	}}}
	require.NoError(t, c.Status().Patch(t.Context(), fc, client.MergeFrom(before)))
}

func patch(t *testing.T, c client.Client, body string) {
	t.Helper()
	require.NoError(t, c.Patch(t.Context(), shadow("web"), client.RawPatch("application/merge-patch+json", []byte(body))))
}

// await waits until the EndpointSlice "web" meets a condition.
func await(t *testing.T, c client.Client, what string, condition func(*discoveryv1.EndpointSlice) bool) *discoveryv1.EndpointSlice {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{}
	require.Eventually(t, func() bool {
		return c.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "web"}, slice) == nil && condition(slice)
	}, soon, tick, "the EndpointSlice %s", what)
	return slice
}
