package kubelet

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/vkflag"
)

func TestNodeFlagsAreThoseInWhichVirtualNodesMayDiffer(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddNodeFlags(flags, &Options{})
	count := 0
	flags.VisitAll(func(flag *pflag.Flag) {
		count++
		assert.True(t, vkflag.IsOfNode("--"+flag.Name), flag.Name)
	})
	assert.Equal(t, 12, count)
	assert.False(t, vkflag.IsOfNode("--home-cluster-id"))
}

func TestOptionsOfANodeOfASharedProcess(t *testing.T) {
	process := DefaultOptions()
	process.SharedProcess, process.ForeignClusterID, process.HomeClusterID = "vk-shared-1", "milan", "rome"
	process.NodeExtraLabels = map[string]string{"of": "the process"}
	for name, tc := range map[string]struct {
		args  []string
		want  func(*Options)
		error string
	}{
		"names":                                 {args: []string{"--nodename=milan-1", "--foreign-kubeconfig-secret-name=k"}},
		"the last of several counts":            {args: []string{"--foreign-kubeconfig-secret-name=other", "--foreign-kubeconfig-secret-name=k"}},
		"arguments of the process are not read": {args: []string{"--foreign-kubeconfig-secret-name=k", "--home-cluster-id=venice", "--unknown"}},
		"values of the node": {
			args: []string{
				"--foreign-kubeconfig-secret-name=k", "--create-node=false", "--node-check-network=false", "--node-extra-labels=zone=a,rack=7",
				"--node-extra-annotations=a=b", "--enable-storage", "--remote-real-storage-class-name=fast", "--enable-ingress=true",
				"--remote-real-ingress-class-name=nginx", "--enable-load-balancer", "--remote-real-load-balancer-class-name=metallb",
			},
			want: func(o *Options) {
				o.CreateNode, o.NodeCheckNetwork = false, false
				o.NodeExtraLabels, o.NodeExtraAnnotations = map[string]string{"zone": "a", "rack": "7"}, map[string]string{"a": "b"}
				o.EnableStorage, o.RemoteRealStorageClassName = true, "fast"
				o.EnableIngress, o.RemoteRealIngressClassName = true, "nginx"
				o.EnableLoadBalancer, o.RemoteRealLoadBalancerClassName = true, "metallb"
			},
		},
		"another name":          {args: []string{"--nodename=turin", "--foreign-kubeconfig-secret-name=k"}, error: "not the name of the VirtualNode"},
		"no kubeconfig":         {args: []string{"--nodename=milan-1"}, error: "spec.kubeconfigSecretRef"},
		"a value that is wrong": {args: []string{"--create-node=perhaps"}, error: `argument "--create-node=perhaps"`},
	} {
		t.Run(name, func(t *testing.T) {
			vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan-1"}, Spec: offloadingv1beta1.VirtualNodeSpec{
				ClusterID: "milan", Template: &offloadingv1beta1.DeploymentTemplate{},
			}}
			vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "virtual-kubelet", Args: tc.args, Image: "longshore"}}
			stripped, err := stripTemplate(vn)
			require.NoError(t, err)
			got, err := process.ofNode(stripped.(*offloadingv1beta1.VirtualNode))
			if tc.error != "" {
				require.ErrorContains(t, err, tc.error)
				return
			}
			require.NoError(t, err)
			want := process
			want.NodeName, want.ForeignKubeconfigSecretName, want.NodeExtraLabels = "milan-1", "k", nil
			if tc.want != nil {
				tc.want(&want)
			}
			if len(got.NodeExtraLabels) == 0 {
				got.NodeExtraLabels = nil
			}
			assert.Equal(t, want, got.Options)
			assert.NotContains(t, strings.Join(got.arguments, " "), "home-cluster-id")
		})
	}
}
