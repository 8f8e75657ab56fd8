package rig_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/hack/demo/rig"
)

// howToPolicies follows the pages about policies with the example policy, which the first page loads,
// and with a pod.
func howToPolicies(t *testing.T, r *rig.Rig) {
	reader := startHowTos(t, r)
	reader.runs(t, "cp '"+filepath.Join(topOf(t), "bin", "plugins", "registryrewrite")+"'/{module.wasm.gz,policy.yaml} .")
	reader.follows(t, "docs/howto/load-a-policy.md", "## Check the module first", "## Load", "## Check that it runs")
	reader.follows(t, "docs/howto/operate-policies.md")
	reader.follows(t, "docs/howto/debug-a-refused-policy.md")
	reader.runs(t, `cp docs/howto/plan/pod.yaml .
kubectl -n shop create -f pod.yaml
kubectl -n shop wait --for=condition=Ready pod/web --timeout=2m`)
	reader.follows(t, "docs/howto/debug-a-refused-pod.md")
	reader.follows(t, "docs/howto/grant-policy-rights.md", "# Grant rights to policies", "## Roles")
	reader.runs(t, `kubectl -n shop delete pod web
kubectl -n longshore delete configmap registry-rewrite
kubectl wait --for=delete offloadingpolicy/registry-rewrite --timeout=2m
kubectl patch offloadingpolicy default-antiaffinity --type=json -p '[{"op":"remove","path":"/spec/failurePolicy"}]'
kubectl delete clusterrolebinding policy-authors
kubectl -n longshore delete rolebinding policy-authors`)

	writeLargeModule(t, filepath.Join(reader.dir, "module.wasm"))
	reader.runs(t, "rm module.wasm.gz")
	reader.follows(t, "docs/howto/large-modules.md")
	reader.runs(t, "kubectl delete offloadingpolicy big && kubectl -n longshore delete configmap big big-2")
}

// writeModule writes a module that is small enough for the values of the chart.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	module, _ := stampModule("1")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(module)
	require.NoError(t, errors.Join(err, w.Close()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "module.wasm.gz"), packed.Bytes(), 0o600))
}

// writeLargeModule writes a module that two ConfigMaps hold, and one does not: most of it is a custom
// section of bytes that cannot be compressed.
func writeLargeModule(t *testing.T, path string) {
	t.Helper()
	module, _ := stampModule("1")
	section := make([]byte, 1<<20)
	_, err := rand.Read(section)
	require.NoError(t, err)
	section[0] = 0 // the length of its name
	module = append(binary.AppendUvarint(append(module, 0), uint64(len(section))), section...)
	require.NoError(t, os.WriteFile(path, module, 0o600))
}

// howToObjects follows the pages about what is reflected.
func howToObjects(t *testing.T, r *rig.Rig) {
	reader := startHowTos(t, r)
	reader.follows(t, "docs/howto/troubleshoot.md")
	reader.follows(t, "docs/howto/change-or-skip-objects.md")
	reader.runs(t, `kubectl --kubeconfig milan.kubeconfig -n shop-rome wait --for=create configmap/catalog-items --timeout=2m
kubectl -n shop create configmap settings
kubectl -n shop label configmap settings example.com/team=shop`)
	reader.follows(t, "docs/howto/filter-labels.md")
	reader.runs(t, "kubectl -n shop delete configmap settings")

	reader.runs(t, `for cluster in rome milan; do
  kubectl --kubeconfig $cluster.kubeconfig apply -f - <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: Certificate, listKind: CertificateList, plural: certificates, singular: certificate}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {status: {}}
END
  kubectl --kubeconfig $cluster.kubeconfig wait --for=condition=Established customresourcedefinition/certificates.cert-manager.io --timeout=1m
done`)
	reader.follows(t, "docs/howto/reflect-a-custom-resource.md", "# Reflect a custom resource", "## Allow it", "## Watch it")
	reader.runs(t, `kubectl apply -f - <<END
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: web, namespace: shop}
END
kubectl --kubeconfig milan.kubeconfig -n shop-rome wait --for=create certificate/web --timeout=2m`)
	reader.follows(t, "docs/howto/reflect-a-custom-resource.md", "## End it")
	reader.runs(t, `kubectl wait --for=delete resourcereflection/certificate.cert-manager.io --timeout=2m
kubectl --kubeconfig milan.kubeconfig -n shop-rome wait --for=delete certificate/web --timeout=2m
for cluster in rome milan; do
  kubectl --kubeconfig $cluster.kubeconfig delete customresourcedefinition/certificates.cert-manager.io clusterrole/longshore-reflects-certificates
done`)
}

// howToPlan follows the page about planning, which writes nothing.
func howToPlan(t *testing.T, r *rig.Rig) {
	startHowTos(t, r).follows(t, "docs/howto/plan-before-you-offload.md")
}

// howToVolumes follows the page about volumes, and takes its StatefulSet and the data away.
func howToVolumes(t *testing.T, r *rig.Rig) {
	reader := startHowTos(t, r)
	reader.follows(t, "docs/howto/offload-a-statefulset.md")
	reader.runs(t, `volume=$(kubectl get pvc data-db-0 -n shop -o jsonpath='{.spec.volumeName}')
kubectl patch pv $volume -p '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'
kubectl -n shop delete statefulset db
kubectl -n shop wait --for=delete pod/db-0 --timeout=2m
kubectl -n shop delete pvc data-db-0 --timeout=2m
kubectl wait --for=delete pv/$volume --timeout=2m
kubectl --kubeconfig milan.kubeconfig -n shop-rome wait --for=delete pvc/data-db-0 --timeout=2m`)
}
