package resourceslice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
)

func list(values map[corev1.ResourceName]string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for name, value := range values {
		l[name] = resource.MustParse(value)
	}
	return l
}

func decided(kind authv1beta1.ResourceSliceConditionType, status authv1beta1.ResourceSliceConditionStatus) authv1beta1.ResourceSliceCondition {
	return authv1beta1.ResourceSliceCondition{Type: kind, Status: status, Reason: "Reason", Message: "The message."}
}

func TestWhatTheProviderHasNotDecided(t *testing.T) {
	const authentication, resources = authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionTypeResources
	const accepted, denied = authv1beta1.ResourceSliceConditionAccepted, authv1beta1.ResourceSliceConditionDenied
	both := []authv1beta1.ResourceSliceCondition{decided(authentication, accepted), decided(resources, accepted)}
	for name, tc := range map[string]struct {
		exists         bool
		asked, granted map[corev1.ResourceName]string
		conditions     []authv1beta1.ResourceSliceCondition
		want, denied   string
	}{
		"a new slice": {want: "the provider to decide about Authentication"},
		"one with credentials": {
			conditions: both[:1], want: "the provider to decide about Resources",
		},
		"one without credentials": {
			conditions: []authv1beta1.ResourceSliceCondition{decided(authentication, denied)},
			denied:     `the provider denied ResourceSlice "milan": Reason: The message.`,
		},
		"one without resources": {
			conditions: []authv1beta1.ResourceSliceCondition{both[0], decided(resources, denied)},
			denied:     `the provider denied ResourceSlice "milan": Reason: The message.`,
		},
		"the defaults are granted": {conditions: both, granted: map[corev1.ResourceName]string{"cpu": "4"}},
		"what is asked for is granted": {
			exists: true, conditions: both, asked: map[corev1.ResourceName]string{"cpu": "8"}, granted: map[corev1.ResourceName]string{"cpu": "8000m", "pods": "110"},
		},
		"the grant does not follow the changed request yet": {
			exists: true, conditions: both, asked: map[corev1.ResourceName]string{"cpu": "8"}, granted: map[corev1.ResourceName]string{"cpu": "4"},
			want: "the provider to answer the request; it has granted 4 of 8 cpu",
		},
		"a resource that is new in the request": {
			exists: true, conditions: both, asked: map[corev1.ResourceName]string{"nvidia.com/gpu": "1"}, granted: map[corev1.ResourceName]string{"cpu": "4"},
			want: "the provider to answer the request; it has granted 0 of 1 nvidia.com/gpu",
		},
		"a grant that does not follow a request for less": {
			exists: true, conditions: both, asked: map[corev1.ResourceName]string{"cpu": "2"}, granted: map[corev1.ResourceName]string{"cpu": "4"},
			want: "the provider to answer the request; it has granted 4 cpu instead of 2",
		},
		"a denial of an earlier request": {
			exists: true, conditions: []authv1beta1.ResourceSliceCondition{both[0], decided(resources, denied)},
			want: "the provider to accept what it has denied before",
		},
		"a new slice that is granted less": {
			conditions: both, asked: map[corev1.ResourceName]string{"cpu": "8"}, granted: map[corev1.ResourceName]string{"cpu": "4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			slice := &authv1beta1.ResourceSlice{}
			slice.Name = "milan"
			slice.Spec.Resources = list(tc.asked)
			slice.Status.Conditions, slice.Status.Resources = tc.conditions, list(tc.granted)
			missing, err := (&answer{isFirst: !tc.exists}).pending(slice, now)
			assert.Equal(t, tc.want, missing)
			if tc.denied == "" {
				require.NoError(t, err)
				return
			}
			code, message := output.ExitCode(err)
			assert.Equal(t, output.CodeDenied, code)
			assert.Equal(t, tc.denied, message)
		})
	}
}

func TestARequestChangesWhatItNames(t *testing.T) {
	request := Request{Name: "milan", Class: "default", Resources: list(map[corev1.ResourceName]string{"cpu": "8"}), VirtualNode: true}
	slice := Request{Name: "milan", Class: "default", Resources: list(map[corev1.ResourceName]string{"cpu": "4", "memory": "8Gi"})}.Object("liqo-tenant-milan", "milan")
	slice.Spec.CSR = []byte("csr")
	slice.Labels["team"] = "shop"
	request.change(slice, request.Object("liqo-tenant-milan", "milan"))
	assert.Equal(t, list(map[corev1.ResourceName]string{"cpu": "8", "memory": "8Gi"}), slice.Spec.Resources, "resources that are not named stay")
	assert.Equal(t, []byte("csr"), slice.Spec.CSR)
	assert.Equal(t, "true", slice.Annotations["liqo.io/create-virtual-node"])
	assert.Equal(t, map[string]string{
		"team": "shop", "liqo.io/replication": "true", "liqo.io/remoteID": "milan", "liqo.io/remote-cluster-id": "milan",
	}, slice.Labels)

	request.VirtualNode = false
	request.change(slice, request.Object("liqo-tenant-milan", "milan"))
	assert.NotContains(t, slice.Annotations, "liqo.io/create-virtual-node")
}
