package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// storageClass is the default class of a cluster. The provider advertises it when it is peered. In
// the consumer, no pod uses the claim that is made for a claim of the virtual class, so it is bound
// at once.
const storageClass = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: folders, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: MODE
`

// localVolume is a folder of a cluster's node as a volume.
const localVolume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: folder}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: folders
  local: {path: FOLDER}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [NODE]}]
`

// offerVolume gives the cluster an empty volume.
func (c *cluster) offerVolume(t *testing.T) {
	t.Helper()
	require.NoError(t, os.RemoveAll(c.volume()))
	require.NoError(t, os.MkdirAll(c.volume(), 0o700))
	c.apply(t, strings.NewReplacer("FOLDER", c.volume(), "NODE", c.name).Replace(localVolume))
}

// volume is the folder of the cluster's volume.
func (c *cluster) volume() string { return filepath.Join(c.node.Config.Dir, "volume") }

// withdrawVolume deletes the volume when its claim is deleted.
func (c *cluster) withdrawVolume(t *testing.T) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		return assert.Equal(t, "Released", c.kubectl(t, "get", "pv", "folder", "-o", "jsonpath={.status.phase}"))
	}, soon, poll, "the claim of the volume of %s is deleted", c.name)
	c.kubectl(t, "delete", "pv", "folder")
}

const database = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: database, namespace: shop}
spec:
  serviceName: database
  selector: {matchLabels: {app: database}}
  template:
    metadata: {labels: {app: database}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: app
        image: longshore/e2e-app:1
        args: [serve]
        readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      storageClassName: liqo
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
`

// The data of a StatefulSet is in the provider, and stays when the pod is replaced.
func (w *world) keepData(t *testing.T) {
	w.milan.offerVolume(t)
	w.rome.apply(t, database)
	before := w.rome.readyPods(t, "shop", "app=database", 1)[0].UID
	w.rome.kubectl(t, "-n", "shop", "exec", "database-0", "--", "/app", "write", "/data/value", "kept")
	content, err := os.ReadFile(filepath.Join(w.milan.volume(), "value"))
	require.NoError(t, err)
	assert.Equal(t, "kept", string(content), "the data is on the provider's node")
	w.rome.kubectl(t, "-n", "shop", "delete", "pod", "database-0")
	assert.NotEqual(t, before, w.rome.readyPods(t, "shop", "app=database", 1)[0].UID)
	assert.Equal(t, "kept", w.rome.kubectl(t, "-n", "shop", "exec", "database-0", "--", "/app", "cat", "/data/value"))

	w.rome.kubectl(t, "-n", "shop", "delete", "statefulset", "database")
	w.rome.kubectl(t, "-n", "shop", "delete", "pvc", "data-database-0", "--timeout=2m")
	w.milan.withdrawVolume(t)
}

const movedClaim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: mixed}
spec:
  storageClassName: liqo
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
`

const movedPod = `
apiVersion: v1
kind: Pod
metadata: {name: keeper, namespace: mixed, labels: {app: keeper}}
spec:
  terminationGracePeriodSeconds: 2
  nodeSelector: {kubernetes.io/hostname: NODE}
  containers:
  - name: app
    image: longshore/e2e-app:1
    args: [serve]
    readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: CLAIM}}]
`

// A volume of rome is copied to milan and deleted in rome, and its pod goes on there.
func (w *world) moveVolume(t *testing.T) {
	w.rome.offerVolume(t)
	w.milan.offerVolume(t)
	run := func(node, claim string) {
		w.rome.apply(t, strings.NewReplacer("NODE", node, "CLAIM", claim).Replace(movedPod))
		w.rome.readyPods(t, "mixed", "app=keeper", 1)
	}
	w.rome.apply(t, movedClaim)
	run(consumerID, "data")
	w.rome.kubectl(t, "-n", "mixed", "exec", "keeper", "--", "/app", "write", "/data/value", "moved")
	w.rome.kubectl(t, "-n", "mixed", "delete", "pod", "keeper")

	t.Log(longshorectl(t, "move", "volume", "data", "--namespace", "mixed", "--target-node", providerID, "--to", "there",
		"--delete-source", "--skip-confirm", "--kubeconfig", w.rome.node.Kubeconfig()))
	content, err := os.ReadFile(filepath.Join(w.milan.volume(), "value"))
	require.NoError(t, err)
	assert.Equal(t, "moved", string(content), "the data is on the provider's node")
	w.rome.withdrawVolume(t)
	run(providerID, "there")
	assert.Equal(t, "moved", w.rome.kubectl(t, "-n", "mixed", "exec", "keeper", "--", "/app", "cat", "/data/value"))

	w.rome.kubectl(t, "-n", "mixed", "delete", "pod", "keeper")
	w.rome.kubectl(t, "-n", "mixed", "delete", "pvc", "there", "--timeout=2m")
	w.milan.withdrawVolume(t)
}
