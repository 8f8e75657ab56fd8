package rig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/cluster"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// conformLines tests the installation from outside, as it is and with an error of its administrator.
func conformLines(t *testing.T, s *shell) {
	hideLabel(t, s.rig)
	dir := t.TempDir()
	page, results := filepath.Join(dir, "report.html"), filepath.Join(dir, "report.xml")
	const conform = "conform cluster --consumer @rome --provider @milan"
	report := conformance(t, s, conform+" --namespace shopfloor -o yaml --html "+page+" --junit "+results, 0)
	assert.True(t, report.Conforms)
	assert.Empty(t, report.Findings)
	for _, check := range report.Checks {
		assert.Equal(t, 1, check.Passed, "%s: %s", check.Rule, check.Skipped)
	}
	assert.Len(t, report.Checks, len(cluster.Rules()))
	assert.Equal(t, []string{"rome", "milan", "shopfloor", "shopfloor-rome"}, []string{report.Consumer, report.Provider, report.Namespace, report.RemoteNamespace})
	for path, want := range map[string]string{page: "The installation conforms", results: `<testsuite name="pod.runs" tests="1" failures="0"`} {
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(written), want)
	}
	nothingIsLeft(t, s.rig, "shopfloor")

	tooMany := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "consumers-may-do-all"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "rome"}},
	}
	require.NoError(t, s.rig.Milan.Create(t.Context(), tooMany))
	planetest.AwaitRights(t, s.rig.Milan.Client, tooMany)
	report = conformance(t, s, conform+" --namespace shopfloor -o yaml", 5)
	require.NoError(t, s.rig.Milan.Delete(t.Context(), tooMany))
	assert.False(t, report.Conforms)
	var failed []string
	for _, finding := range report.Findings {
		failed = append(failed, finding.Rule)
	}
	assert.Equal(t, []string{"identity.pods", "identity.confined"}, failed)
	assert.Contains(t, report.Findings[0].Error, "the provider allows it to create pods in namespace shopfloor-rome")
	nothingIsLeft(t, s.rig, "shopfloor")

	s.fails(t, conform+" --namespace kube-system", 1, `creating namespace "kube-system" in the consumer`)
	s.fails(t, "conform cluster --consumer @rome --provider @rome", 1, `both clusters have the ID "rome"`)
	s.fails(t, "conform cluster --consumer @rome", 2, "set --provider")
}

// hideLabel lists a label that is not reflected. The virtual kubelet follows the VirtualNode.
func hideLabel(t *testing.T, r *rig.Rig) {
	t.Helper()
	node := &offloadingv1beta1.VirtualNode{}
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Namespace: tenantInRome, Name: "milan"}, node))
	before := node.DeepCopy()
	if node.Spec.OffloadingPatch == nil {
		node.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{}
	}
	node.Spec.OffloadingPatch.LabelsNotReflected = append(node.Spec.OffloadingPatch.LabelsNotReflected, "conformance/hidden")
	require.NoError(t, r.Rome.Patch(t.Context(), node, client.MergeFrom(before)))
}

// conformance runs a command that prints a report.
func conformance(t *testing.T, s *shell, line string, code int) *cluster.Report {
	t.Helper()
	out, errs, got := s.run(t, line, "")
	require.Equal(t, code, got, "%s%s", out, errs)
	assert.Equal(t, len(cluster.Rules())+1, strings.Count(errs, "\n"), "a line for each check, and one for the clean-up: %s", errs)
	report := &cluster.Report{}
	require.NoError(t, yaml.Unmarshal([]byte(out), report))
	return report
}

func nothingIsLeft(t *testing.T, r *rig.Rig, namespace string) {
	t.Helper()
	for c, name := range map[*rig.Cluster]string{r.Rome: namespace, r.Milan: namespace + "-rome"} {
		assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{})), "%s in %s", name, c.Name)
	}
}
