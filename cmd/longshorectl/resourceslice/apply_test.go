package resourceslice

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/virtualnode"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

const tenantNamespace = "liqo-tenant-milan"

// answers are what a provider grants, or denies, of the amount of CPUs that a slice asks for.
type answers func(asked string) (granted string, accepted bool)

// apply applies a request for 8 CPUs to a cluster whose provider answers a slice after a delay. A slice
// that exists has asked for other CPUs, which were granted, or denied for "".
func apply(t *testing.T, exists bool, before string, delay time.Duration, answer answers) (*Granted, time.Duration, error) {
	t.Helper()
	request := Request{Name: "milan", Class: "default", Resources: list(map[corev1.ResourceName]string{"cpu": "8"}), VirtualNode: true}
	decide := func(slice *authv1beta1.ResourceSlice, granted string, accepted bool) {
		slice.Status.Conditions = []authv1beta1.ResourceSliceCondition{
			decided(authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionAccepted),
			decided(authv1beta1.ResourceSliceConditionTypeResources, map[bool]authv1beta1.ResourceSliceConditionStatus{
				true: authv1beta1.ResourceSliceConditionAccepted, false: authv1beta1.ResourceSliceConditionDenied,
			}[accepted]),
		}
		if granted != "" {
			slice.Status.Resources = list(map[corev1.ResourceName]string{"cpu": granted, "pods": "110"})
		}
	}
	objects := []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kubeconfig-resourceslice-milan", Namespace: tenantNamespace}}}
	if exists {
		slice := request.Object(tenantNamespace, "milan")
		slice.Spec.Resources = list(map[corev1.ResourceName]string{"cpu": "2"})
		decide(slice, before, before != "")
		objects = append(objects, slice)
	}
	start := time.Now()
	c := interceptor.NewClient(fakeclient.Builder(objects...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if slice, ok := object.(*authv1beta1.ResourceSlice); ok && err == nil && answer != nil && time.Since(start) >= delay {
				asked := slice.Spec.Resources[corev1.ResourceCPU]
				granted, accepted := answer(asked.String())
				decide(slice, granted, accepted)
			}
			return err
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	granted, err := Apply(ctx, &admin.Cluster{Client: c, Role: "consumer"}, tenantNamespace, "milan", request, func(string) {})
	return granted, time.Since(start), err
}

// TestAProviderMayGrantAnotherAmount applies requests to providers with policies of their own.
func TestAProviderMayGrantAnotherAmount(t *testing.T) {
	all := func(asked string) (string, bool) { return asked, true }
	half := func(string) (string, bool) { return "4", true }
	denies := func(string) (string, bool) { return "", false }
	for name, tc := range map[string]struct {
		exists  bool
		before  string
		delay   time.Duration
		answer  answers
		granted string
		note    string
		denied  bool
		atLeast time.Duration
	}{
		"all of a new slice":              {delay: time.Minute, answer: all, granted: "8"},
		"a part of a new slice":           {delay: time.Minute, answer: half, granted: "4", note: "granted 4 of 8 cpu: the provider's policy"},
		"none of a new slice":             {delay: time.Minute, answer: denies, denied: true},
		"all of a changed slice":          {exists: true, before: "2", delay: time.Second, answer: all, granted: "8"},
		"a part of a changed slice":       {exists: true, before: "2", delay: time.Second, answer: half, granted: "4", note: "granted 4 of 8 cpu: the provider's policy, or an answer that is not there yet", atLeast: settleTime},
		"a changed slice that was denied": {exists: true, delay: time.Second, answer: all, granted: "8"},
		"a changed slice that is denied":  {exists: true, before: "2", delay: time.Second, answer: denies, denied: true, atLeast: settleTime},
		"a provider that does not answer": {exists: true, before: "2", granted: "2", note: "granted 2 of 8 cpu: the provider's policy, or an answer that is not there yet", atLeast: settleTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				granted, took, err := apply(t, tc.exists, tc.before, tc.delay, tc.answer)
				assert.GreaterOrEqual(t, took, tc.delay+tc.atLeast)
				assert.Less(t, took, tc.delay+2*settleTime)
				if tc.denied {
					code, _ := output.ExitCode(err)
					assert.Equal(t, output.CodeDenied, code, err)
					return
				}
				require.NoError(t, err)
				cpu := granted.Slice.Status.Resources[corev1.ResourceCPU]
				assert.Equal(t, tc.granted, cpu.String())
				assert.Equal(t, tc.note, granted.Note)
			})
		})
	}
}

// TestAVirtualNodeFollowsTheGrant waits for the virtual node of a slice whose grant changes once more.
func TestAVirtualNodeFollowsTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slice := Request{Name: "milan"}.Object(tenantNamespace, "milan")
		slice.Status.Resources = list(map[corev1.ResourceName]string{"cpu": "4"})
		vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: tenantNamespace, OwnerReferences: []metav1.OwnerReference{{Kind: "ResourceSlice"}}}}
		vn.Spec.ResourceQuota.Hard = slice.Status.Resources
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
		c := &admin.Cluster{Client: fakeclient.Builder(slice, vn, node).Build(), Role: "consumer"}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		earlier := slice.DeepCopy()
		earlier.Status.Resources = list(map[corev1.ResourceName]string{"cpu": "2"})
		require.NoError(t, virtualnode.WaitOf(ctx, c, earlier, func(string) {}))

		// A virtual node that an administrator made under the name of the slice has a capacity of its own.
		vn.OwnerReferences, vn.Spec.ResourceQuota.Hard = nil, list(map[corev1.ResourceName]string{"cpu": "1"})
		require.NoError(t, c.Update(ctx, vn))
		require.NoError(t, virtualnode.WaitOf(ctx, c, earlier, func(string) {}))
	})
}
