package manual_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/longshore-dev/longshore/host/peering/manual"
)

var pair = manual.Pair{Consumer: "rome", Provider: "milan"}

// TestProviderObjects compares with the literals that Liqo uses.
func TestProviderObjects(t *testing.T) {
	objects := pair.ProviderObjects()
	require.Len(t, objects, 5)
	assert.Equal(t, "liqo-tenant-rome", objects[0].GetName())
	binding, ok := objects[1].(*rbacv1.RoleBinding)
	require.True(t, ok)
	assert.Equal(t, "liqo-tenant-rome/liqo-binding-liqo-remote-controlplane", binding.Namespace+"/"+binding.Name)
	assert.Equal(t, []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "rome"}}, binding.Subjects)
	clusterWide, ok := objects[2].(*rbacv1.ClusterRoleBinding)
	require.True(t, ok)
	assert.Equal(t, "liqo-binding-liqo-virtual-kubelet-remote-clusterwide-rome", clusterWide.Name)
	assert.Equal(t, []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: "rome"}}, clusterWide.Subjects)
	assert.Equal(t, "longshore-consumer-rome", objects[3].GetName())
	assert.Equal(t, "longshore-consumer-rome", objects[4].GetName())
}

func TestConsumerObjects(t *testing.T) {
	controlPlane := manual.Credential{Server: "https://milan:6443", CA: []byte("ca"), Certificate: []byte("control plane"), Key: []byte("key 1")}
	slice := manual.Credential{Server: "https://milan:6443", CA: []byte("ca"), Certificate: []byte("slice"), Key: []byte("key 2")}
	objects, err := pair.ConsumerObjects("gpu", controlPlane, slice)
	require.NoError(t, err)
	require.Len(t, objects, 4)
	assert.Equal(t, "liqo-tenant-milan", objects[0].GetName())
	assert.Equal(t, "milan", objects[1].GetName())
	for name, tc := range map[string]struct {
		index            int
		name, kind       string
		certificate, key string
		tenant           string
	}{
		"the Secret of the replicator":               {2, "kubeconfig-controlplane-milan", "ControlPlane", "control plane", "key 1", "liqo-tenant-rome"},
		"the Secret of the slice's virtual kubelets": {3, "kubeconfig-resourceslice-gpu", "ResourceSlice", "slice", "key 2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			secret, ok := objects[tc.index].(*corev1.Secret)
			require.True(t, ok)
			assert.Equal(t, tc.name, secret.Name)
			assert.Equal(t, map[string]string{"liqo.io/remote-cluster-id": "milan", "liqo.io/identity-type": tc.kind}, secret.Labels)
			assert.Equal(t, tc.tenant, secret.Annotations["liqo.io/remote-tenant-namespace"])
			config, err := clientcmd.Load(secret.Data["kubeconfig"])
			require.NoError(t, err)
			current := config.Contexts[config.CurrentContext]
			require.NotNil(t, current)
			assert.Equal(t, "https://milan:6443", config.Clusters[current.Cluster].Server)
			assert.Equal(t, []byte(tc.certificate), config.AuthInfos[current.AuthInfo].ClientCertificateData)
			assert.Equal(t, []byte(tc.key), config.AuthInfos[current.AuthInfo].ClientKeyData)
			assert.Equal(t, tc.tenant, current.Namespace)
		})
	}
	assert.Equal(t, "kubeconfig-resourceslice-gpu", pair.VirtualNode("gpu", nil).Spec.KubeconfigSecretRef.Name)
}
