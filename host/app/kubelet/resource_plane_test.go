package kubelet_test

import (
	"bytes"
	"compress/gzip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// siteModule returns the compressed module of conformance/guests/resource.
func siteModule(t *testing.T) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles a Go runtime")
	}
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/longshore-dev/longshore/conformance/guests/resource").Output()
	require.NoError(t, err)
	wasm, err := toolchain.Go(t.Context(), strings.TrimSpace(string(dir)))
	require.NoError(t, err)
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	require.NoError(t, err)
	_, err = writer.Write(wasm)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return packed.Bytes()
}

func sitePolicy(points ...policyv1alpha1.ExtensionPoint) *policyv1alpha1.OffloadingPolicy {
	return &policyv1alpha1.OffloadingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "site"},
		Spec: policyv1alpha1.OffloadingPolicySpec{
			Module: policyv1alpha1.ModuleSource{ConfigMap: &policyv1alpha1.ConfigMapSource{Name: "site", Namespace: "longshore", Key: "module.wasm.gz"}},
			Points: points,
		},
	}
}

// A module changes a reflected ConfigMap and withdraws a Secret. Without its policy, both are
// restored.
func TestResourceMutationPolicyChangesWhatIsReflected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	module := siteModule(t)
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig))
	r.mapNamespace()
	metadata := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels}
	}
	r.create(r.rome,
		&corev1.ConfigMap{ObjectMeta: metadata("settings", nil), Data: map[string]string{"k": "v"}},
		&corev1.Secret{ObjectMeta: metadata("home", map[string]string{"example.com/site": "home"}), StringData: map[string]string{"password": "x"}},
		&corev1.Secret{ObjectMeta: metadata("free", nil), StringData: map[string]string{"password": "y"}},
		&corev1.Service{ObjectMeta: metadata("web", nil), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	// Unknown extension points are rejected.
	err := r.rome.Create(t.Context(), sitePolicy(policyv1alpha1.ResourceMutationPoint, "NodeAdmission"))
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, `spec.points[1]: Unsupported value: "NodeAdmission"`)
	require.ErrorContains(t, err, `"ResourceMutation"`, "the error lists the supported values")
	r.runKubelet(r.options())

	exists := func(t planetest.T, object client.Object, name string) bool {
		err := r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, object)
		if !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
		return err == nil
	}
	settings := func(t planetest.T) map[string]string {
		cm := &corev1.ConfigMap{}
		if !exists(t, cm, "settings") {
			return nil
		}
		return cm.Data
	}
	isUnchanged := func(t planetest.T) bool {
		service := &corev1.Service{}
		return assert.ObjectsAreEqual(map[string]string{"k": "v"}, settings(t)) && exists(t, &corev1.Secret{}, "home") &&
			exists(t, &corev1.Secret{}, "free") && exists(t, service, "web") && service.Annotations["example.com/origin"] == ""
	}
	planetest.Until(t, isUnchanged, soon, tick, "all objects are reflected without changes")

	r.create(r.rome,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "site"}, BinaryData: map[string][]byte{"module.wasm.gz": module}},
		sitePolicy(policyv1alpha1.ResourceMutationPoint))
	planetest.Until(t, func(t planetest.T) bool {
		service := &corev1.Service{}
		return assert.ObjectsAreEqual(map[string]string{"k": "v", "cluster": "milan"}, settings(t)) &&
			!exists(t, &corev1.Secret{}, "home") && exists(t, service, "web") && service.Annotations["example.com/origin"] == "rome"
	}, soon, tick, "ConfigMap and Service are changed, the Secret is withdrawn")
	assert.True(t, exists(t, &corev1.Secret{}, "free"))
	cm := &corev1.ConfigMap{}
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "settings"}, cm))
	assert.Contains(t, cm.Annotations[remote.DecisionsAnnotation], `"point":"ResourceMutation","policy":"site"`)
	assert.Contains(t, cm.Annotations[remote.DecisionsAnnotation], "merge /data[cluster]")
	planetest.Until(t, func(t planetest.T) bool {
		events := &corev1.EventList{}
		require.NoError(t, r.rome.List(t.Context(), events, client.InNamespace("shop")))
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Kind == "Secret" && e.InvolvedObject.Name == "home" && e.Reason == "ReflectionDisabled" && e.Type == corev1.EventTypeNormal &&
				strings.Contains(e.Message, `policy "site"`) && strings.Contains(e.Message, "HomeOnly: it is labeled as of use in cluster rome only")
		})
	}, soon, tick, "an event on the Secret")

	require.NoError(t, r.rome.Delete(t.Context(), sitePolicy()))
	planetest.Until(t, isUnchanged, soon, tick, "all objects are reflected without changes again")
}
