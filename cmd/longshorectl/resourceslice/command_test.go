package resourceslice

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output/outputtest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// samples are a slice that is granted, one that is new, and the copy of a consumer's.
func samples() []*authv1beta1.ResourceSlice {
	granted := Request{Name: "mypool", Class: "default", Resources: list(map[corev1.ResourceName]string{"cpu": "8"}), VirtualNode: true}.Object("liqo-tenant-cool-firefly", "cool-firefly")
	granted.Status = authv1beta1.ResourceSliceStatus{
		Resources: list(map[corev1.ResourceName]string{"cpu": "8", "memory": "8Gi", "pods": "110", "ephemeral-storage": "20Gi", "nvidia.com/gpu": "2"}),
		Conditions: []authv1beta1.ResourceSliceCondition{
			decided(authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionAccepted),
			decided(authv1beta1.ResourceSliceConditionTypeResources, authv1beta1.ResourceSliceConditionAccepted),
		},
	}
	granted.CreationTimestamp = metav1.NewTime(now.Add(-19 * time.Second))
	fresh := Request{Name: "fresh", Class: "gpu"}.Object("liqo-tenant-cool-firefly", "cool-firefly")
	fresh.CreationTimestamp = metav1.NewTime(now)
	copied := Request{Name: "milan"}.Object("liqo-tenant-oslo", "oslo")
	copied.Labels["liqo.io/replicated"], copied.Labels["liqo.io/originID"] = "true", "oslo"
	copied.Annotations = map[string]string{"liqo.io/cordon": "true"}
	copied.CreationTimestamp = metav1.NewTime(now.Add(-48 * time.Hour))
	return []*authv1beta1.ResourceSlice{granted, fresh, copied}
}

func TestTablesOfSlices(t *testing.T) {
	for name, tc := range map[string]struct {
		format output.Tables
		want   string
	}{
		"the table": {want: "" +
			"NAME    PEER          ACTION     AUTH      RESOURCES  CPU  MEMORY  PODS  AGE\n" +
			"mypool  cool-firefly  Consuming  Accepted  Accepted   8    8Gi     110   19s\n" +
			"fresh   cool-firefly  Consuming  Pending   Pending    -    -       -     0s\n" +
			"milan   oslo          Providing  Pending   Pending    -    -       -     2d\n"},
		"the wide one": {format: output.Tables{Wide: true}, want: "" +
			"NAME    PEER          ACTION     AUTH      RESOURCES  CPU  MEMORY  PODS  AGE  CLASS    OTHERS                                   CORDONED  NAMESPACE\n" +
			"mypool  cool-firefly  Consuming  Accepted  Accepted   8    8Gi     110   19s  default  ephemeral-storage=20Gi,nvidia.com/gpu=2  -         liqo-tenant-cool-firefly\n" +
			"fresh   cool-firefly  Consuming  Pending   Pending    -    -       -     0s   gpu      -                                        -         liqo-tenant-cool-firefly\n" +
			"milan   oslo          Providing  Pending   Pending    -    -       -     2d   -        -                                        slice     liqo-tenant-oslo\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, Print(&out, tc.format, samples(), false, now))
			assert.Equal(t, tc.want, out.String())
			if !tc.format.Wide {
				for line := range strings.Lines(out.String()) {
					assert.LessOrEqual(t, len(strings.TrimRight(line, "\n")), 80)
				}
			}
		})
	}
}

// The manifest is that of the document "Offloading in depth".
func TestTheManifestOfASlice(t *testing.T) {
	var out bytes.Buffer
	request := Request{Name: "mypool", Class: "default", VirtualNode: true}
	require.NoError(t, output.Print(&out, output.YAML, request.Object("liqo-tenant-cool-firefly", "cool-firefly"), nil))
	assert.Equal(t, `apiVersion: authentication.liqo.io/v1beta1
kind: ResourceSlice
metadata:
  annotations:
    liqo.io/create-virtual-node: "true"
  labels:
    liqo.io/remote-cluster-id: cool-firefly
    liqo.io/remoteID: cool-firefly
    liqo.io/replication: "true"
  name: mypool
  namespace: liqo-tenant-cool-firefly
spec:
  class: default
  providerClusterID: cool-firefly
`, out.String())
}

func TestNamesThatASliceCannotHave(t *testing.T) {
	virtual := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mypool", Labels: map[string]string{"liqo.io/type": "virtual-node"}}}
	for name, tc := range map[string]struct {
		request   Request
		namespace string
		node      *corev1.Node
		want      string
	}{
		"a new name":             {request: Request{Name: "other", VirtualNode: true}, namespace: "liqo-tenant-cool-firefly"},
		"its own name":           {request: Request{Name: "mypool", VirtualNode: true}, namespace: "liqo-tenant-cool-firefly", node: virtual},
		"that of a consumer's":   {request: Request{Name: "milan"}, namespace: "liqo-tenant-cool-firefly"},
		"that of another peer's": {request: Request{Name: "mypool"}, namespace: "liqo-tenant-oslo", want: `ResourceSlice "mypool" exists in namespace liqo-tenant-cool-firefly`},
		"that of a real node": {
			request: Request{Name: "worker", VirtualNode: true}, node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}},
			want: `Node "worker" exists and is not a virtual node`,
		},
		"that of a real node, without a virtual node": {request: Request{Name: "worker"}, node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}},
	} {
		t.Run(name, func(t *testing.T) {
			err := conflict(tc.request, tc.namespace, samples(), tc.node)
			if tc.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestWhatIsDeletedWithASlice(t *testing.T) {
	all := samples()
	twin := Request{Name: "mypool"}.Object("liqo-tenant-oslo", "oslo")
	node := func(name, namespace, secret string, owners ...metav1.OwnerReference) offloadingv1beta1.VirtualNode {
		vn := offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, OwnerReferences: owners}}
		vn.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: secret}
		return vn
	}
	const namespace, secret = "liqo-tenant-cool-firefly", "kubeconfig-resourceslice-mypool"
	made := node("mypool", namespace, secret, metav1.OwnerReference{Kind: "ResourceSlice", Name: "mypool"})
	for name, tc := range map[string]struct {
		found       []*authv1beta1.ResourceSlice
		nodes       []offloadingv1beta1.VirtualNode
		slice, want string
		owned       int
	}{
		"nothing":                           {},
		"a slice without virtual nodes":     {found: all[:1], slice: "mypool", nodes: []offloadingv1beta1.VirtualNode{node("mypool", "liqo-tenant-oslo", secret), node("other", namespace, "other")}},
		"a slice and its virtual node":      {found: all[:1], slice: "mypool", nodes: []offloadingv1beta1.VirtualNode{made}, owned: 1},
		"a virtual node that uses it":       {found: all[:1], nodes: []offloadingv1beta1.VirtualNode{made, node("mynode", namespace, secret)}, want: `VirtualNode "mynode" uses the slice: run longshorectl delete virtualnode mynode first`},
		"a slice of the same name":          {found: []*authv1beta1.ResourceSlice{all[0], twin}, want: "set --remote-cluster-id"},
		"a copy":                            {found: all[2:], want: "is the request of consumer oslo"},
		"a slice and a copy under one name": {found: []*authv1beta1.ResourceSlice{all[2], all[0]}, slice: "mypool"},
	} {
		t.Run(name, func(t *testing.T) {
			slice, owned, err := deletion(tc.found, tc.nodes)
			if tc.want != "" {
				assert.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			assert.Len(t, owned, tc.owned)
			if tc.slice == "" {
				assert.Nil(t, slice)
				return
			}
			require.NotNil(t, slice)
			assert.Equal(t, tc.slice, slice.Name)
		})
	}
}

func TestTablesOfSlicesFitATerminal(t *testing.T) {
	all := samples()
	all[0].Name, all[1].Labels["liqo.io/remote-cluster-id"] = outputtest.Long, outputtest.Long
	for name, format := range map[string]output.Tables{"get": {}, "get-wide": {Wide: true}} {
		outputtest.Table(t, name, format.Wide, func(w io.Writer, _ output.Style) error { return Print(w, format, all, false, now) })
	}
}
