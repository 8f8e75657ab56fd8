package local

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// InitialNode builds the Node of a VirtualNode before its virtual kubelet publishes a status: without
// capacity, so that no pod is scheduled to it, and with its final taints, provider ID and labels, so that a
// selector has the same result before and after.
func InitialNode(vn *offloadingv1beta1.VirtualNode) *corev1.Node {
	final := Node(NodeInput{
		VirtualNode: vn, ExtraLabels: extra(vn, virtualkubelet.FlagNodeLabels), ExtraAnnotations: extra(vn, virtualkubelet.FlagNodeAnnotations),
	})
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: vn.Name, Labels: final.Labels},
		Spec:       final.Spec,
	}
}

// extra returns the Node's labels or annotations in the arguments of the virtual kubelet. It ignores invalid
// ones, as the virtual kubelet does.
func extra(vn *offloadingv1beta1.VirtualNode, flag string) map[string]string {
	pairs := map[string]string{}
	if vn.Spec.Template == nil {
		return pairs
	}
	for _, container := range vn.Spec.Template.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			list, ok := strings.CutPrefix(arg, flag+"=")
			if !ok {
				continue
			}
			for pair := range strings.SplitSeq(list, ",") {
				if key, value, ok := strings.Cut(pair, "="); ok && key != "" {
					pairs[key] = value
				}
			}
		}
	}
	return pairs
}
