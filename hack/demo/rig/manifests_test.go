package rig_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// manifests are those of the reference's documents, without a change.
const manifests = "../../../host/apis/testdata"

// TestTheManifestsOfTheDocumentsApply applies each manifest of the documents after longshorectl
// peer, and looks for what the documents say of it. The provider has the name that they use.
func TestTheManifestsOfTheDocumentsApply(t *testing.T) {
	t.Parallel()
	sides, s := startThree(t, "rome", "cool-firefly")
	defer func() { t.Log("\n" + s.transcript.String()) }()
	s.ok(t, "peer --kubeconfig @rome --remote-kubeconfig @cool-firefly --networking-disabled --create-resource-slice=false")
	rome := sides["rome"].Cluster
	require.NoError(t, rome.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}))

	shows := map[string]func(*testing.T, *rig.Cluster){
		"namespaceoffloading-region.yaml":  showNamespaceOffloading,
		"resourceslice.yaml":               func(t *testing.T, c *rig.Cluster) { showNode(t, c, "mypool", "4", "8Gi") },
		"virtualnode-existing-secret.yaml": func(t *testing.T, c *rig.Cluster) { showNode(t, c, "mynode", "2", "4Gi") },
		"virtualnode-existing-slice.yaml": func(t *testing.T, c *rig.Cluster) {
			showNode(t, c, "mynode", "4", "8Gi")
			node := &corev1.Node{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "mynode"}, node))
			assert.Equal(t, "kubeadm", node.Labels["liqo.io/provider"])
		},
	}
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	require.NoError(t, err)
	require.Len(t, files, len(shows))
	for _, file := range files {
		name := filepath.Base(file)
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		if original, err := os.ReadFile(filepath.Join("../../../../shared/fixtures/manifests", name)); err == nil {
			assert.Equal(t, string(original), string(raw), "%s is a copy", name)
		}
		if !t.Run(name, func(t *testing.T) {
			kubectlApply(t, rome, raw)
			shows[name](t, rome)
		}) {
			return
		}
	}
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "mynode", Namespace: "liqo-tenant-cool-firefly"}}
	region := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"labels":{"liqo.io/region":"us-west-1"}}}`))
	require.NoError(t, rome.Patch(t.Context(), vn, region))
	showPhase(t, rome, offloadingv1beta1.ReadyOffloadingPhaseType)
	require.NoError(t, sides["cool-firefly"].Get(t.Context(), client.ObjectKey{Name: "demo-rome"}, &corev1.Namespace{}))
}

// kubectlApply creates an object, or changes what the manifest names of the one that exists.
// Unknown fields are errors.
func kubectlApply(t *testing.T, c *rig.Cluster, manifest []byte) {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(manifest, &object.Object))
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	existing := object.DeepCopy()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), existing); err != nil {
		require.NoError(t, client.IgnoreNotFound(err))
		require.NoError(t, strict.Create(t.Context(), object))
		return
	}
	patch, err := yaml.YAMLToJSON(manifest)
	require.NoError(t, err)
	require.NoError(t, strict.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, patch)))
}

// showNode waits until a virtual node is ready and has the capacity.
func showNode(t *testing.T, c *rig.Cluster, name, cpu, memory string) {
	t.Helper()
	eventually(t, "node "+name+" has its capacity and is ready", func(t planetest.T) bool {
		node := &corev1.Node{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
			return false
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return node.Status.Capacity.Cpu().String() == cpu && node.Status.Capacity.Memory().String() == memory &&
					node.Labels["liqo.io/remote-cluster-id"] == "cool-firefly"
			}
		}
		return false
	})
}

// showNamespaceOffloading waits until no cluster is selected: no virtual node is in the region.
func showNamespaceOffloading(t *testing.T, c *rig.Cluster) {
	t.Helper()
	showPhase(t, c, offloadingv1beta1.NoClusterSelectedOffloadingPhaseType)
}

func showPhase(t *testing.T, c *rig.Cluster, want offloadingv1beta1.OffloadingPhaseType) {
	t.Helper()
	eventually(t, "the phase is "+string(want), func(t planetest.T) bool {
		nso := &offloadingv1beta1.NamespaceOffloading{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "offloading"}, nso))
		return nso.Status.OffloadingPhase == want
	})
}
