package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/provider/quota"
)

func remoteNamespace(name, consumer string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"liqo.io/remote-cluster-id": consumer},
		Annotations: map[string]string{offloadingv1beta1.ManagedByNamespaceMapAnnotation: "liqo-tenant-" + consumer + "/milan"},
	}}
}

func claimIn(namespace, name, storage, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(class),
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse(storage)}},
		},
	}
}

func slice(accepted authv1beta1.ResourceSliceConditionStatus) *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "gpu", Labels: map[string]string{"liqo.io/replicated": "true"}},
		Status: authv1beta1.ResourceSliceStatus{
			StorageClasses: []authv1beta1.StorageType{{StorageClassName: "fast"}},
			Conditions:     []authv1beta1.ResourceSliceCondition{{Type: authv1beta1.ResourceSliceConditionTypeResources, Status: accepted}},
		},
	}
}

// authenticated returns a slice whose resources are accepted, and the decision about its credentials.
func authenticated(status authv1beta1.ResourceSliceConditionStatus) *authv1beta1.ResourceSlice {
	s := slice(authv1beta1.ResourceSliceConditionAccepted)
	s.Status.Conditions = append(s.Status.Conditions, authv1beta1.ResourceSliceCondition{Type: authv1beta1.ResourceSliceConditionTypeAuthentication, Status: status})
	return s
}

func quotaOfOslo(isCordoned bool) *offloadingv1beta1.Quota {
	return &offloadingv1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-oslo", Name: "oslo"},
		Spec:       offloadingv1beta1.QuotaSpec{Resources: corev1.ResourceList{"cpu": resource.MustParse("4")}, Cordoned: ptr.To(isCordoned)},
	}
}

func TestClaimsAreAdmittedByWhatWasGranted(t *testing.T) {
	granted := &offloadingv1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "gpu"},
		Spec:       offloadingv1beta1.QuotaSpec{Resources: corev1.ResourceList{"requests.storage": resource.MustParse("10Gi")}},
	}
	tenantOfOslo := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-oslo", Name: "oslo"}}
	deleted := slice(authv1beta1.ResourceSliceConditionAccepted)
	deleted.DeletionTimestamp, deleted.Finalizers = ptr.To(metav1.Unix(1000, 0)), []string{"example.com/kept"}
	for name, tc := range map[string]struct {
		objects       []client.Object
		before, claim *corev1.PersistentVolumeClaim
		unenforced    bool
		denied        string
	}{
		"it fits":                           {claim: claimIn("shop-rome", "a", "10Gi", "fast")},
		"too large":                         {claim: claimIn("shop-rome", "a", "11Gi", "fast"), denied: "exceeded requests.storage"},
		"the sum over namespaces":           {objects: []client.Object{claimIn("bank-rome", "b", "5Gi", "fast")}, claim: claimIn("shop-rome", "a", "6Gi", "fast"), denied: "used 5Gi"},
		"claims of others do not count":     {objects: []client.Object{claimIn("shop-oslo", "b", "5Gi", "fast"), claimIn("default", "b", "5Gi", "fast")}, claim: claimIn("shop-rome", "a", "6Gi", "fast")},
		"an expansion":                      {objects: []client.Object{claimIn("shop-rome", "a", "5Gi", "fast")}, before: claimIn("shop-rome", "a", "5Gi", "fast"), claim: claimIn("shop-rome", "a", "11Gi", "fast"), denied: "requested 11Gi"},
		"quotas are not enforced":           {unenforced: true, claim: claimIn("shop-rome", "a", "11Gi", "fast")},
		"no quota":                          {claim: claimIn("shop-oslo", "a", "11Gi", "fast")},
		"a namespace of the provider":       {claim: claimIn("default", "a", "11Gi", "gold")},
		"a class that was not granted":      {claim: claimIn("shop-rome", "a", "1Gi", "gold"), denied: `storage class "gold"`},
		"a class of a slice that is denied": {objects: []client.Object{slice(authv1beta1.ResourceSliceConditionDenied)}, claim: claimIn("shop-rome", "a", "1Gi", "fast"), denied: `storage class "fast"`},
		"an old claim of such a class grows": {
			objects: []client.Object{slice(authv1beta1.ResourceSliceConditionDenied)}, before: claimIn("shop-rome", "a", "1Gi", "fast"), claim: claimIn("shop-rome", "a", "2Gi", "fast"),
		},
		"a consumer that was peered by hand":              {claim: claimIn("shop-oslo", "a", "1Gi", "gold")},
		"a class of a slice that is being deleted":        {objects: []client.Object{deleted}, claim: claimIn("shop-rome", "a", "1Gi", "fast"), denied: `storage class "fast"`},
		"a class of a slice with credentials":             {objects: []client.Object{authenticated(authv1beta1.ResourceSliceConditionAccepted)}, claim: claimIn("shop-rome", "a", "1Gi", "fast")},
		"a class of a slice that was refused credentials": {objects: []client.Object{authenticated(authv1beta1.ResourceSliceConditionDenied)}, claim: claimIn("shop-rome", "a", "1Gi", "fast"), denied: `storage class "fast"`},
		// The consumer may delete its slices, and keeps their certificates.
		"a class without a slice":                {objects: []client.Object{tenantOfOslo}, claim: claimIn("shop-oslo", "a", "1Gi", "gold"), denied: "no accepted ResourceSlice"},
		"storage without a slice":                {objects: []client.Object{tenantOfOslo}, claim: claimIn("shop-oslo", "a", "1Gi", ""), denied: "the consumer must create its ResourceSlice"},
		"an expansion without a slice":           {objects: []client.Object{tenantOfOslo}, before: claimIn("shop-oslo", "a", "1Gi", "gold"), claim: claimIn("shop-oslo", "a", "2Gi", "gold"), denied: "the consumer must create its ResourceSlice"},
		"an old claim without a slice is bound":  {objects: []client.Object{tenantOfOslo}, before: claimIn("shop-oslo", "a", "2Gi", "gold"), claim: claimIn("shop-oslo", "a", "2Gi", "gold")},
		"an old claim without a slice shrinks":   {objects: []client.Object{tenantOfOslo}, before: claimIn("shop-oslo", "a", "2Gi", "gold"), claim: claimIn("shop-oslo", "a", "1Gi", "gold")},
		"by hand, with a Quota without storage":  {objects: []client.Object{quotaOfOslo(false)}, claim: claimIn("shop-oslo", "a", "1Gi", "gold")},
		"by hand, with a Quota that is cordoned": {objects: []client.Object{quotaOfOslo(true)}, claim: claimIn("shop-oslo", "a", "1Gi", "gold"), denied: "is cordoned"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]client.Object{
				remoteNamespace("shop-rome", "rome"), remoteNamespace("bank-rome", "rome"), remoteNamespace("shop-oslo", "oslo"),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, granted.DeepCopy(),
			}, tc.objects...)
			if len(tc.objects) == 0 || tc.objects[0].GetName() != "gpu" {
				objects = append(objects, slice(authv1beta1.ResourceSliceConditionAccepted))
			}
			c := fakeclient.Builder(objects...).Build()
			v := &Validator{Decoder: admission.NewDecoder(c.Scheme()), Reader: c, APIReader: c}
			if !tc.unenforced {
				v.Quotas = &quota.Enforcer{Client: c, APIReader: c, Clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
			}
			encoded, err := json.Marshal(tc.claim)
			require.NoError(t, err)
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Namespace: tc.claim.Namespace, Name: tc.claim.Name, Object: runtime.RawExtension{Raw: encoded},
			}}
			if tc.before != nil {
				before, err := json.Marshal(tc.before)
				require.NoError(t, err)
				request.Operation, request.OldObject = admissionv1.Update, runtime.RawExtension{Raw: before}
			}
			response := v.Handle(t.Context(), request)
			if tc.denied == "" {
				assert.True(t, response.Allowed, "%v", response.Result)
				return
			}
			require.False(t, response.Allowed)
			assert.Contains(t, response.Result.Message, tc.denied)
		})
	}
}

// A consumer may have a thousand namespaces.
func TestADecisionAsksTheAPIServerAsOftenForManyNamespacesAsForOne(t *testing.T) {
	asked := map[int]int{}
	for _, number := range []int{1, 150} {
		grant := &offloadingv1beta1.Quota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "gpu"},
			Spec:       offloadingv1beta1.QuotaSpec{Resources: corev1.ResourceList{"requests.storage": resource.MustParse("200Gi")}},
		}
		objects := []client.Object{slice(authv1beta1.ResourceSliceConditionAccepted), grant}
		for i := range number {
			name := fmt.Sprintf("n%d-rome", i)
			objects = append(objects, remoteNamespace(name, "rome"), claimIn(name, "data", "1Gi", "fast"))
		}
		requests := 0
		cached := fakeclient.Builder(objects...).Build()
		live := interceptor.NewClient(cached, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				requests++
				return c.List(ctx, list, options...)
			},
		})
		v := &Validator{
			Decoder: admission.NewDecoder(cached.Scheme()), Reader: cached, APIReader: live,
			Quotas: &quota.Enforcer{Client: cached, APIReader: live, Clock: clocktesting.NewFakeClock(time.Unix(10000, 0))},
		}
		raw, err := json.Marshal(claimIn("n0-rome", "more", "50Gi", "fast"))
		require.NoError(t, err)
		response := v.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Namespace: "n0-rome", Name: "more", Object: runtime.RawExtension{Raw: raw}, DryRun: ptr.To(true),
		}})
		require.True(t, response.Allowed, "%v", response.Result)
		asked[number] = requests
	}
	assert.Equal(t, asked[1], asked[150])
	assert.Positive(t, asked[1])
}
