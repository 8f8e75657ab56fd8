package resourceslice

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/native"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// chains returns the default policy, and after it the given functions.
func chains(t *testing.T, functions ...policytest.Func) *chain.Chains {
	t.Helper()
	order := 0
	bindings := []chain.Binding{{
		Name: "default-resourceslice", Point: contract.ResourceSliceAdmission, Order: &order, BuiltIn: true,
		Policy: policytest.Native("defaults", defaults.Manifest(), native.Functions()),
	}}
	for i, function := range functions {
		order := i + 1
		bindings = append(bindings, chain.Binding{
			Name: "cap", Point: contract.ResourceSliceAdmission, Order: &order,
			Policy: policytest.Native("cap", contract.Manifest{Points: []contract.PointManifest{{
				Point: contract.ResourceSliceAdmission, Reads: []string{"/object", "/tenant", "/defaults"},
				Writes: []contract.WriteRule{{Path: "/status/resources", Verbs: contract.Verbs()}},
			}}}, map[contract.Point]func(contract.Request) (contract.Response, error){contract.ResourceSliceAdmission: function}),
		})
	}
	all := chain.New(chain.Options{MemoEntries: -1})
	require.NoError(t, all.Swap(bindings))
	return all
}

func answering(operations ...contract.Operation) policytest.Func {
	return func(contract.Request) (contract.Response, error) {
		return contract.Response{Operations: operations}, nil
	}
}

func denies(contract.Request) (contract.Response, error) {
	return contract.Response{Deny: &contract.Denial{Reason: "NoContract", Message: "ask for a contract first"}}, nil
}

func fails(contract.Request) (contract.Response, error) {
	return contract.Response{}, errors.New("detail of the provider")
}

// rig decides about a slice of rome that has credentials.
type rig struct {
	*Reconciler
	client client.Client
	slice  *authv1beta1.ResourceSlice
	events *events.FakeRecorder
}

func newRig(t *testing.T, functions ...policytest.Func) *rig {
	t.Helper()
	c := fakeclient.Builder().Build()
	recorder := events.NewFakeRecorder(10)
	return &rig{client: c, events: recorder, Reconciler: &Reconciler{
		Client: c, Events: recorder, Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
		Offer: Offer{Defaults: list(map[corev1.ResourceName]string{"cpu": "4", "pods": "110"})}, Policies: chains(t, functions...),
	}, slice: &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "liqo-tenant-rome", UID: "slice-1"},
		Spec:       authv1beta1.ResourceSliceSpec{ConsumerClusterID: ptr.To(liqocorev1beta1.ClusterID("rome")), Resources: list(map[corev1.ResourceName]string{"cpu": "8"})},
		Status:     authv1beta1.ResourceSliceStatus{AuthParams: &authv1beta1.AuthParams{}},
	}}
}

// pass is what a reconciliation does about resources. It returns the event that it records.
func (r *rig) pass(t *testing.T) (retryAfter time.Duration, event string) {
	t.Helper()
	before := r.slice.DeepCopy()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-rome", Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "rome"}}}
	retryAfter, err := r.decide(t.Context(), r.slice, &authv1beta1.Tenant{}, namespace, nil)
	require.NoError(t, err)
	require.NoError(t, r.keepQuota(t.Context(), r.slice, authv1beta1.TenantConditionActive, nil))
	r.recordDecision(r.slice, before)
	select {
	case event = <-r.events.Events:
	default:
	}
	return retryAfter, event
}

func (r *rig) quota(t *testing.T) *offloadingv1beta1.Quota {
	t.Helper()
	quota := &offloadingv1beta1.Quota{}
	require.NoError(t, r.client.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: romeUser}, quota))
	return quota
}

func (r *rig) cpu() string { return r.slice.Status.Resources.Cpu().String() }

func TestPoliciesGrantLessAndMore(t *testing.T) {
	for name, tc := range map[string]struct {
		operation contract.Operation
		cpu       string
		resources int
	}{
		"half":               {contract.Merge("/status/resources", contract.StringMap{"cpu": "4"}), "4", 2},
		"more":               {contract.Merge("/status/resources", contract.StringMap{"cpu": "16"}), "16", 2},
		"a further resource": {contract.Merge("/status/resources", contract.StringMap{"nvidia.com/gpu": "1"}), "8", 3},
		"no cpu":             {contract.Remove("/status/resources", "cpu"), "0", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, answering(tc.operation))
			for range 2 { // the second pass changes nothing
				retryAfter, event := r.pass(t)
				assert.Zero(t, retryAfter)
				assert.Empty(t, event)
				assert.Equal(t, tc.cpu, r.cpu())
				assert.Len(t, r.slice.Status.Resources, tc.resources)
				assert.Equal(t, reasonResourcesAccepted, resources(r.slice).Reason)
				assert.Zero(t, r.quota(t).Spec.Resources.Cpu().Cmp(*r.slice.Status.Resources.Cpu()), "the Quota limits what is granted")
			}
		})
	}
}

func TestADenialStandsInTheConditionAndCordonsTheQuota(t *testing.T) {
	const message = `Policy "cap" of the provider denied the resources: NoContract: ask for a contract first`
	r := newRig(t, denies)
	_, event := r.pass(t)
	assert.Contains(t, event, message)
	assert.Equal(t, authv1beta1.ResourceSliceConditionDenied, resources(r.slice).Status)
	assert.Equal(t, message, resources(r.slice).Message)
	assert.Empty(t, r.slice.Status.Resources)
	_, event = r.pass(t)
	assert.Empty(t, event, "one event per cause")

	r.Policies = chains(t)
	r.pass(t)
	assert.Equal(t, "8", r.cpu())
	assert.Nil(t, r.quota(t).Spec.Cordoned)
	r.Policies = chains(t, denies)
	r.pass(t)
	assert.True(t, ptr.Deref(r.quota(t).Spec.Cordoned, false), "no new pods")
	r.Policies = chains(t)
	_, event = r.pass(t)
	assert.Empty(t, event)
	assert.Equal(t, reasonResourcesAccepted, resources(r.slice).Reason)
	assert.Nil(t, r.quota(t).Spec.Cordoned)
}

func TestWhileAPolicyFailsAnAcceptedSliceKeepsWhatItHas(t *testing.T) {
	for name, failing := range map[string]policytest.Func{
		"an error":          fails,
		"an invalid amount": answering(contract.Merge("/status/resources", contract.StringMap{"cpu": "much"})),
		"a negative amount": answering(contract.Merge("/status/resources", contract.StringMap{"cpu": "-1"})),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, failing)
			retryAfter, event := r.pass(t)
			assert.Equal(t, policyRetry, retryAfter)
			assert.Contains(t, event, `The request is not decided: policy "cap" of the provider gave no valid answer`)
			assert.NotContains(t, event, "detail of the provider")
			assert.Equal(t, authv1beta1.ResourceSliceConditionDenied, resources(r.slice).Status)
			assert.Empty(t, r.slice.Status.Resources)

			r.Policies = chains(t)
			r.pass(t)
			r.Policies = chains(t, failing)
			r.slice.Spec.Resources = list(map[corev1.ResourceName]string{"cpu": "32"})
			retryAfter, event = r.pass(t)
			assert.Equal(t, policyRetry, retryAfter)
			assert.Contains(t, event, "The resources of an earlier decision stay granted")
			assert.Equal(t, authv1beta1.ResourceSliceConditionAccepted, resources(r.slice).Status)
			assert.Equal(t, "8", r.cpu(), "nothing is lost, and nothing is granted")
			assert.Nil(t, r.quota(t).Spec.Cordoned)

			r.Policies = chains(t)
			retryAfter, event = r.pass(t)
			assert.Zero(t, retryAfter)
			assert.Empty(t, event)
			assert.Equal(t, "32", r.cpu())
		})
	}
}

// TestARequestThatIsTooLargeKeepsNoGrant has a consumer enlarge its slice until the policy that would
// deny it cannot be asked.
func TestARequestThatIsTooLargeKeepsNoGrant(t *testing.T) {
	r := newRig(t, answering())
	r.pass(t)
	require.Equal(t, authv1beta1.ResourceSliceConditionAccepted, resources(r.slice).Status)
	r.Policies = chains(t, denies)
	r.slice.Labels = map[string]string{}
	for i := range 1 << 15 {
		r.slice.Labels[fmt.Sprintf("example.com/%032d", i)] = "x"
	}
	retryAfter, event := r.pass(t)
	assert.Zero(t, retryAfter)
	assert.Contains(t, event, `The slice is too large for policy "cap" of the provider. Its consumer must make it smaller.`)
	assert.Equal(t, authv1beta1.ResourceSliceConditionDenied, resources(r.slice).Status)
	assert.True(t, ptr.Deref(r.quota(t).Spec.Cordoned, false))
}

func TestNothingIsDecidedBeforePoliciesAreLoaded(t *testing.T) {
	r := newRig(t)
	r.Policies = chain.New(chain.Options{})
	retryAfter, event := r.pass(t)
	assert.Equal(t, policyRetry, retryAfter)
	assert.Empty(t, event)
	assert.Nil(t, resources(r.slice), "the slice waits")
}

func TestWithoutAPolicyNothingIsGranted(t *testing.T) {
	r := newRig(t)
	none := chain.New(chain.Options{})
	require.NoError(t, none.Swap(nil))
	r.Policies = none
	r.pass(t)
	assert.Equal(t, authv1beta1.ResourceSliceConditionDenied, resources(r.slice).Status)
	assert.Equal(t, "No policy of the provider grants resources.", resources(r.slice).Message)
}
