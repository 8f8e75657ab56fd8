package admin

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func TestBlockersNameFinalizersAndWhatConditionsReport(t *testing.T) {
	metadata := metav1.ObjectMeta{Finalizers: []string{"example.com/one"}}
	draining := &offloadingv1beta1.VirtualNode{ObjectMeta: metadata, Status: offloadingv1beta1.VirtualNodeStatus{
		Conditions: []offloadingv1beta1.VirtualNodeCondition{
			{Type: offloadingv1beta1.VirtualKubeletConditionType, Status: offloadingv1beta1.RunningConditionStatusType},
			{Type: offloadingv1beta1.NodeConditionType, Status: offloadingv1beta1.DrainingConditionStatusType, Message: "1 pods left: pod shop/web is terminating"},
		},
	}}
	for want, object := range map[string]client.Object{
		"finalizers: [example.com/one]": &corev1.Namespace{ObjectMeta: metadata},
		"finalizers: [example.com/one]; Node Draining: 1 pods left: pod shop/web is terminating": draining,
	} {
		assert.Equal(t, want, blockers(object))
	}
}
