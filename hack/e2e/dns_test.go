package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

const settled = `
apiVersion: v1
kind: Namespace
metadata: {name: settled}
---
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: settled}
spec: {podOffloadingStrategy: Remote, namespaceMappingStrategy: EnforceSameName}
`

const settledWeb = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: settled, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: app
    image: longshore/e2e-app:1
    args: [serve]
    env: [{name: GREETING, value: settled}]
    readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: settled}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: peers, namespace: settled}
spec:
  clusterIP: None
  selector: {app: web}
  ports: [{port: 8080}]
`

// lookUp returns what a container of rome's pod finds for a name.
func (c *cluster) lookUp(t planetest.T, namespace, pod, name string) (string, error) {
	t.Helper()
	out, err := c.kubectlCommand(t.Context(), "-n", namespace, "exec", pod, "--", "/app", "lookup", name).CombinedOutput()
	return string(out), err
}

// A remote pod asks the provider's DNS, in which a reflected Service is in the remote namespace:
// its short name is found; its name with the namespace is where the namespace keeps its name.
func (w *world) callByName(t *testing.T) {
	w.rome.apply(t, localClient+"---"+settled)
	w.rome.waitForOffloading(t, "settled")
	w.rome.apply(t, settledWeb)
	inSettled := w.rome.readyPods(t, "settled", "app=web", 1)[0]
	inShop := w.rome.readyPods(t, "shop", "app=web", 2)[0].Name
	remote := "shop-" + consumerID
	for name, lookup := range map[string]struct{ namespace, pod, name, want string }{
		"the short name":                              {"shop", inShop, "web", w.milan.clusterIP(t, remote, "web")},
		"the name in the remote namespace":            {"shop", inShop, "web." + remote + ".svc.cluster.local", w.milan.clusterIP(t, remote, "web")},
		"the name in a namespace that keeps its name": {"settled", "web", "web.settled.svc.cluster.local", w.milan.clusterIP(t, "settled", "web")},
		"a Service of such a namespace, from another": {"shop", inShop, "web.settled", w.milan.clusterIP(t, "settled", "web")},
		"a headless Service":                          {"settled", "web", "peers", inSettled.Status.PodIP},
		"a Service of the provider":                   {"shop", inShop, "metrics-server.kube-system", w.milan.clusterIP(t, "kube-system", "metrics-server")},
	} {
		planetest.Until(t, func(t planetest.T) bool {
			out, err := w.rome.lookUp(t, lookup.namespace, lookup.pod, lookup.name)
			require.NoError(t, err, "%s", out)
			return assert.Equal(t, lookup.want+"\n", out)
		}, soon, poll, "%s", name)
	}
	out, err := w.rome.lookUp(t, "shop", inShop, "web.shop.svc.cluster.local")
	require.Error(t, err, "the provider has no namespace shop")
	assert.Contains(t, out, "no such host")
	planetest.Until(t, func(t planetest.T) bool {
		return assert.Contains(t, w.rome.get(t, "shop", inShop, "http://web/"), " hello\n")
	}, soon, poll, "a remote pod calls the Service of its namespace")
	assert.Equal(t, " settled\n", w.rome.get(t, "shop", inShop, "http://web.settled/"))
	w.rome.readyPods(t, "default", "app=client", 1)
	// A pod of rome asks rome's DNS, which has the name that the user gave.
	planetest.Until(t, func(t planetest.T) bool {
		return assert.Contains(t, w.rome.get(t, "default", "client", "http://web.shop/"), " hello\n")
	}, soon, poll, "a pod of rome calls the Service by its name in rome")
	w.rome.kubectl(t, "delete", "namespace", "settled", "--timeout=1m")
}
