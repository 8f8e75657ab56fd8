package remote

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestCustomResource(t *testing.T) {
	local := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "Certificate",
		"metadata": map[string]any{
			"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": int64(3),
			"finalizers": []any{"example.com/x"}, "ownerReferences": []any{map[string]any{"name": "ingress"}},
			"labels": map[string]any{"secret": "x"}, "annotations": map[string]any{"secret": "x"},
		},
		"spec": map[string]any{"dnsNames": []any{"a"}}, "data": "kept", "status": map[string]any{"ready": true},
	}}
	before := local.DeepCopy()
	got := CustomResource(local, "shop-rome", map[string]string{"app": "web"}, map[string]string{"note": "x"}, Origin{HomeClusterID: "rome", ProviderClusterID: "milan"})
	assert.Equal(t, map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "Certificate",
		"metadata": map[string]any{
			"name": "web", "namespace": "shop-rome",
			"labels":      map[string]any{"app": "web", "offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"},
			"annotations": map[string]any{"note": "x", "policy.longshore.dev/local-generation": "3"},
		},
		"spec": map[string]any{"dnsNames": []any{"a"}}, "data": "kept",
	}, got.Object)
	got.Object["spec"].(map[string]any)["dnsNames"].([]any)[0] = "b"
	assert.Equal(t, before, local, "the local object is not altered")
	assert.True(t, ReservedKey("policy.longshore.dev/local-generation"))
}
