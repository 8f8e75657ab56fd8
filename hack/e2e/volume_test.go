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

// providerVolume is a folder of the provider's node as a volume.
const providerVolume = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: folders, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
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
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [milan]}]
`

// offerVolume gives the provider a StorageClass with a volume.
func (w *world) offerVolume(t *testing.T) {
	t.Helper()
	folder := filepath.Join(w.milan.node.Config.Dir, "volume")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	w.milan.apply(t, strings.ReplaceAll(providerVolume, "FOLDER", folder))
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
	w.rome.apply(t, database)
	before := w.rome.readyPods(t, "shop", "app=database", 1)[0].UID
	w.rome.kubectl(t, "-n", "shop", "exec", "database-0", "--", "/app", "write", "/data/value", "kept")
	content, err := os.ReadFile(filepath.Join(w.milan.node.Config.Dir, "volume", "value"))
	require.NoError(t, err)
	assert.Equal(t, "kept", string(content), "the data is on the provider's node")
	w.rome.kubectl(t, "-n", "shop", "delete", "pod", "database-0")
	assert.NotEqual(t, before, w.rome.readyPods(t, "shop", "app=database", 1)[0].UID)
	assert.Equal(t, "kept", w.rome.kubectl(t, "-n", "shop", "exec", "database-0", "--", "/app", "cat", "/data/value"))

	w.rome.kubectl(t, "-n", "shop", "delete", "statefulset", "database")
	w.rome.kubectl(t, "-n", "shop", "delete", "pvc", "data-database-0", "--timeout=2m")
	planetest.Until(t, func(t planetest.T) bool {
		return assert.Equal(t, "Released", w.milan.kubectl(t, "get", "pv", "folder", "-o", "jsonpath={.status.phase}"))
	}, soon, poll, "the remote claim is deleted")
	w.milan.kubectl(t, "delete", "pv/folder", "storageclass/folders")
}
