package e2e_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/console"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/e2e/clusters"
	"github.com/longshore-dev/longshore/hack/e2e/node"
)

// world is the two clusters.
type world struct {
	rome, milan *cluster
	console     *console.Console
	// folder of stateDir is where their data is.
	folder string
}

// step is a part of the test. Steps build on each other: the first that fails ends the test. A
// step that -test.run does not select prints nothing.
func (w *world) step(t *testing.T, title string, run func(t *testing.T)) {
	t.Helper()
	passed := t.Run(title, func(t *testing.T) {
		err := w.console.Step(title, func(func(string)) error {
			if !t.Run("run", run) {
				return os.ErrInvalid // It is only shown whether there is one.
			}
			return nil
		})
		if err != nil {
			t.FailNow()
		}
	})
	if !passed {
		t.FailNow()
	}
}

// TestLongshoreOnRealNodes installs Longshore in two clusters with a real node each, and does
// with it what people do.
func TestLongshoreOnRealNodes(t *testing.T) {
	w := &world{console: console.NewPlain(os.Stdout)}
	defer w.stop(t)
	w.step(t, "Starting the clusters rome and milan, each with a real node", w.start)
	w.step(t, "Installing cluster DNS and metrics-server in both", w.installAddons)
	romeBefore, milanBefore := w.rome.objects(t), w.milan.objects(t)
	w.step(t, "helm install of charts/longshore in both", w.install)
	w.step(t, "longshorectl peer", w.peer)
	w.step(t, "helm test in both", func(t *testing.T) {
		w.rome.test(t)
		w.milan.test(t)
	})
	w.step(t, "Offloading a namespace and a Deployment", w.offload)
	w.step(t, "A pod of rome reaches the remote pods and their Service", w.reachFromConsumer)
	w.step(t, "A remote pod reaches the endpoints of both clusters", w.reachFromProvider)
	w.step(t, "A remote pod calls Services by name", w.callByName)
	w.step(t, "kubectl exec, logs, attach, cp and port-forward", w.streams)
	w.step(t, "A ConfigMap changes in the remote container", w.changeConfigMap)
	w.step(t, "Init containers, a sidecar, probes and restarts", w.lifecycle)

	w.step(t, "kubectl debug starts an ephemeral container", w.debug)
	w.step(t, "A remote container is resized in place", w.resize)
	w.step(t, "Jobs complete and fail", w.jobs)
	w.step(t, "A remote pod asks the API server of rome", w.askHomeAPIServer)
	w.step(t, "A StatefulSet keeps its data", w.keepData)
	w.step(t, "longshorectl move volume", w.moveVolume)
	w.step(t, "A wasm policy from a ConfigMap changes the next pod", w.loadPolicy)
	w.step(t, "kubectl top shows the use of remote pods", w.top)
	w.step(t, "A HorizontalPodAutoscaler scales a remote Deployment", w.autoscale)
	w.step(t, "All certificates that the clusters sign are renewed under open streams", w.rotateCertificates)
	w.step(t, "The provider drains its node", w.drainProvider)
	w.step(t, "kill -9 of each process of Longshore", w.killLongshore)
	w.step(t, "kill -9 of the provider's kubelet", w.killProviderKubelet)
	w.step(t, "kill -9 of the provider's control plane", w.killProviderControlPlane)
	w.step(t, "The network between the clusters is cut", w.cutNetwork)
	w.step(t, "A CronJob ran", w.cronJobRuns)
	w.saveLogs(t)
	w.step(t, "Namespaces are no longer offloaded", w.withdraw)
	w.step(t, "longshorectl unpeer", w.unpeer)
	w.step(t, "helm uninstall in both", w.uninstall)
	w.step(t, "Both clusters are as they were", func(t *testing.T) {
		assertUnchanged(t, w.rome, romeBefore)
		assertUnchanged(t, w.milan, milanBefore)
	})
}

func (w *world) start(t *testing.T) {
	require.NoError(t, node.ConnectNodes(t.Context(), clusters.Gateway, clusters.PrefixLength))
	type result struct {
		cluster *cluster
		err     error
	}
	start := func(name string) <-chan result {
		done := make(chan result, 1)
		go func() {
			c, err := startCluster(t.Context(), w.folder, name)
			done <- result{c, err}
		}()
		return done
	}
	rome, milan := start(consumerID), start(providerID)
	for name, started := range map[string]<-chan result{consumerID: rome, providerID: milan} {
		r := <-started
		require.NoError(t, r.err)
		if name == consumerID {
			w.rome = r.cluster
		} else {
			w.milan = r.cluster
		}
		r.cluster.waitForNode(t, name)
		// The kubelet creates its lease when it likes.
		planetest.Until(t, func(t planetest.T) bool {
			return r.cluster.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: name}, &coordinationv1.Lease{}) == nil
		}, soon, poll, "node %s has a lease", name)
	}
}

// stop ends the clusters that were started.
func (w *world) stop(t *testing.T) {
	t.Helper()
	var errs []error
	for _, c := range []*cluster{w.rome, w.milan} {
		if c != nil {
			errs = append(errs, c.node.Stop())
		}
	}
	errs = append(errs, node.DisconnectNodes(context.WithoutCancel(t.Context())))
	require.NoError(t, errors.Join(errs...))
}

// waitForNode waits until a node is ready.
func (c *cluster) waitForNode(t *testing.T, name string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		found := &corev1.Node{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: name}, found))
		for _, condition := range found.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return assert.Equal(t, corev1.ConditionTrue, condition.Status, condition.Message)
			}
		}
		return false
	}, soon, poll, "node %s of %s is ready", name, c.name)
}

func (w *world) install(t *testing.T) {
	w.rome.apply(t, strings.ReplaceAll(storageClass, "MODE", "Immediate"))
	w.milan.apply(t, strings.ReplaceAll(storageClass, "MODE", "WaitForFirstConsumer"))
	w.rome.install(t, files.Current(), map[string]any{
		"virtualKubelet": map[string]any{"apiServerAccess": map[string]any{"host": clusters.Networks[consumerID].Address, "port": "6443"}},
	})
	w.milan.install(t, files.Current(), map[string]any{})
}

// longshorectl returns the output of longshorectl, which must succeed.
func longshorectl(t *testing.T, args ...string) string {
	t.Helper()
	return execute(t, exec.CommandContext(t.Context(), files.Longshorectl(), args...))
}

func (w *world) peer(t *testing.T) {
	t.Log(longshorectl(t, "peer", "--kubeconfig", w.rome.node.Kubeconfig(), "--remote-kubeconfig", w.milan.node.Kubeconfig()))
	w.rome.waitForNode(t, providerID)
}

const shop = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: shop}
spec: {podOffloadingStrategy: Remote}
`

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: web
        image: longshore/e2e-app:1
        args: [serve]
        stdin: true
        ports: [{containerPort: 8080}]
        env:
        - {name: GREETING, value: hello}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`

func (w *world) offload(t *testing.T) {
	w.rome.apply(t, shop)
	w.rome.waitForOffloading(t, "shop")
	w.rome.apply(t, web)
	for _, pod := range w.rome.readyPods(t, "shop", "app=web", 2) {
		assert.Equal(t, providerID, pod.Spec.NodeName)
		remote := &corev1.Pod{}
		require.NoError(t, w.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-" + consumerID, Name: pod.Name}, remote))
		assert.Equal(t, remote.Status.PodIP, pod.Status.PodIP)
	}
}
