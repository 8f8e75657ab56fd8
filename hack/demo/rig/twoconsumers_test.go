package rig_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// twoConsumers has two consumers of turin, rome and milan, with a namespace, a ConfigMap, a Service and
// a pod of the same names. Each has its own in turin, and takes only its own away.
func (c *threeClusters) twoConsumers(t *testing.T) {
	consumers := []*rig.Side{c.rome, c.milan}
	for _, consumer := range consumers {
		c.offload(t, consumer, "market")
		for _, object := range []client.Object{
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "market", Name: "settings"}, Data: map[string]string{"owner": consumer.Name}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "market", Name: "web"}, Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
			}},
		} {
			require.NoError(t, consumer.Create(t.Context(), object))
		}
	}
	for _, consumer := range consumers {
		podsOf(t, consumer, "market", "market-"+consumer.Name, c.turin)
	}
	before := map[string]corev1.Pod{}
	for _, consumer := range consumers {
		before[consumer.Name] = c.ownInTurin(t, consumer.Name)
	}
	assert.NotEqual(t, before["rome"].Status.PodIP, before["milan"].Status.PodIP)

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "market"}}
	require.NoError(t, c.rome.Delete(t.Context(), namespace))
	eventually(t, "rome has taken its namespace away", func(t planetest.T) bool {
		return apierrors.IsNotFound(c.rome.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace)) &&
			apierrors.IsNotFound(c.turin.Get(t.Context(), client.ObjectKey{Name: "market-rome"}, &corev1.Namespace{}))
	})
	left := c.ownInTurin(t, "milan")
	assert.Equal(t, before["milan"].UID, left.UID)
}

// ownInTurin waits until turin has the objects of a consumer and no other's in its namespace, and
// returns the pod.
func (c *threeClusters) ownInTurin(t *testing.T, consumer string) corev1.Pod {
	t.Helper()
	namespace := "market-" + consumer
	var found corev1.Pod
	planetest.Until(t, func(t planetest.T) bool {
		settings, service := &corev1.ConfigMap{}, &corev1.Service{}
		require.NoError(t, c.turin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "settings"}, settings))
		require.NoError(t, c.turin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, service))
		remote := pods(t, c.turin.Cluster, namespace, nil)
		require.Len(t, remote, 1)
		found = remote[0]
		require.Equal(t, map[string]string{"owner": consumer}, settings.Data)
		for _, object := range []client.Object{settings, service, &found} {
			require.Equal(t, consumer, object.GetLabels()[offloadingv1beta1.OriginLabel], object.GetName())
		}
		require.Equal(t, []string{found.Status.PodIP}, addressesOf(t, c.turin.Cluster, namespace, "web"))
		return true
	}, patience, every, "turin has what "+consumer+" offloads, and nothing of the other consumer")
	return found
}
