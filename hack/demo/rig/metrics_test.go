package rig_test

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// metricsOfLiqo reads what a Prometheus with dashboards of Liqo reads.
func metricsOfLiqo(t *testing.T, r *rig.Rig) {
	connection := &networkingv1beta1.Connection{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rig.Pair.ConsumerTenant(), Name: "metrics", Labels: map[string]string{"liqo.io/remote-cluster-id": r.Milan.Name},
		},
		Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ClientConnection},
	}
	require.NoError(t, r.Rome.Create(t.Context(), connection))
	connection.Status.Value, connection.Status.Latency = networkingv1beta1.Connected, &networkingv1beta1.ConnectionLatency{Value: "12ms"}
	require.NoError(t, r.Rome.Status().Update(t.Context(), connection))
	labels := `cluster_id="` + r.Milan.Name + `",`
	shows(t, r, rig.Namespace, map[string]string{"app.kubernetes.io/name": "longshore-manager"},
		`liqo_peer_is_connected{`+labels+`driver="wireguard"} 1`+"\n", `liqo_peer_latency_us{`+labels+`driver="wireguard"} 12000`+"\n",
		`liqo_peer_latency_histogram_us_bucket{`+labels+`driver="wireguard",le="10000"} 0`+"\n",
		`controller="foreigncluster"`)
	require.NoError(t, r.Rome.Delete(t.Context(), connection))

	shows(t, r, rig.Pair.ConsumerTenant(), map[string]string{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet},
		`liqo_virtual_kubelet_reflection_item_counter{`+labels+`namespace="shop",node_name="`+rig.Node+`",reflector_resource="Pod"} `)
}

// shows waits until the metrics of the pod with these labels have these texts.
func shows(t *testing.T, r *rig.Rig, namespace string, labels map[string]string, want ...string) {
	t.Helper()
	eventually(t, "the metrics are shown", func(t planetest.T) bool {
		found := pods(t, r.Rome, namespace, labels)
		require.Len(t, found, 1)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort(found[0].Status.PodIP, metricsPort(t, &found[0]))+"/metrics", http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		for _, line := range want {
			require.Contains(t, string(text), line)
		}
		return true
	})
}

func metricsPort(t planetest.T, pod *corev1.Pod) string {
	t.Helper()
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == "metrics" {
				return strconv.Itoa(int(port.ContainerPort))
			}
		}
	}
	require.Fail(t, "the pod has no port of this name", "metrics")
	return ""
}
