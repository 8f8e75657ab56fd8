package peeringuser

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// TestObjectsOfAUser compares with the literals that Liqo uses.
func TestObjectsOfAUser(t *testing.T) {
	user := subject("rome")
	assert.Regexp(t, "^liqo-peer-user-rome-[0-9a-f]{32}$", user.User)
	assert.Equal(t, "liqo.io", user.Group)
	assert.NotEqual(t, user, subject("rome"), "an earlier certificate is useless")
	csr := request("rome", []byte("csr"))
	assert.Equal(t, "liqo-peer-user-rome", csr.Name)
	assert.Equal(t, "kubernetes.io/kube-apiserver-client", csr.Spec.SignerName)
	all := bindings("rome", user.User, "longshore", "liqo-tenant-rome", "reader", "writer")
	require.Len(t, all, 2)
	for i, want := range []struct{ key, kind, role string }{
		{"longshore/liqo-peer-user-rome-liqo-ns-reader", "Role", "reader"}, {"liqo-tenant-rome/liqo-peer-user-rome-tenant-ns-writer", "ClusterRole", "writer"},
	} {
		binding, ok := all[i].(*rbacv1.RoleBinding)
		require.True(t, ok)
		assert.Equal(t, want.key, binding.Namespace+"/"+binding.Name)
		assert.Equal(t, map[string]string{"liqo.io/peering-user-name": "liqo-peer-user-rome"}, binding.Labels)
		assert.Equal(t, rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: want.kind, Name: want.role}, binding.RoleRef)
		assert.Equal(t, []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: user.User}}, binding.Subjects)
	}
}

func TestTheKubeconfigOfAUser(t *testing.T) {
	encoded, err := kubeconfig("rome", "liqo-tenant-rome", "https://milan:6443", []byte("ca"), []byte("certificate"), []byte("key"))
	require.NoError(t, err)
	config, err := clientcmd.Load(encoded)
	require.NoError(t, err)
	current := config.Contexts[config.CurrentContext]
	require.NotNil(t, current)
	assert.Equal(t, "rome-user", current.AuthInfo)
	assert.Equal(t, "liqo-tenant-rome", current.Namespace)
	assert.Equal(t, "https://milan:6443", config.Clusters[current.Cluster].Server)
	assert.Equal(t, []byte("certificate"), config.AuthInfos["rome-user"].ClientCertificateData)
}

func TestTheConsumerIsNamed(t *testing.T) {
	for id, want := range map[string]int{"rome": output.CodeDone, "": output.CodeUsage, "-": output.CodeUsage} {
		_, err := parse(id)
		code, _ := output.ExitCode(err)
		assert.Equal(t, want, code, id)
	}
}
