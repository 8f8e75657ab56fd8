package local

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// InitialNode builds the Node of a VirtualNode before its virtual kubelet publishes a status: without
// capacity, so that no pod is scheduled to it, and with its final taints and labels, so that a selector
// has the same result before and after.
func InitialNode(vn *offloadingv1beta1.VirtualNode) *corev1.Node {
	final := Node(NodeInput{VirtualNode: vn, ExtraLabels: extraLabels(vn)})
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: vn.Name, Labels: final.Labels},
		Spec:       corev1.NodeSpec{Taints: final.Spec.Taints},
	}
}

// extraLabels returns the Node's labels in the arguments of the virtual kubelet. It ignores invalid
// ones, as the virtual kubelet does.
func extraLabels(vn *offloadingv1beta1.VirtualNode) map[string]string {
	extra := map[string]string{}
	if vn.Spec.Template == nil {
		return extra
	}
	for _, container := range vn.Spec.Template.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			list, ok := strings.CutPrefix(arg, virtualkubelet.FlagNodeLabels+"=")
			if !ok {
				continue
			}
			for pair := range strings.SplitSeq(list, ",") {
				if key, value, ok := strings.Cut(pair, "="); ok && key != "" {
					extra[key] = value
				}
			}
		}
	}
	return extra
}
