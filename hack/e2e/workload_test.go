package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/e2e/clusters"
	"github.com/longshore-dev/longshore/hack/e2e/images"
)

// replaceNode fills in the NODE of a manifest.
func replaceNode(manifest, name string) string { return strings.ReplaceAll(manifest, "NODE", name) }

func (c *cluster) waitForOffloading(t *testing.T, namespace string) {
	t.Helper()
	c.kubectl(t, "-n", namespace, "wait", "--for=jsonpath={.status.offloadingPhase}=Ready", "namespaceoffloading/offloading", "--timeout=1m")
}

const settings = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {color: COLOR}
`

const lifecycle = `
apiVersion: v1
kind: Pod
metadata: {name: lifecycle, namespace: shop, labels: {app: lifecycle}}
spec:
  terminationGracePeriodSeconds: 2
  initContainers:
  - {name: prepare, image: "longshore/e2e-app:1", args: [write, /shared/prepared, "prepared"], volumeMounts: [{name: shared, mountPath: /shared}]}
  - name: sidecar
    image: longshore/e2e-app:1
    restartPolicy: Always
    args: [serve]
    env: [{name: PORT, value: "8081"}]
    startupProbe: {httpGet: {path: /readyz, port: 8081}, periodSeconds: 1}
  containers:
  - name: main
    image: longshore/e2e-app:1
    args: [serve]
    volumeMounts: [{name: shared, mountPath: /shared}, {name: settings, mountPath: /settings}]
    readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
    livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 1}
  volumes:
  - {name: shared, emptyDir: {}}
  - {name: settings, configMap: {name: settings}}
`

func (w *world) changeConfigMap(t *testing.T) {
	w.rome.apply(t, strings.ReplaceAll(settings, "COLOR", "red"))
	w.rome.apply(t, lifecycle)
	w.rome.readyPods(t, "shop", "app=lifecycle", 1)
	read := func(t planetest.T) string {
		return w.rome.kubectl(t, "-n", "shop", "exec", "lifecycle", "-c", "main", "--", "/app", "cat", "/settings/color")
	}
	assert.Equal(t, "red", read(t))
	w.rome.apply(t, strings.ReplaceAll(settings, "COLOR", "blue"))
	planetest.Until(t, func(t planetest.T) bool { return assert.Equal(t, "blue", read(t)) }, soon, poll)
}

func (w *world) lifecycle(t *testing.T) {
	pod := func(t planetest.T) *corev1.Pod {
		found := &corev1.Pod{}
		require.NoError(t, w.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "lifecycle"}, found))
		return found
	}
	until := func(what string, condition func(t planetest.T, pod *corev1.Pod)) {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool {
			condition(t, pod(t))
			return true
		}, soon, poll, what)
	}
	ask := func(path string) { w.rome.get(t, "shop", "lifecycle", "http://localhost:8080"+path) }

	assert.Equal(t, "prepared", w.rome.kubectl(t, "-n", "shop", "exec", "lifecycle", "-c", "main", "--", "/app", "cat", "/shared/prepared"))
	statuses := pod(t).Status.InitContainerStatuses
	require.Len(t, statuses, 2)
	require.NotNil(t, statuses[0].State.Terminated)
	assert.Equal(t, "Completed", statuses[0].State.Terminated.Reason)
	assert.True(t, statuses[1].Ready, "the sidecar runs beside the container")

	ask("/unready")
	until("the pod of rome is not ready", func(t planetest.T, pod *corev1.Pod) { require.False(t, podIsReady(pod)) })
	ask("/ready")
	until("the pod of rome is ready again", func(t planetest.T, pod *corev1.Pod) { require.True(t, podIsReady(pod)) })
	ask("/break")
	until("the liveness probe restarted the container", func(t planetest.T, pod *corev1.Pod) {
		require.EqualValues(t, 1, pod.Status.ContainerStatuses[0].RestartCount)
		require.True(t, podIsReady(pod))
	})
	assert.Contains(t, w.rome.kubectl(t, "-n", "shop", "logs", "lifecycle", "-c", "main", "--previous"), "asked to end")
	_ = w.rome.kubectlCommand(t.Context(), "-n", "shop", "exec", "lifecycle", "-c", "main", "--", "/app", "get", "http://localhost:8080/exit").Run()
	until("the container that ended was started again", func(t planetest.T, pod *corev1.Pod) {
		status := pod.Status.ContainerStatuses[0]
		require.EqualValues(t, 2, status.RestartCount)
		require.NotNil(t, status.LastTerminationState.Terminated)
		require.EqualValues(t, 7, status.LastTerminationState.Terminated.ExitCode)
		require.True(t, podIsReady(pod))
	})
}

const jobs = `
apiVersion: batch/v1
kind: Job
metadata: {name: report, namespace: shop}
spec:
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: app, image: "longshore/e2e-app:1", args: [print, reported]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: broken, namespace: shop}
spec:
  backoffLimit: 0
  template:
    metadata: {labels: {app: broken}}
    spec:
      restartPolicy: Never
      containers: [{name: app, image: "longshore/e2e-app:1", args: [fail, as intended]}]
`

func (w *world) jobs(t *testing.T) {
	w.rome.apply(t, jobs+"---"+cronJob)
	w.rome.kubectl(t, "-n", "shop", "wait", "--for=condition=Complete", "job/report", "--timeout=1m")
	assert.Contains(t, w.rome.kubectl(t, "-n", "shop", "logs", "job/report"), "reported")
	w.rome.kubectl(t, "-n", "shop", "wait", "--for=condition=Failed", "job/broken", "--timeout=1m")
	pods := &corev1.PodList{}
	require.NoError(t, w.rome.List(t.Context(), pods, client.InNamespace("shop"), client.MatchingLabels{"app": "broken"}))
	require.Len(t, pods.Items, 1)
	terminated := pods.Items[0].Status.ContainerStatuses[0].State.Terminated
	require.NotNil(t, terminated)
	assert.EqualValues(t, 3, terminated.ExitCode)
}

const account = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: shop}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [settings], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: shop}]
---
apiVersion: v1
kind: Pod
metadata: {name: reader, namespace: shop, labels: {app: reader}}
spec:
  serviceAccountName: reader
  terminationGracePeriodSeconds: 2
  containers: [{name: app, image: "longshore/e2e-app:1", args: [serve]}]
`

const cronJob = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: regular, namespace: shop}
spec:
  schedule: "* * * * *"
  successfulJobsHistoryLimit: 1
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: OnFailure
          containers: [{name: app, image: "longshore/e2e-app:1", args: [print, regular]}]
`

// A CronJob runs every minute; it was created with the Jobs.
func (w *world) cronJobRuns(t *testing.T) {
	w.rome.kubectl(t, "-n", "shop", "wait", "--for=jsonpath={.status.lastSuccessfulTime}", "cronjob/regular", "--timeout=3m")
	w.rome.kubectl(t, "-n", "shop", "delete", "cronjob", "regular")
}

const mirroredPod = `
apiVersion: v1
kind: Pod
metadata: {name: mirrored, namespace: shop, labels: {app: mirrored}}
spec:
  terminationGracePeriodSeconds: 2
  containers: [{name: app, image: "shop.example/e2e-app:1", args: [serve]}]
`

const mirrorPolicy = `
points: [PodMutation]
order: 10
settings: {rewrites: [{from: shop.example, to: longshore}]}
`

// A policy of the user, a wasm module in a ConfigMap, changes the image of the next pod, which
// could not start otherwise.
func (w *world) loadPolicy(t *testing.T) {
	spec := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(spec, []byte(mirrorPolicy), 0o600))
	w.rome.kubectl(t, "-n", clusters.Namespace, "create", "configmap", "mirror", "--from-file="+plugin, "--from-file="+spec)
	w.rome.kubectl(t, "-n", clusters.Namespace, "label", "configmap", "mirror", "longshore.dev/policy=true")
	planetest.Until(t, func(t planetest.T) bool {
		return assert.Contains(t, w.rome.kubectl(t, "get", "offloadingpolicy", "mirror", "-o", "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}"), "True")
	}, soon, poll, "all components use the policy")
	w.rome.apply(t, mirroredPod)
	w.rome.readyPods(t, "shop", "app=mirrored", 1)
	remote := w.milan.pods(t, "shop-"+consumerID, "mirrored")
	require.Len(t, remote, 1)
	assert.Equal(t, images.App, remote[0].Spec.Containers[0].Image)
	w.rome.kubectl(t, "-n", clusters.Namespace, "delete", "configmap", "mirror")
	w.rome.kubectl(t, "-n", "shop", "delete", "pod", "mirrored")
}

// The remote pod has the token of its service account in rome, and the address and the
// authority of rome's API server.
func (w *world) askHomeAPIServer(t *testing.T) {
	w.rome.apply(t, account)
	w.rome.readyPods(t, "shop", "app=reader", 1)
	answer := w.rome.kubectl(t, "-n", "shop", "exec", "reader", "--", "/app", "api", "/api/v1/namespaces/shop/configmaps/settings")
	assert.Contains(t, answer, `"data":{"color":"blue"}`)
	forbidden, err := w.rome.kubectlCommand(t.Context(), "-n", "shop", "exec", "reader", "--", "/app", "api", "/api/v1/namespaces/shop/secrets").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(forbidden), "403 Forbidden")
}
