package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

const localClient = `
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: default, labels: {app: client}}
spec:
  containers: [{name: app, image: longshore/e2e-app:1, args: [serve]}]
`

// get returns the answer to an HTTP request that a container sends.
func (c *cluster) get(t planetest.T, namespace, pod, url string) string {
	t.Helper()
	return c.kubectl(t, "-n", namespace, "exec", pod, "--", "/app", "get", url)
}

// clusterIP returns the address of a Service.
func (c *cluster) clusterIP(t planetest.T, namespace, name string) string {
	t.Helper()
	service := &corev1.Service{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, service))
	return service.Spec.ClusterIP
}

func (w *world) reachFromConsumer(t *testing.T) {
	w.rome.apply(t, localClient)
	w.rome.readyPods(t, "default", "app=client", 1)
	for _, pod := range w.rome.readyPods(t, "shop", "app=web", 2) {
		assert.Equal(t, pod.Name+" hello\n", w.rome.get(t, "default", "client", "http://"+pod.Status.PodIP+":8080/"))
	}
	planetest.Until(t, func(t planetest.T) bool {
		return assert.Contains(t, w.rome.get(t, "default", "client", "http://"+w.rome.clusterIP(t, "shop", "web")+"/"), " hello\n")
	}, soon, poll, "kube-proxy of rome knows the remote endpoints")
}

// mixed is a Service with a pod in each cluster.
const mixed = `
apiVersion: v1
kind: Namespace
metadata: {name: mixed}
---
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: mixed}
spec: {podOffloadingStrategy: LocalAndRemote}
---
apiVersion: v1
kind: Service
metadata: {name: both, namespace: mixed}
spec:
  selector: {app: both}
  ports: [{port: 80, targetPort: 8080}]
`

const mixedPod = `
apiVersion: v1
kind: Pod
metadata: {name: on-NODE, namespace: mixed, labels: {app: both}}
spec:
  terminationGracePeriodSeconds: 2
  nodeSelector: {kubernetes.io/hostname: NODE}
  containers:
  - name: app
    image: longshore/e2e-app:1
    args: [serve]
    env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
`

// A Service of pods in both clusters has the same endpoints for clients in both.
func (w *world) reachFromProvider(t *testing.T) {
	w.rome.apply(t, mixed)
	w.rome.waitForOffloading(t, "mixed")
	w.rome.apply(t, replaceNode(mixedPod, consumerID)+"---"+replaceNode(mixedPod, providerID))
	w.rome.readyPods(t, "mixed", "app=both", 2)
	for side, ask := range map[string]func(t planetest.T) string{
		"a pod of rome": func(t planetest.T) string {
			return w.rome.get(t, "mixed", "on-"+consumerID, "http://"+w.rome.clusterIP(t, "mixed", "both")+"/")
		},
		"a remote pod": func(t planetest.T) string {
			return w.rome.get(t, "mixed", "on-"+providerID, "http://"+w.milan.clusterIP(t, "mixed-"+consumerID, "both")+"/")
		},
	} {
		answered := map[string]bool{}
		planetest.Until(t, func(t planetest.T) bool {
			answered[ask(t)] = true
			return assert.Len(t, answered, 2, "%v", answered)
		}, soon, poll, "%s reaches the pods of both clusters", side)
	}
}
