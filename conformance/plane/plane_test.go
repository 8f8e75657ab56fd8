package plane_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/longshore-dev/longshore/conformance/plane"
)

const podTimeout = 30 * time.Second

func TestStartDev(t *testing.T) {
	t.Parallel()
	c, err := plane.Start(t.Context(), plane.Options{Name: "dev", Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() {
		began := time.Now()
		assert.NoError(t, c.Stop(context.Background()))
		fmt.Println("stop", time.Since(began))
		if t.Failed() {
			t.Log(c.LogTail(40))
		}
	})
	require.NoError(t, c.StartKwok(t.Context(), plane.KwokOptions{}))
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	require.NoError(t, err)
	_, err = client.CoreV1().Nodes().Create(t.Context(), plane.FakeNode("n1", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	_, err = client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		p, err := client.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning
	}, podTimeout, 20*time.Millisecond)
}
