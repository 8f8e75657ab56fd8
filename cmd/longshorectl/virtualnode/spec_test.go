package virtualnode

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output/outputtest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const namespace = "liqo-tenant-cool-firefly"

func quantities(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func grantedSlice() *authv1beta1.ResourceSlice {
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "mypool", Namespace: namespace}}
	slice.Status = authv1beta1.ResourceSliceStatus{
		Resources: quantities("cpu", "4", "memory", "8Gi", "pods", "110", "ephemeral-storage", "20Gi"), NodeLabels: map[string]string{"liqo.io/provider": "kubeadm"},
		StorageClasses: []authv1beta1.StorageType{{StorageClassName: "liqo"}},
	}
	return slice
}

// The manifests are those of the document "Offloading in depth".
func TestManifests(t *testing.T) {
	for name, tc := range map[string]struct {
		spec  Spec
		slice *authv1beta1.ResourceSlice
		want  string
	}{
		"of a slice": {
			spec: Spec{Name: "mynode", Provider: "cool-firefly", Slice: "mypool"}, slice: grantedSlice(),
			want: `  labels:
    liqo.io/provider: kubeadm
    liqo.io/remote-cluster-id: cool-firefly
  resourceQuota:
    hard:
      cpu: "4"
      ephemeral-storage: 20Gi
      memory: 8Gi
      pods: "110"
  storageClasses:
  - storageClassName: liqo
`,
		},
		"of a Secret": {
			spec: Spec{Name: "mynode", Provider: "cool-firefly", Secret: "kubeconfig-resourceslice-mypool"},
			want: `  labels:
    liqo.io/remote-cluster-id: cool-firefly
  resourceQuota:
    hard:
      cpu: "2"
      memory: 4Gi
      pods: "110"
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, output.Print(&out, output.YAML, tc.spec.fresh(namespace, tc.slice), nil))
			assert.Equal(t, `apiVersion: offloading.liqo.io/v1beta1
kind: VirtualNode
metadata:
  labels:
    liqo.io/remote-cluster-id: cool-firefly
  name: mynode
  namespace: liqo-tenant-cool-firefly
spec:
  clusterID: cool-firefly
  createNode: true
  disableNetworkCheck: false
  kubeconfigSecretRef:
    name: kubeconfig-resourceslice-mypool
`+tc.want, out.String())
		})
	}
}

func TestFlagsOfAVirtualNode(t *testing.T) {
	no := false
	spec := Spec{
		Name: "mynode", Provider: "cool-firefly", Slice: "mypool", Resources: quantities("cpu", "1", "nvidia.com/gpu", "1"),
		StorageClasses: []string{"fast", "slow"}, IngressClasses: []string{"nginx"}, LoadBalancerClasses: []string{"metal"},
		Labels: map[string]string{"zone": "a", "liqo.io/provider": "mine"}, NodeSelector: map[string]string{"pool": "gpu"},
		RuntimeClassName: "kata", Template: &corev1.ObjectReference{Namespace: "longshore", Name: "large"}, CreateNode: &no,
	}
	slice := grantedSlice()
	slice.Status.NodeSelector = map[string]string{"tenant": "rome"}
	vn := spec.fresh(namespace, slice)
	assert.Equal(t, quantities("cpu", "1", "memory", "8Gi", "pods", "110", "ephemeral-storage", "20Gi", "nvidia.com/gpu", "1"), vn.Spec.ResourceQuota.Hard)
	assert.Equal(t, []authv1beta1.StorageType{{StorageClassName: "fast", Default: true}, {StorageClassName: "slow"}}, vn.Spec.StorageClasses)
	assert.Equal(t, []authv1beta1.IngressType{{IngressClassName: "nginx", Default: true}}, vn.Spec.IngressClasses)
	assert.Equal(t, []authv1beta1.LoadBalancerType{{LoadBalancerClassName: "metal", Default: true}}, vn.Spec.LoadBalancerClasses)
	assert.Equal(t, map[string]string{"zone": "a", "liqo.io/provider": "mine", "liqo.io/remote-cluster-id": "cool-firefly"}, vn.Spec.Labels)
	assert.Equal(t, map[string]string{"tenant": "rome", "pool": "gpu"}, vn.Spec.OffloadingPatch.NodeSelector)
	assert.Equal(t, "kata", *vn.Spec.OffloadingPatch.RuntimeClassName)
	assert.Equal(t, "large", vn.Spec.VkOptionsTemplateRef.Name)
	assert.False(t, *vn.Spec.CreateNode)
	assert.Nil(t, vn.Spec.DisableNetworkCheck, "the template decides")
	assert.Equal(t, map[string]string{"liqo.io/provider": "kubeadm"}, slice.Status.NodeLabels, "the slice is not changed")

	// Another run with one flag changes one thing.
	before := vn.DeepCopy()
	(&Spec{Name: "mynode", Provider: "cool-firefly", Slice: "mypool", Resources: quantities("cpu", "2")}).change(vn)
	before.Spec.ResourceQuota.Hard["cpu"] = resource.MustParse("2")
	assert.Equal(t, before, vn)
}

func TestVirtualNodesThatExist(t *testing.T) {
	spec := Spec{Name: "mynode", Provider: "cool-firefly", Slice: "mypool"}
	for name, tc := range map[string]struct {
		change func(*offloadingv1beta1.VirtualNode)
		want   string
	}{
		"the same":         {change: func(*offloadingv1beta1.VirtualNode) {}},
		"another provider": {change: func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.ClusterID = "oslo" }, want: "delete it first"},
		"another Secret":   {change: func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.KubeconfigSecretRef.Name = "other" }, want: "delete it first"},
		"that of a slice": {
			change: func(vn *offloadingv1beta1.VirtualNode) {
				vn.OwnerReferences = []metav1.OwnerReference{{Kind: "ResourceSlice"}}
			},
			want: "follows its ResourceSlice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			vn := spec.fresh(namespace, grantedSlice())
			tc.change(vn)
			if err := spec.checkExisting(vn); tc.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestDeletionOfAVirtualNode(t *testing.T) {
	made := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "a", OwnerReferences: []metav1.OwnerReference{{Kind: "ResourceSlice"}}}}
	own := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for name, tc := range map[string]struct {
		found []*offloadingv1beta1.VirtualNode
		want  *offloadingv1beta1.VirtualNode
		err   string
	}{
		"none":            {},
		"one":             {found: []*offloadingv1beta1.VirtualNode{own}, want: own},
		"two":             {found: []*offloadingv1beta1.VirtualNode{own, own}, err: "set --remote-cluster-id"},
		"that of a slice": {found: []*offloadingv1beta1.VirtualNode{made}, err: "run longshorectl delete resourceslice a"},
	} {
		t.Run(name, func(t *testing.T) {
			vn, err := deletion(tc.found)
			assert.Equal(t, tc.want, vn)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

func TestTemplatesAreNamed(t *testing.T) {
	for value, want := range map[string]*corev1.ObjectReference{
		"large": {Namespace: "longshore", Name: "large"}, "tools/large": {Namespace: "tools", Name: "large"},
		"": nil, "/": nil, "tools/": nil, "/large": nil, "a/b/c": nil,
	} {
		ref, err := parseTemplate(value, "longshore")
		assert.Equal(t, want, ref, value)
		assert.Equal(t, want == nil, err != nil, value)
	}
}

func TestTablesOfVirtualNodes(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	vn := (&Spec{Name: "mynode", Provider: "cool-firefly", Slice: "mypool"}).fresh(namespace, grantedSlice())
	vn.CreationTimestamp = metav1.NewTime(now.Add(-7 * time.Second))
	vn.Status.Conditions = []offloadingv1beta1.VirtualNodeCondition{
		{Type: offloadingv1beta1.NodeConditionType, Status: offloadingv1beta1.RunningConditionStatusType},
		{Type: offloadingv1beta1.VirtualKubeletConditionType, Status: offloadingv1beta1.CreatingConditionStatusType},
	}
	var out bytes.Buffer
	require.NoError(t, Print(&out, output.Tables{}, []*offloadingv1beta1.VirtualNode{vn}, false, now))
	assert.Equal(t, ""+
		"NAME    PROVIDER      NODE     KUBELET   CPU  MEMORY  PODS  AGE\n"+
		"mynode  cool-firefly  Running  Creating  4    8Gi     110   7s\n", out.String())
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, len(strings.TrimRight(line, "\n")), 80)
	}
	out.Reset()
	require.NoError(t, Print(&out, output.Tables{Wide: true}, []*offloadingv1beta1.VirtualNode{vn}, false, now))
	assert.Contains(t, out.String(), "OTHERS                  SECRET                           CREATE NODE  NAMESPACE\n")
	assert.Contains(t, out.String(), "ephemeral-storage=20Gi  kubeconfig-resourceslice-mypool  true         liqo-tenant-cool-firefly\n")
}

func TestWhatAVirtualNodeWaitsFor(t *testing.T) {
	vn := (&Spec{Name: "mynode", Provider: "cool-firefly", Slice: "mypool"}).fresh(namespace, grantedSlice())
	assert.Empty(t, missingCapacity(vn, nil))
	assert.Empty(t, missingCapacity(vn, quantities("cpu", "4000m")))
	assert.Equal(t, "its capacity to be cpu 8", missingCapacity(vn, quantities("cpu", "8")))
	node := &corev1.Node{}
	assert.Equal(t, "its virtual kubelet to report", notReady(node))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "Starting", Message: "not yet"}}
	assert.Equal(t, "Starting: not yet", notReady(node))
	node.Status.Conditions[0].Status = corev1.ConditionTrue
	assert.Empty(t, notReady(node))
}

func TestTablesOfVirtualNodesFitATerminal(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var all []*offloadingv1beta1.VirtualNode
	for _, name := range []string{"mynode", outputtest.Long} {
		vn := (&Spec{Name: name, Provider: outputtest.Long, Slice: "mypool"}).fresh(namespace, grantedSlice())
		vn.CreationTimestamp = metav1.NewTime(now.Add(-7 * time.Second))
		all = append(all, vn)
	}
	for name, format := range map[string]output.Tables{"get": {}, "get-wide": {Wide: true}} {
		outputtest.Table(t, name, format.Wide, func(w io.Writer, _ output.Style) error { return Print(w, format, all, false, now) })
	}
}
