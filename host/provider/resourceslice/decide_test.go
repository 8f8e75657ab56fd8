package resourceslice

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
)

func list(values map[corev1.ResourceName]string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for name, value := range values {
		l[name] = resource.MustParse(value)
	}
	return l
}

func resources(slice *authv1beta1.ResourceSlice) *authv1beta1.ResourceSliceCondition {
	for i := range slice.Status.Conditions {
		if slice.Status.Conditions[i].Type == authv1beta1.ResourceSliceConditionTypeResources {
			return &slice.Status.Conditions[i]
		}
	}
	return nil
}

// decideByDefault decides about a slice with the default policy.
func decideByDefault(t *testing.T, slice *authv1beta1.ResourceSlice, condition authv1beta1.TenantCondition, offer *Offer, storage []storagev1.StorageClass) {
	t.Helper()
	if !asksPolicies(slice, condition, offer, metav1.Now()) {
		return
	}
	r := &Reconciler{Offer: *offer, Policies: chains(t)}
	decided, err := r.evaluate(t.Context(), slice, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-rome"}})
	require.NoError(t, err)
	apply(slice, decided, offer, storage, metav1.Now())
}

func TestGrants(t *testing.T) {
	defaults := list(map[corev1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "20Gi"})
	accepted := authv1beta1.ResourceSliceCondition{
		Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionAccepted, Reason: reasonResourcesAccepted,
	}
	for name, tc := range map[string]struct {
		spec     authv1beta1.ResourceSliceSpec
		before   authv1beta1.ResourceSliceStatus
		tenant   authv1beta1.TenantCondition
		disabled bool

		reason  string
		granted corev1.ResourceList
	}{
		"nothing is asked for": {tenant: authv1beta1.TenantConditionActive, reason: reasonResourcesAccepted, granted: defaults},
		"all that is asked for, and defaults for the rest": {
			spec:   authv1beta1.ResourceSliceSpec{Resources: list(map[corev1.ResourceName]string{"cpu": "64", "nvidia.com/gpu": "2"})},
			reason: reasonResourcesAccepted,
			granted: list(map[corev1.ResourceName]string{
				"cpu": "64", "memory": "8Gi", "pods": "110", "ephemeral-storage": "20Gi", "nvidia.com/gpu": "2",
			}),
		},
		"a resource that is no longer asked for is no longer granted (Q1)": {
			spec:   authv1beta1.ResourceSliceSpec{Class: DefaultClass},
			before: authv1beta1.ResourceSliceStatus{Resources: list(map[corev1.ResourceName]string{"nvidia.com/gpu": "2"})},
			reason: reasonResourcesAccepted, granted: defaults,
		},
		"a negative amount": {
			spec:   authv1beta1.ResourceSliceSpec{Resources: list(map[corev1.ResourceName]string{"cpu": "-1"})},
			reason: reasonResourcesDenied,
		},
		"a class of another controller": {spec: authv1beta1.ResourceSliceSpec{Class: "gpu"}},
		"the default class is disabled": {disabled: true, reason: reasonClassDisabled},
		"a new slice of a cordoned tenant": {
			tenant: authv1beta1.TenantConditionCordoned, reason: reasonResourcesDenied,
		},
		"an accepted slice of a cordoned tenant keeps what it has": {
			tenant: authv1beta1.TenantConditionCordoned,
			before: authv1beta1.ResourceSliceStatus{Conditions: []authv1beta1.ResourceSliceCondition{accepted}, Resources: defaults},
			reason: reasonResourcesAccepted, granted: defaults,
		},
		"an accepted slice of a drained tenant": {
			tenant: authv1beta1.TenantConditionDrained,
			before: authv1beta1.ResourceSliceStatus{Conditions: []authv1beta1.ResourceSliceCondition{accepted}, Resources: defaults},
			reason: reasonResourcesDenied, granted: defaults,
		},
	} {
		t.Run(name, func(t *testing.T) {
			slice := &authv1beta1.ResourceSlice{Spec: tc.spec, Status: tc.before}
			decideByDefault(t, slice, tc.tenant, &Offer{Defaults: defaults, ClassDisabled: tc.disabled}, nil)
			if tc.reason == "" {
				assert.Nil(t, resources(slice))
				return
			}
			require.NotNil(t, resources(slice))
			assert.Equal(t, tc.reason, resources(slice).Reason)
			require.Len(t, slice.Status.Resources, len(tc.granted))
			for resourceName, want := range tc.granted {
				have := slice.Status.Resources[resourceName]
				assert.Zero(t, have.Cmp(want), "%s: %s", resourceName, have.String())
			}
		})
	}
}

func TestOffersOfTheCluster(t *testing.T) {
	slice := &authv1beta1.ResourceSlice{}
	offer := &Offer{Defaults: DefaultResources(), NodeLabels: map[string]string{"region": "eu"}, IngressClasses: []authv1beta1.IngressType{{IngressClassName: "nginx", Default: true}}}
	decideByDefault(t, slice, authv1beta1.TenantConditionActive, offer, []storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "slow"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}},
	})
	assert.Equal(t, []authv1beta1.StorageType{{StorageClassName: "fast", Default: true}, {StorageClassName: "slow"}}, slice.Status.StorageClasses)
	assert.Equal(t, offer.IngressClasses, slice.Status.IngressClasses)
	assert.Equal(t, offer.NodeLabels, slice.Status.NodeLabels)
}

func TestOfferedStorageClasses(t *testing.T) {
	classes := []storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "slow"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}},
	}
	for name, tc := range map[string]struct {
		offer Offer
		want  []authv1beta1.StorageType
	}{
		"the default class of the cluster": {Offer{}, []authv1beta1.StorageType{{StorageClassName: "fast", Default: true}, {StorageClassName: "slow"}}},
		"the configured default class":     {Offer{StorageClass: "slow"}, []authv1beta1.StorageType{{StorageClassName: "fast"}, {StorageClassName: "slow", Default: true}}},
		"without storage":                  {Offer{StorageDisabled: true}, nil},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, storageTypes(classes, &tc.offer)) })
	}
}

func TestTransitionTimes(t *testing.T) {
	status := &authv1beta1.ResourceSliceStatus{}
	first, later := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	set := func(reason string, now metav1.Time) {
		setCondition(status, authv1beta1.ResourceSliceConditionTypeResources, authv1beta1.ResourceSliceConditionAccepted, reason, "", now)
	}
	set(reasonResourcesAccepted, first)
	set(reasonResourcesAccepted, later)
	require.Len(t, status.Conditions, 1)
	assert.Equal(t, first, status.Conditions[0].LastTransitionTime, "nothing changed")
	set("Other", later)
	require.Len(t, status.Conditions, 1)
	assert.Equal(t, later, status.Conditions[0].LastTransitionTime, "the reason changed")
}
