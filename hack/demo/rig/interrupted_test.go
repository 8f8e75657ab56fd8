package rig_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// install starts two clusters with Longshore and returns a shell with their kubeconfigs.
func install(t *testing.T) *shell {
	t.Helper()
	d := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(t, d.Install(ctx, nil))
	require.NoError(t, d.Rome.WaitForDeployments(ctx, rig.Namespace, quiet))
	require.NoError(t, d.Milan.WaitForDeployments(ctx, rig.Namespace, quiet))
	return newShell(t, d)
}

func newShell(t *testing.T, d *demo) *shell {
	t.Helper()
	kubeconfigs, err := d.WriteKubeconfigs(t.TempDir())
	require.NoError(t, err)
	for name, path := range kubeconfigs {
		kubeconfigs[name], err = filepath.Abs(path)
		require.NoError(t, err)
	}
	return &shell{rig: d.Rig, clusters: d.clusters, kubeconfigs: kubeconfigs, logs: d.logs}
}

// kill runs a command line as a process, and kills it when it has printed that many steps. It
// returns the steps that the process printed.
func (s *shell) kill(t *testing.T, line string, after int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, longshorectl, s.arguments(line)...)
	progress, err := command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	var steps []string
	for lines := bufio.NewScanner(progress); lines.Scan(); {
		require.NotContains(t, lines.Text(), "FAIL", line)
		require.NotContains(t, lines.Text(), "Error", line)
		if title, ok := strings.CutPrefix(lines.Text(), "ok   "); ok {
			steps = append(steps, title)
		}
		if len(steps) == after {
			require.NoError(t, command.Process.Kill())
			break
		}
	}
	require.Len(t, steps, after, "%s has fewer steps", line)
	_ = command.Wait() // It was killed.
	require.NoError(t, ctx.Err(), line)
	fmt.Fprintf(&s.transcript, "$ longshorectl %s\n%s\nkilled\n", line, strings.Join(steps, "\n"))
	return steps
}

// TestLongCommandsThatAreKilledAreRepeated kills longshorectl peer and unpeer, as processes, behind each
// of their steps, and runs them again to the end.
func TestLongCommandsThatAreKilledAreRepeated(t *testing.T) {
	t.Parallel()
	s := install(t)
	const (
		both   = " --kubeconfig @rome --remote-kubeconfig @milan"
		peer   = "peer --networking-disabled" + both
		unpeer = "unpeer --delete-namespaces" + both
	)
	before := inventories(t, s.rig)
	ofPeer, ofUnpeer := s.steps(t, peer), s.steps(t, unpeer)
	t.Logf("steps of peer: %d, of unpeer: %d", ofPeer, ofUnpeer)
	require.Greater(t, ofPeer, 5)
	require.Greater(t, ofUnpeer, 3)
	for after := 1; after <= max(ofPeer, ofUnpeer); after++ {
		if !t.Run(fmt.Sprintf("after step %d", after), func(t *testing.T) {
			s.transcript.Reset()
			defer func() { t.Log("\n" + s.transcript.String()) }()
			s.kill(t, peer, min(after, ofPeer))
			assert.Equal(t, "CONSUMER  PROVIDER  STATE   VIRTUAL NODE\nrome      milan     Peered  milan\n", s.ok(t, peer))
			peered(t, s)
			s.kill(t, unpeer, min(after, ofUnpeer))
			assert.Contains(t, s.ok(t, unpeer), "NotPeered")
			isAsBefore(t, before)
		}) {
			return
		}
	}
}

// steps returns how many steps a command prints that is not interrupted.
func (s *shell) steps(t *testing.T, line string) int {
	t.Helper()
	_, progress, code := s.run(t, line, "")
	require.Zero(t, code, progress)
	return strings.Count("\n"+progress, "\nok   ")
}

// peered checks that there is one of everything.
func peered(t *testing.T, s *shell) {
	t.Helper()
	for what, list := range map[string]client.ObjectList{
		"Identities": &authv1beta1.IdentityList{}, "ResourceSlices": &authv1beta1.ResourceSliceList{}, "VirtualNodes": &offloadingv1beta1.VirtualNodeList{},
	} {
		require.NoError(t, s.rig.Rome.List(t.Context(), list))
		want := map[bool]int{true: 2, false: 1}[what == "Identities"] // Of the control plane and of the slice.
		assert.Equal(t, want, meta.LenList(list), what)
	}
	tenants := &authv1beta1.TenantList{}
	require.NoError(t, s.rig.Milan.List(t.Context(), tenants))
	assert.Len(t, tenants.Items, 1)
	node := &corev1.Node{}
	require.NoError(t, s.rig.Rome.Get(t.Context(), client.ObjectKey{Name: "milan"}, node))
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			assert.Equal(t, corev1.ConditionTrue, condition.Status)
		}
	}
	eventually(t, "status finds no problem", func(t planetest.T) bool {
		_, _, code := s.run(t, "status --kubeconfig @rome", "")
		return code == 0
	})
}

// administrator returns a token with all rights in a cluster.
func administrator(t *testing.T, c *rig.Cluster) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "administrator", Namespace: "default"}}
	require.NoError(t, c.Create(t.Context(), account))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "administrator"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}},
	}
	require.NoError(t, c.Create(t.Context(), binding))
	planetest.AwaitRights(t, c.Client, binding)
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, c.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// kubeconfigsOfEveryKindPeer peers with kubeconfigs whose credentials are of every kind, on both
// sides.
func kubeconfigsOfEveryKindPeer(t *testing.T, s *shell) {
	tokens := map[string]string{"rome": administrator(t, s.rig.Rome), "milan": administrator(t, s.rig.Milan)}
	before := inventories(t, s.rig)
	write := func(t *testing.T, dir, file, content string, mode os.FileMode) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), mode))
	}
	for name, change := range map[string]func(t *testing.T, dir, token string, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo){
		"a certificate in the kubeconfig": func(_ *testing.T, _, _ string, _ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			require.NotEmpty(t, user.ClientCertificateData)
		},
		"files beside the kubeconfig": func(t *testing.T, dir, _ string, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			write(t, dir, "ca.crt", string(cluster.CertificateAuthorityData), 0o600)
			write(t, dir, "user.crt", string(user.ClientCertificateData), 0o600)
			write(t, dir, "user.key", string(user.ClientKeyData), 0o600)
			cluster.CertificateAuthorityData, user.ClientCertificateData, user.ClientKeyData = nil, nil, nil
			cluster.CertificateAuthority, user.ClientCertificate, user.ClientKey = "ca.crt", "user.crt", "user.key"
		},
		"a token": func(_ *testing.T, _, token string, _ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			*user = clientcmdapi.AuthInfo{Token: token}
		},
		"a file with a token": func(t *testing.T, dir, token string, _ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			write(t, dir, "token", token, 0o600)
			*user = clientcmdapi.AuthInfo{TokenFile: "token"}
		},
		"a plugin beside the kubeconfig": func(t *testing.T, dir, token string, _ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			credential := `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"` + token + `"}}`
			write(t, dir, "login.sh", "#!/bin/sh\necho '"+credential+"'\n", 0o700)
			*user = clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
				APIVersion: "client.authentication.k8s.io/v1", Command: "./login.sh", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			used := &shell{rig: s.rig, clusters: s.clusters, kubeconfigs: map[string]string{}}
			for cluster, path := range s.kubeconfigs {
				config, err := clientcmd.LoadFromFile(path)
				require.NoError(t, err)
				dir := t.TempDir()
				current := config.Contexts[config.CurrentContext]
				change(t, dir, tokens[cluster], config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo])
				used.kubeconfigs[cluster] = filepath.Join(dir, "config")
				require.NoError(t, clientcmd.WriteToFile(*config, used.kubeconfigs[cluster]))
			}
			const both = " --kubeconfig @rome --remote-kubeconfig @milan"
			assert.Contains(t, used.ok(t, "authenticate"+both), "Authenticated")
			assert.Contains(t, used.ok(t, "peer"+both), "Peered")
			peered(t, s)
			assert.Contains(t, used.ok(t, "unpeer --delete-namespaces"+both), "NotPeered")
			isAsBefore(t, before)
		})
	}
}
