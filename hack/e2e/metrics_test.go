package e2e_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

const busy = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy, namespace: shop}
spec:
  selector: {matchLabels: {app: busy}}
  template:
    metadata: {labels: {app: busy}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: app
        image: longshore/e2e-app:1
        args: [serve]
        resources: {requests: {cpu: 50m}, limits: {cpu: 200m}}
        readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
`

// usage is a row of `kubectl top`, in millicores and mebibytes.
type usage struct{ cpu, memory int }

// top returns the rows of `kubectl top` by their names.
func (c *cluster) top(t planetest.T, args ...string) map[string]usage {
	t.Helper()
	rows := map[string]usage{}
	for line := range strings.Lines(c.kubectl(t, append(append([]string{"top"}, args...), "--no-headers")...)) {
		fields := strings.Fields(line)
		require.GreaterOrEqual(t, len(fields), 3, "%s", line)
		number := func(text, unit string) int {
			n, err := strconv.Atoi(strings.TrimSuffix(text, unit))
			require.NoError(t, err, "%s", line)
			return n
		}
		// Nodes have a share beside each number.
		rows[fields[0]] = usage{cpu: number(fields[1], "m"), memory: number(fields[len(fields)-1-(len(fields)-3)/2], "Mi")}
	}
	return rows
}

// metrics-server of rome asks the virtual node, which asks that of the provider.
func (w *world) top(t *testing.T) {
	w.rome.apply(t, busy)
	pod := w.rome.readyPods(t, "shop", "app=busy", 1)[0].Name
	w.rome.get(t, "shop", pod, "http://localhost:8080/busy")
	planetest.Until(t, func(t planetest.T) bool {
		local := w.rome.top(t, "pod", "--namespace=shop")
		require.Contains(t, local, pod)
		require.Greater(t, local[pod].cpu, 100, "the work of the pod is seen")
		require.Positive(t, local[pod].memory)
		for _, web := range w.rome.pods(t, "shop", "web") {
			require.Contains(t, local, web.Name)
			require.Less(t, local[web.Name].cpu, 100, "no other pod works")
		}
		remote := w.milan.top(t, "pod", "--namespace=shop-"+consumerID)
		require.Contains(t, remote, pod)
		return assert.InDelta(t, remote[pod].memory, local[pod].memory, 8, "both clusters see the same")
	}, soon, 10*poll, "kubectl top shows the remote pod")
	planetest.Until(t, func(t planetest.T) bool {
		nodes := w.rome.top(t, "node")
		require.Contains(t, nodes, consumerID)
		require.Contains(t, nodes, providerID)
		return assert.Greater(t, nodes[providerID].cpu, 100, "the virtual node uses what its pods use")
	}, soon, 10*poll, "kubectl top shows the virtual node")
}

const autoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: busy, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: busy}
  minReplicas: 1
  maxReplicas: 2
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 100}}}]
  behavior:
    scaleUp: {stabilizationWindowSeconds: 0}
    scaleDown: {stabilizationWindowSeconds: 0}
`

// The load of a remote pod adds a pod; when the load ends, it goes.
func (w *world) autoscale(t *testing.T) {
	w.rome.apply(t, autoscaler)
	w.rome.readyPods(t, "shop", "app=busy", 2)
	// The autoscaler deletes any of the two.
	for _, pod := range w.rome.pods(t, "shop", "busy") {
		w.rome.get(t, "shop", pod.Name, "http://localhost:8080/idle")
	}
	w.rome.readyPods(t, "shop", "app=busy", 1)
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	require.NoError(t, w.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "busy"}, hpa))
	assert.EqualValues(t, 1, hpa.Status.DesiredReplicas)
	w.rome.kubectl(t, "-n", "shop", "delete", "hpa/busy", "deployment/busy")
}
