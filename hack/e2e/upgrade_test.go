package e2e_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/console"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/e2e/clusters"
)

// TestUpgradeOnRealNodes upgrades Longshore from an older commit, rolls back and upgrades again,
// while a client calls remote pods.
func TestUpgradeOnRealNodes(t *testing.T) {
	previous, current := files.Previous(), files.Current()
	if _, err := os.Stat(previous.Chart); err != nil {
		t.Skip("there is no older chart: make e2e builds it, if the clone has the history for it")
	}
	w := &world{console: console.NewPlain(os.Stdout), folder: upgradeFolder}
	defer w.stop(t)
	w.step(t, "Starting the clusters rome and milan again", w.start)
	w.step(t, "helm install of the older chart in both", func(t *testing.T) {
		w.rome.install(t, previous, map[string]any{})
		w.milan.install(t, previous, map[string]any{})
	})
	w.step(t, "longshorectl peer", w.peer)
	w.step(t, "Offloading a namespace and a Deployment", w.offload)
	w.step(t, "A client calls the remote pods", w.call)
	local, remote := w.rome.identities(t, "shop", "web"), w.milan.identities(t, "shop-"+consumerID, "web")
	untouched := func(change func(t *testing.T)) func(t *testing.T) {
		return func(t *testing.T) {
			change(t)
			assert.Equal(t, local, w.rome.identities(t, "shop", "web"), "the pods of rome")
			assert.Equal(t, remote, w.milan.identities(t, "shop-"+consumerID, "web"), "the remote pods")
			w.assertCalled(t)
			w.scale(t, 3)
			w.scale(t, 2)
			assert.Equal(t, local, w.rome.identities(t, "shop", "web"), "the pods of rome")
		}
	}
	upgrade := func(t *testing.T) {
		for _, c := range []*cluster{w.milan, w.rome} {
			c.upgrade(t, current)
		}
		w.waitForImage(t, current)
	}
	w.step(t, "helm upgrade in both", untouched(upgrade))
	w.step(t, "helm rollback in both", untouched(func(t *testing.T) {
		for _, c := range []*cluster{w.rome, w.milan} {
			c.rollback(t)
		}
		w.waitForImage(t, previous)
	}))
	w.step(t, "helm upgrade in both again", untouched(upgrade))
	w.step(t, "helm test in both after the upgrade", func(t *testing.T) {
		w.rome.test(t)
		w.milan.test(t)
	})
	w.saveLogs(t)
}

// waitForImage waits until all components, and the virtual kubelet, which follows the chart by itself,
// run the image of a release.
func (w *world) waitForImage(t *testing.T, r clusters.Release) {
	t.Helper()
	for _, c := range []*cluster{w.rome, w.milan} {
		planetest.Until(t, func(t planetest.T) bool {
			list := &appsv1.DeploymentList{}
			require.NoError(t, c.List(t.Context(), list))
			for i := range list.Items {
				d := &list.Items[i]
				if image := d.Spec.Template.Spec.Containers[0].Image; strings.Contains(image, "longshore/longshore:") {
					require.True(t, strings.HasSuffix(image, ":"+r.Tag), "%s/%s has %s", d.Namespace, d.Name, image)
				}
				require.Equal(t, d.Generation, d.Status.ObservedGeneration, "%s/%s", d.Namespace, d.Name)
				require.Equal(t, d.Status.Replicas, d.Status.UpdatedReplicas, "%s/%s", d.Namespace, d.Name)
				require.Equal(t, d.Status.Replicas, d.Status.AvailableReplicas, "%s/%s", d.Namespace, d.Name)
			}
			return true
		}, soon, poll, "the components of %s run the image %s", c.name, r.Tag)
	}
	w.rome.waitForNode(t, providerID)
}

const caller = `
apiVersion: v1
kind: Pod
metadata: {name: caller, namespace: default, labels: {app: caller}}
spec:
  terminationGracePeriodSeconds: 2
  containers: [{name: app, image: "longshore/e2e-app:1", args: [call, URLS]}]
`

// call starts a pod of rome that calls the remote pods and their Service without a pause.
func (w *world) call(t *testing.T) {
	urls := []string{"http://" + w.rome.clusterIP(t, "shop", "web") + "/"}
	for _, pod := range w.rome.readyPods(t, "shop", "app=web", 2) {
		urls = append(urls, "http://"+pod.Status.PodIP+":8080/")
	}
	w.rome.apply(t, localClient)
	w.rome.readyPods(t, "default", "app=client", 1)
	planetest.Until(t, func(t planetest.T) bool {
		return assert.Contains(t, w.rome.get(t, "default", "client", urls[0]), " hello\n")
	}, soon, poll, "kube-proxy of rome knows the remote endpoints")
	w.rome.apply(t, strings.ReplaceAll(caller, "URLS", strings.Join(urls, ", ")))
	w.rome.readyPods(t, "default", "app=caller", 1)
	w.assertCalled(t)
}

// assertCalled fails if a call has failed, or none is made any more.
func (w *world) assertCalled(t *testing.T) {
	t.Helper()
	logs := func(t planetest.T) string { return w.rome.kubectl(t, "-n", "default", "logs", "caller") }
	before := strings.Count(logs(t), "called")
	planetest.Until(t, func(t planetest.T) bool { return assert.Greater(t, strings.Count(logs(t), "called"), before) }, soon, poll, "the client calls")
	var failed []string
	for line := range strings.Lines(logs(t)) {
		if !strings.HasPrefix(line, "called") {
			failed = append(failed, line)
		}
	}
	assert.Empty(t, failed, "failed calls")
	assert.Zero(t, w.rome.identities(t, "default", "caller")["caller"].restarts)
}
