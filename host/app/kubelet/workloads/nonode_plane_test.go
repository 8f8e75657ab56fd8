package workloads_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
)

// A virtual kubelet with --create-node=false creates no Node and reflects objects.
func TestObjectsAreReflectedWithoutANode(t *testing.T) {
	c := twoclusters.Start(t, "shop")
	c.StartKubelet(twoclusters.KubeletOptions{WithoutNode: true})
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "settings"}
	c.Create(c.Rome, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "1"}}, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"a": []byte("1")}},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	for _, object := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}} {
		planetest.Until(t, func(t planetest.T) bool {
			return c.Milan.Get(t.Context(), client.ObjectKey{Namespace: twoclusters.Remote("shop"), Name: "settings"}, object) == nil
		}, soon, tick, "%T is in the provider", object)
	}
	err := c.Rome.Get(t.Context(), client.ObjectKey{Name: twoclusters.NodeName}, &corev1.Node{})
	require.True(t, apierrors.IsNotFound(err), "the Node: %v", err)
}
