package shadowendpointslice

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/internal/testkit"
)

var key = client.ObjectKey{Namespace: "shop-rome", Name: "web-x1"}

// environment is a provider that counts writes.
type environment struct {
	client.Client
	reconciler *Reconciler
	clock      *testclock.FakePassiveClock
	events     chan string
	writes     []string
	// refuses is what the API server answers to writes.
	refuses error
}

func newEnvironment(objects ...client.Object) *environment {
	e := &environment{clock: testclock.NewFakePassiveClock(time.Unix(1e9, 0))}
	count := func(verb string) error {
		e.writes = append(e.writes, verb)
		return e.refuses
	}
	c := fakeclient.Builder(objects...).WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := count("create"); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := count("patch"); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := count("delete"); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	recorder := events.NewFakeRecorder(100)
	e.Client, e.events = c, recorder.Events
	e.reconciler = &Reconciler{Client: c, APIReader: c, Events: recorder, Clock: e.clock}
	return e
}

// reconcile returns the EndpointSlice after a reconciliation, and the writes that it took.
func (e *environment) reconcile(t *testing.T) (slice *discoveryv1.EndpointSlice, writes []string, result ctrl.Result) {
	t.Helper()
	e.writes = nil
	result, err := e.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	require.NoError(t, err)
	slice = &discoveryv1.EndpointSlice{}
	if err := e.Get(t.Context(), key, slice); apierrors.IsNotFound(err) {
		return nil, e.writes, result
	}
	return slice, e.writes, result
}

// change updates the ShadowEndpointSlice.
func (e *environment) change(t *testing.T, change func(*offloadingv1beta1.ShadowEndpointSlice)) {
	t.Helper()
	shadow := &offloadingv1beta1.ShadowEndpointSlice{}
	require.NoError(t, e.Get(t.Context(), key, shadow))
	change(shadow)
	require.NoError(t, e.Update(t.Context(), shadow))
}

func TestEndpointSliceFollowsItsSource(t *testing.T) {
	e := newEnvironment(testkit.ShadowEndpointSlice(testkit.Endpoint()))
	slice, writes, _ := e.reconcile(t)
	require.NotNil(t, slice)
	assert.Equal(t, []string{"create"}, writes)
	_, writes, _ = e.reconcile(t)
	assert.Empty(t, writes, "nothing has changed")

	e.change(t, func(s *offloadingv1beta1.ShadowEndpointSlice) {
		s.Spec.Template.Endpoints = append(s.Spec.Template.Endpoints, testkit.Endpoint(ptr.To(false)))
		s.Labels["new"] = "x"
		delete(s.Annotations, "note")
	})
	slice, writes, _ = e.reconcile(t)
	assert.Equal(t, []string{"patch"}, writes)
	assert.Len(t, slice.Endpoints, 2)
	assert.Equal(t, "x", slice.Labels["new"])
	assert.Empty(t, slice.Annotations)

	e.change(t, func(s *offloadingv1beta1.ShadowEndpointSlice) {
		delete(s.Labels, discoveryv1.LabelServiceName)
		s.Spec.Template.Endpoints, s.Spec.Template.Ports = nil, nil
	})
	slice, _, _ = e.reconcile(t)
	assert.NotContains(t, slice.Labels, discoveryv1.LabelServiceName)
	assert.Empty(t, slice.Endpoints)
	assert.Empty(t, slice.Ports)
	_, writes, _ = e.reconcile(t)
	assert.Empty(t, writes, "nothing has changed")

	e.change(t, func(s *offloadingv1beta1.ShadowEndpointSlice) {
		s.Spec.Template.AddressType = discoveryv1.AddressTypeIPv6
	})
	slice, writes, _ = e.reconcile(t)
	assert.Nil(t, slice, "the address type is immutable")
	assert.Equal(t, []string{"delete"}, writes)
	slice, _, _ = e.reconcile(t)
	assert.Equal(t, discoveryv1.AddressTypeIPv6, slice.AddressType)
}

func TestChangesInTheProviderAreReverted(t *testing.T) {
	e := newEnvironment(testkit.ShadowEndpointSlice(testkit.Endpoint()))
	slice, _, _ := e.reconcile(t)
	slice.Endpoints[0].Addresses = []string{"10.9.9.9"}
	delete(slice.Labels, offloadingv1beta1.OriginLabel)
	slice.Labels["theirs"] = "x"
	require.NoError(t, e.Update(t.Context(), slice, client.FieldOwner("other")))
	slice, writes, _ := e.reconcile(t)
	assert.Equal(t, []string{"patch"}, writes)
	assert.Equal(t, []string{"10.0.0.5"}, slice.Endpoints[0].Addresses)
	assert.Equal(t, "rome", slice.Labels[offloadingv1beta1.OriginLabel])
	assert.Equal(t, "x", slice.Labels["theirs"], "labels of other managers stay")
	_, writes, _ = e.reconcile(t)
	assert.Empty(t, writes)
}

// Another writer in the provider is slowed down, not fought.
func TestAContestedEndpointSliceIsRevertedWithGrowingPauses(t *testing.T) {
	for name, fight := range map[string]func(*testing.T, *environment, *discoveryv1.EndpointSlice){
		"changes": func(t *testing.T, e *environment, slice *discoveryv1.EndpointSlice) {
			t.Helper()
			slice.Endpoints[0].Addresses = []string{"10.9.9.9"}
			require.NoError(t, e.Update(t.Context(), slice, client.FieldOwner("other")))
		},
		"deletions": func(t *testing.T, e *environment, slice *discoveryv1.EndpointSlice) {
			t.Helper()
			require.NoError(t, e.Delete(t.Context(), slice))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(testkit.ShadowEndpointSlice(testkit.Endpoint()))
			slice, _, _ := e.reconcile(t)
			reverts, begin := 0, e.clock.Now()
			for e.clock.Since(begin) < 30*time.Minute {
				if slice != nil && slice.Endpoints[0].Addresses[0] == "10.0.0.5" {
					e.writes = nil
					fight(t, e, slice)
				}
				var writes []string
				var result ctrl.Result
				slice, writes, result = e.reconcile(t)
				if len(writes) > 0 {
					reverts++
				} else {
					require.NotZero(t, result.RequeueAfter)
				}
				e.clock.SetTime(e.clock.Now().Add(time.Second))
			}
			assert.Greater(t, reverts, 5, "at once the first time")
			assert.Less(t, reverts, 20)
			require.NotEmpty(t, e.events)
			assert.Contains(t, <-e.events, "Warning EndpointSliceContested A controller or user in the provider keeps changing EndpointSlice \"web-x1\"")

			e.change(t, func(s *offloadingv1beta1.ShadowEndpointSlice) { s.Spec.Template.Endpoints[0].Addresses[0] = "10.0.0.6" })
			slice, _, _ = e.reconcile(t)
			require.NotNil(t, slice)
			assert.Equal(t, []string{"10.0.0.6"}, slice.Endpoints[0].Addresses, "a change of the consumer does not wait")
		})
	}
}

// The consumer learns why there is no EndpointSlice.
func TestARefusedEndpointSliceIsReported(t *testing.T) {
	invalid := apierrors.NewInvalid(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice").GroupKind(), key.Name, nil)
	for name, tc := range map[string]struct {
		answer error
		want   string
	}{
		"invalid":      {invalid, "Warning EndpointSliceRefused EndpointSlice not written: " + invalid.Error()},
		"by a webhook": {apierrors.NewForbidden(schema.GroupResource{Resource: "endpointslices"}, key.Name, errors.New("denied by policy x")), "denied by policy x"},
		"overload":     {apierrors.NewTooManyRequestsError("later"), ""},
		"a connection": {errors.New("connection refused"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(testkit.ShadowEndpointSlice(testkit.Endpoint()))
			e.refuses = tc.answer
			_, err := e.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			require.ErrorIs(t, err, tc.answer)
			e.refuses = nil
			e.reconcile(t)
			e.change(t, func(s *offloadingv1beta1.ShadowEndpointSlice) { s.Spec.Template.Endpoints = nil })
			e.refuses = tc.answer
			_, err = e.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			require.ErrorIs(t, err, tc.answer)
			if tc.want == "" {
				assert.Empty(t, e.events)
				return
			}
			for _, verb := range []string{"creation", "patch"} {
				assert.Contains(t, <-e.events, tc.want, verb)
			}
		})
	}
}

// An EndpointSlice that the ShadowEndpointSlice does not control is never changed.
func TestUnmanagedEndpointSlice(t *testing.T) {
	unmanaged := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace, Labels: map[string]string{offloadingv1beta1.ManagedByLabel: "shadowendpointslice"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.1.1"}}},
	}
	e := newEnvironment(testkit.ShadowEndpointSlice(testkit.Endpoint()), unmanaged)
	before := unmanaged.DeepCopy()
	slice, writes, result := e.reconcile(t)
	assert.Empty(t, writes)
	assert.Equal(t, before.Endpoints, slice.Endpoints)
	assert.Equal(t, unmanagedRetry, result.RequeueAfter)
	require.Len(t, e.events, 1)
	assert.Contains(t, <-e.events, ReasonConflict)
}

// The EndpointSlice of an earlier ShadowEndpointSlice of the name is about to be deleted. Its user has no
// conflict to resolve.
func TestEndpointSliceOfAnEarlierSource(t *testing.T) {
	e := newEnvironment(testkit.ShadowEndpointSlice(testkit.Endpoint()))
	slice, _, _ := e.reconcile(t)
	require.NoError(t, e.Delete(t.Context(), testkit.ShadowEndpointSlice(testkit.Endpoint())))
	recreated := testkit.ShadowEndpointSlice(testkit.Endpoint())
	recreated.UID, recreated.ResourceVersion = "second", ""
	require.NoError(t, e.Create(t.Context(), recreated))
	kept, writes, result := e.reconcile(t)
	assert.Equal(t, slice.UID, kept.UID)
	assert.Empty(t, writes)
	assert.NotZero(t, result.RequeueAfter)
	assert.Empty(t, e.events)
	require.NoError(t, e.Delete(t.Context(), kept))
	slice, _, _ = e.reconcile(t)
	assert.True(t, metav1.IsControlledBy(slice, recreated))
}

// The cache holds only EndpointSlices with the managed-by label.
func TestEndpointSliceOutsideOfTheCache(t *testing.T) {
	e := newEnvironment(testkit.ShadowEndpointSlice(testkit.Endpoint()))
	slice, _, _ := e.reconcile(t)
	delete(slice.Labels, offloadingv1beta1.ManagedByLabel)
	require.NoError(t, e.Update(t.Context(), slice))
	e.reconciler.Client = interceptor.NewClient(e.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*discoveryv1.EndpointSlice); ok {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "endpointslices"}, k.Name)
			}
			return c.Get(ctx, k, o, opts...)
		},
	})
	slice, writes, _ := e.reconcile(t)
	assert.Equal(t, []string{"create", "patch"}, writes)
	assert.Equal(t, "shadowendpointslice", slice.Labels[offloadingv1beta1.ManagedByLabel])
}

func TestNoEndpointSliceForADeletedSource(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"gone": nil,
		"being deleted": {func() client.Object {
			shadow := testkit.ShadowEndpointSlice(testkit.Endpoint())
			shadow.DeletionTimestamp, shadow.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/x"}
			return shadow
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			slice, writes, _ := newEnvironment(objects...).reconcile(t)
			assert.Nil(t, slice)
			assert.Empty(t, writes)
		})
	}
}

func TestReadinessFollowsTheForeignCluster(t *testing.T) {
	fc := cluster(true, liqocorev1beta1.ConditionStatusError, "")
	other := testkit.ShadowEndpointSlice(testkit.Endpoint())
	other.Name, other.Labels[offloadingv1beta1.OriginLabel] = "other", "oslo"
	e := newEnvironment(testkit.ShadowEndpointSlice(testkit.Endpoint()), other, fc)
	slice, _, _ := e.reconcile(t)
	assert.Equal(t, ptr.To(false), slice.Endpoints[0].Conditions.Ready)

	before := fc.DeepCopy()
	fc.Status = cluster(true, liqocorev1beta1.ConditionStatusEstablished, "").Status
	assert.True(t, reachabilityChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: fc}))
	assert.False(t, reachabilityChanged().Update(event.UpdateEvent{ObjectOld: fc, ObjectNew: fc.DeepCopy()}))
	require.NoError(t, e.Status().Update(t.Context(), fc))
	assert.Equal(t, []reconcile.Request{{NamespacedName: key}}, e.reconciler.slicesOf(t.Context(), fc))
	slice, writes, _ := e.reconcile(t)
	assert.Equal(t, ptr.To(true), slice.Endpoints[0].Conditions.Ready)
	assert.Equal(t, []string{"patch"}, writes)
}
