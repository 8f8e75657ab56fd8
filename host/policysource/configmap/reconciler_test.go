package configmap_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/policysource/configmap"
)

// rig is a Reconciler with a fake client.
type rig struct {
	t          *testing.T
	client     client.Client
	events     *events.FakeRecorder
	reconciler *configmap.Reconciler
	writes     int
	// createFails, when set, is the error of the next create.
	createFails error
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	r := &rig{t: t, events: events.NewFakeRecorder(10)}
	r.client = fakeclient.Builder(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if r.writes++; r.createFails != nil {
				return r.createFails
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			r.writes++
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			r.writes++
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	r.reconciler = &configmap.Reconciler{Client: r.client, Events: r.events, Namespace: "longshore"}
	return r
}

func (r *rig) pass() error {
	_, err := r.reconciler.Reconcile(r.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "longshore", Name: "mine"}})
	return err
}

func (r *rig) policy() *policyv1alpha1.OffloadingPolicy {
	r.t.Helper()
	policy := &policyv1alpha1.OffloadingPolicy{}
	err := r.client.Get(r.t.Context(), client.ObjectKey{Name: "mine"}, policy)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(r.t, err)
	return policy
}

// store changes the stored ConfigMap.
func (r *rig) store(change func(*corev1.ConfigMap)) {
	r.t.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(r.t, r.client.Get(r.t.Context(), client.ObjectKey{Namespace: "longshore", Name: "mine"}, cm))
	change(cm)
	require.NoError(r.t, r.client.Update(r.t.Context(), cm))
	r.writes = 0
}

// refused returns the note of the only event, and checks that the error is terminal.
func (r *rig) refused(err error) string {
	r.t.Helper()
	require.ErrorIs(r.t, err, reconcile.TerminalError(nil), "only a change of the ConfigMap helps")
	require.Len(r.t, r.events.Events, 1)
	return <-r.events.Events
}

func TestAPolicyFollowsItsConfigMap(t *testing.T) {
	r := newRig(t, source("order: 10\nsettings: {b: 1, a: [2]}"))
	require.NoError(t, r.pass())
	policy := r.policy()
	require.NotNil(t, policy)
	assert.Equal(t, "mine", policy.Spec.Module.ConfigMap.Name)
	assert.Equal(t, int32(10), *policy.Spec.Order)
	assert.Equal(t, policyv1alpha1.ManagedByConfigMap, policy.Labels[policyv1alpha1.ManagedByLabel])
	assert.Empty(t, policy.OwnerReferences)

	r.writes = 0
	require.NoError(t, r.pass())
	assert.Zero(t, r.writes, "no change, no write")

	r.store(func(cm *corev1.ConfigMap) { cm.Data["policy.yaml"] = "order: 20" })
	require.NoError(t, r.pass())
	assert.Equal(t, int32(20), *r.policy().Spec.Order)
	assert.Nil(t, r.policy().Spec.Settings, "a field that policy.yaml no longer has is removed")

	edited := r.policy()
	edited.Spec.Mode = policyv1alpha1.ModeDisabled
	require.NoError(t, r.client.Update(t.Context(), edited))
	require.NoError(t, r.pass())
	assert.Equal(t, policyv1alpha1.ModeEnforce, r.policy().Spec.Mode, "the ConfigMap wins")

	r.store(func(cm *corev1.ConfigMap) { cm.Data["policy.yaml"] = "ordr: 30" })
	assert.Contains(t, r.refused(r.pass()), `Warning InvalidPolicySpec policy.yaml: unknown field "ordr"; its author must correct it`)
	assert.Equal(t, int32(20), *r.policy().Spec.Order, "a bad version changes nothing")
	assert.Zero(t, r.writes)
	assert.Empty(t, r.events.Events)
}

func TestAPolicyIsDeletedWithItsConfigMap(t *testing.T) {
	for name, leave := range map[string]func(*rig){
		"the label is removed":        func(r *rig) { r.store(func(cm *corev1.ConfigMap) { cm.Labels = nil }) },
		"the label has another value": func(r *rig) { r.store(func(cm *corev1.ConfigMap) { cm.Labels[policyv1alpha1.PolicyLabel] = "false" }) },
		"the ConfigMap is deleted":    func(r *rig) { require.NoError(r.t, r.client.Delete(r.t.Context(), source(""))) },
		"it is deleted with a broken spec": func(r *rig) {
			r.store(func(cm *corev1.ConfigMap) { cm.Data["policy.yaml"] = "ordr: 1" })
			require.NoError(r.t, r.client.Delete(r.t.Context(), source("")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, source(""))
			require.NoError(t, r.pass())
			require.NotNil(t, r.policy())
			leave(r)
			require.NoError(t, r.pass())
			assert.Nil(t, r.policy())
			require.NoError(t, r.pass(), "it is not created again")
		})
	}
}

func TestAnUnmanagedPolicyIsNotChanged(t *testing.T) {
	unmanaged := &policyv1alpha1.OffloadingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "mine"},
		Spec:       policyv1alpha1.OffloadingPolicySpec{Module: policyv1alpha1.ModuleSource{BuiltIn: policyv1alpha1.BuiltInDefault}},
	}
	r := newRig(t, source(""), unmanaged)
	assert.Contains(t, r.refused(r.pass()), "Warning NameTaken OffloadingPolicy \"mine\" exists and is not managed by Longshore")
	assert.Equal(t, unmanaged.Spec, r.policy().Spec)
	r.store(func(cm *corev1.ConfigMap) { cm.Labels = nil })
	require.NoError(t, r.pass())
	assert.NotNil(t, r.policy(), "it is not deleted")
	r.store(func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{policyv1alpha1.PolicyLabel: "true"} })
	require.NoError(t, r.client.Delete(t.Context(), unmanaged))
	require.NoError(t, r.pass())
	assert.NotNil(t, r.policy().Spec.Module.ConfigMap, "after its deletion, the ConfigMap's policy is created")
}

func TestConfigMapsThatAreNotPolicies(t *testing.T) {
	unlabeled := source("")
	unlabeled.Labels = nil
	otherNamespace := source("")
	otherNamespace.Namespace = "default"
	for name, cm := range map[string]*corev1.ConfigMap{"without the label": unlabeled, "in another namespace": otherNamespace} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, cm)
			_, err := r.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cm)})
			require.NoError(t, err)
			assert.Nil(t, r.policy())
			assert.Zero(t, r.writes)
		})
	}
}

func TestAnswersOfTheAPIServer(t *testing.T) {
	r := newRig(t, source("mode: Sometimes"))
	kind := schema.GroupKind{Group: policyv1alpha1.GroupVersion.Group, Kind: "OffloadingPolicy"}
	invalid := apierrors.NewInvalid(kind, "mine", nil)
	invalid.ErrStatus.Message = "spec.mode: Unsupported value"
	r.createFails = invalid
	note := r.refused(r.pass())
	assert.Contains(t, note, "Warning PolicyRefused creating OffloadingPolicy \"mine\": spec.mode: Unsupported value")

	r.createFails = errors.New("the network is down")
	err := r.pass()
	require.ErrorIs(t, err, r.createFails)
	assert.NotErrorIs(t, err, reconcile.TerminalError(nil), "it is requeued")
	assert.Empty(t, r.events.Events)
}
