package rig_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	longshorectl = "../../../bin/longshorectl"
	peerLine     = "peer --kubeconfig @rome --remote-kubeconfig @milan --networking-disabled"
)

// shell runs longshorectl as its users do, in a pipe.
type shell struct {
	rig         *rig.Rig
	clusters    *rig.Clusters
	kubeconfigs map[string]string
	// logs is the folder with the logs of the components.
	logs string
	// program is what runs instead of longshorectl; "" for none.
	program string
	// transcript of a step.
	transcript strings.Builder
}

// arguments are those of a command line in which @rome and @milan are the kubeconfigs of the clusters.
func (s *shell) arguments(line string) []string {
	args := strings.Fields(line)
	for i := range args {
		if path, ok := s.kubeconfigs[strings.TrimPrefix(args[i], "@")]; ok && strings.HasPrefix(args[i], "@") {
			args[i] = path
		}
	}
	return args
}

// run runs a command line in which @rome and @milan are the kubeconfigs of the clusters.
func (s *shell) run(t planetest.T, line string, input string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, cmp.Or(s.program, longshorectl), s.arguments(line)...)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &errs
	err := command.Run()
	fmt.Fprintf(&s.transcript, "$ %s %s\n%s%s", filepath.Base(cmp.Or(s.program, longshorectl)), line, out.String(), errs.String())
	if err != nil {
		exit := &exec.ExitError{}
		require.ErrorAs(t, err, &exit)
		require.NoError(t, ctx.Err(), line)
	}
	assert.NotContains(t, out.String()+errs.String(), "\033", "a pipe gets no escape sequence")
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// ok runs a command line that succeeds, and returns what it prints.
func (s *shell) ok(t *testing.T, line string) string {
	t.Helper()
	out, errs, code := s.run(t, line, "")
	require.Zero(t, code, "%s: %s", line, errs)
	return out
}

// fails runs a command line that fails.
func (s *shell) fails(t *testing.T, line string, code int, message string) {
	t.Helper()
	out, errs, got := s.run(t, line, "")
	assert.Equal(t, code, got, line)
	assert.Contains(t, errs, message, line)
	assert.Empty(t, out, line)
}

// TestTheInstallation installs Longshore with Helm as the documents say, and loses it in every way.
func TestTheInstallation(t *testing.T) {
	t.Parallel()
	s := newShell(t, start(t))
	defer func() { t.Log("\n" + s.transcript.String()) }()
	inTurn(t, s, []step[*shell]{
		{"the tutorial of the installation is true", installLines},
		{"a peered consumer is uninstalled", uninstallLines},
		{"clusters that are lost", lostLines},
	})
}

// TestTheCommandLine runs commands of longshorectl on clusters that are peered. Each step can be run alone.
func TestTheCommandLine(t *testing.T) {
	t.Parallel()
	s := newShell(t, start(t))
	startHowTos(t, s.rig).runs(t, `for cluster in rome milan; do
  helm --kubeconfig $cluster.kubeconfig install longshore charts/longshore --namespace longshore --create-namespace --set clusterID=$cluster --wait
done`)
	s.ok(t, peerLine+" --cpu 9 --pods 50")
	s.each(t, []step[*shell]{
		{"peer again with another request", peerLines},
		{"slices and virtual nodes are created, listed and deleted", capacityLines},
		{"status and info", statusLines},
		{"a virtual kubelet follows the image of its VkOptionsTemplate", imageLines},
		{"the installation conforms, and one in which consumers have too many rights does not", conformLines},
		{"certificates are renewed before they expire", renewalLines},
		{"the key of the consumer is replaced", keyLines},
		{"what a consumer gets is limited", limitLines},
		{"a namespace is offloaded, and its tenant stopped", func(t *testing.T, s *shell) {
			inTurn(t, s, []step[*shell]{
				{"a namespace is offloaded", namespaceLines},
				{"a volume that cannot be moved stays", volumeLines},
				{"a tenant and a slice are cordoned, drained and activated", tenancyLines},
			})
		}},
	})
}

// TestPeering peers and unpeers in every way.
func TestPeering(t *testing.T) {
	t.Parallel()
	install(t).each(t, []step[*shell]{
		{"unpeer", unpeerLines},
		{"kubeconfigs of every kind peer", kubeconfigsOfEveryKindPeer},
		{"peering by hand", manualLines},
		{"a peering user peers, and does nothing else", userLines},
	})
}

// each runs steps that do not need each other.
func (s *shell) each(t *testing.T, steps []step[*shell]) {
	t.Helper()
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			s.transcript.Reset()
			t.Cleanup(func() { t.Log("\n" + s.transcript.String()) })
			step.run(t, s)
		})
	}
}

// installLines follows the tutorial of the installation, which takes everything back, and installs
// again as the how-to and the README say.
func installLines(t *testing.T, s *shell) {
	reader := startHowTos(t, s.rig)
	reader.follows(t, "docs/tutorials/install.md")
	reader.follows(t, "docs/howto/upgrade.md", "## Install", "## Uninstall")
	reader.runs(t, "helm --kubeconfig milan.kubeconfig install longshore charts/longshore --namespace longshore --set clusterID=milan --wait")
	reader.follows(t, "README.md", "## Install on your clusters")
	reader.follows(t, "docs/howto/peer-two-clusters.md", "# Peer two clusters")
}

func peerLines(t *testing.T, s *shell) {
	out := s.ok(t, peerLine)
	assert.Equal(t, "CONSUMER  PROVIDER  STATE   VIRTUAL NODE\nrome      milan     Peered  milan\n", out)
	for _, want := range []struct{ cpu, pods string }{{"8", "40"}, {"9", "50"}} {
		// Without a wait, the grant and the virtual node are those of the request before.
		s.ok(t, peerLine+" --cpu "+want.cpu+" --pods "+want.pods)
		slice, vn := &authv1beta1.ResourceSlice{}, &offloadingv1beta1.VirtualNode{}
		key := client.ObjectKey{Namespace: tenantInRome, Name: "milan"}
		require.NoError(t, s.rig.Rome.Get(t.Context(), key, slice))
		require.NoError(t, s.rig.Rome.Get(t.Context(), key, vn))
		for _, granted := range []corev1.ResourceList{slice.Status.Resources, vn.Spec.ResourceQuota.Hard} {
			assert.Equal(t, want.cpu, granted.Cpu().String())
			assert.Equal(t, want.pods, granted.Pods().String())
			assert.Equal(t, "8Gi", granted.Memory().String(), "the default")
		}
	}
	s.fails(t, peerLine+"=false", 2, "no networking module")
}

func capacityLines(t *testing.T, s *shell) {
	const slice = "create resourceslice mypool --remote-cluster-id milan --kubeconfig @rome"
	assert.Contains(t, s.ok(t, slice+" --cpu 1 -o yaml"), "spec:\n  class: default\n  providerClusterID: milan\n  resources:\n    cpu: \"1\"\n")
	s.fails(t, "get resourceslice mypool --kubeconfig @rome", 1, `ResourceSlice "mypool" does not exist`)
	for range 2 {
		out := s.ok(t, slice+" --cpu 1 --memory 2Gi --pods 10 --class default --no-virtual-node")
		assert.Regexp(t, `^NAME +PEER +ACTION .*\nmypool +milan +Consuming +Accepted +Accepted +1 +2Gi +10 +\d+s\n$`, out)
	}
	assert.Regexp(t, `\nmypool +rome +Providing +Accepted +Accepted +1 +2Gi +10 `, s.ok(t, "get rs --kubeconfig @milan"))
	s.fails(t, "create resourceslice mypool --remote-cluster-id oslo --kubeconfig @rome", 1, `no tenant namespace for cluster "oslo"`)

	const node = "create virtualnode mynode --remote-cluster-id milan --resource-slice-name mypool --kubeconfig @rome --labels zone=a --node-selector pool=x"
	for _, line := range []string{node, node, node + " --cpu 500m"} {
		assert.Regexp(t, `\nmynode +milan +\w+ +\w+ +(1|500m) +2Gi +10 +\d+s\n$`, s.ok(t, line))
	}
	created := &corev1.Node{}
	require.NoError(t, s.rig.Rome.Get(t.Context(), client.ObjectKey{Name: "mynode"}, created))
	assert.Equal(t, "a", created.Labels["zone"])
	s.ok(t, "create vn secretnode --remote-cluster-id milan --kubeconfig-secret-name kubeconfig-resourceslice-mypool --kubeconfig @rome --cpu 1 --memory 1Gi --pods 5 --storage-classes fast,slow --disable-network-check")
	s.fails(t, "create virtualnode mynode --remote-cluster-id milan --kubeconfig-secret-name other --kubeconfig @rome", 1, "Secret liqo-tenant-milan/other with the kubeconfig of milan does not exist")
	s.fails(t, "create virtualnode milan --remote-cluster-id milan --resource-slice-name milan --kubeconfig @rome", 1, "follows its ResourceSlice")
	assert.Contains(t, s.ok(t, "get virtualnode secretnode --kubeconfig @rome -o yaml"), "storageClassName: fast")

	s.fails(t, "delete resourceslice mypool --kubeconfig @rome", 1, `VirtualNode "mynode" uses the slice`)
	s.fails(t, "delete virtualnode milan --kubeconfig @rome", 1, "run longshorectl delete resourceslice milan")
	for _, want := range []string{"deleted", "does not exist"} {
		for _, what := range []string{"virtualnode/mynode", "virtualnode/secretnode", "resourceslice/mypool"} {
			kind, name, _ := strings.Cut(what, "/")
			assert.Equal(t, what+" "+want+"\n", s.ok(t, "delete "+kind+" "+name+" --kubeconfig @rome"))
		}
	}
	assert.NotContains(t, s.ok(t, "get resourceslice --kubeconfig @milan"), "mypool")
	startHowTos(t, s.rig).follows(t, "docs/howto/peer-two-clusters.md", "## Ask for resources")
}

func statusLines(t *testing.T, s *shell) {
	eventually(t, "status finds no problem", func(t planetest.T) bool {
		out, _, code := s.run(t, "status --kubeconfig @rome", "")
		return code == 0 && strings.Contains(out, "No problem was found.") && strings.Contains(out, "milan  milan  Consuming  Accepted  0/9  0/8Gi   0/50")
	})
	assert.Regexp(t, `(?m)^Role: +Provider\n`, s.ok(t, "info peer milan --kubeconfig @rome"))
	assert.Contains(t, s.ok(t, "info rome --kubeconfig @milan -o yaml"), "clusterID: rome\nlocalNamespace: liqo-tenant-rome\n")
	s.fails(t, "info oslo --kubeconfig @rome", 2, `cluster rome has no peer "oslo"`)

	reader := startHowTos(t, s.rig)
	reader.follows(t, "docs/howto/peer-two-clusters.md", "## See the peering")
	reader.follows(t, "docs/howto/operate.md", "## See the state", "## Back up and restore")
	reader.follows(t, "docs/howto/upgrade.md", "## Upgrade from a version that reads Secrets in all namespaces")
	reader.runs(t, "kubectl create namespace team-a")
	reader.follows(t, "docs/howto/grant-policy-rights.md", "## Modules from other namespaces")
	writeModule(t, reader.dir)
	reader.follows(t, "docs/howto/load-a-policy.md", "## Load it with the chart")
	reader.runs(t, "helm upgrade longshore charts/longshore -n longshore --reset-then-reuse-values --set policies.custom.stamp=null --set policies.namespaces=null")
	reader.follows(t, "docs/howto/move-from-the-reference.md")
}

func namespaceLines(t *testing.T, s *shell) {
	require.NoError(t, s.rig.Rome.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "shop"}}}))
	const offload = "offload namespace shop --kubeconfig @rome --timeout 4m"
	assert.Contains(t, s.ok(t, offload+" --pod-offloading-strategy Remote -o yaml"), "podOffloadingStrategy: Remote")
	for range 2 {
		assert.Equal(t, "NAMESPACE  REMOTE NAME  PODS            PHASE  CLUSTERS\nshop       shop-rome    LocalAndRemote  Ready  milan\n", s.ok(t, offload))
	}
	assert.Contains(t, s.ok(t, "offload ns --ns-selector team=shop --pod-offloading-strategy Remote -l liqo.io/remote-cluster-id=milan --kubeconfig @rome --timeout 4m"), "Remote  Ready  milan")
	assert.Contains(t, s.ok(t, offload), "Remote  Ready  milan", "what is not given does not change")
	assert.Contains(t, s.ok(t, offload+" --pod-offloading-strategy LocalAndRemote --selector="), "LocalAndRemote  Ready  milan")
	s.fails(t, offload+" --namespace-mapping-strategy EnforceSameName", 1, "run longshorectl unoffload namespace shop first")
	require.NoError(t, s.rig.Milan.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, &corev1.Namespace{}))

}

// limitLines follows the guide, and takes back what it leaves.
func limitLines(t *testing.T, s *shell) {
	reader := startHowTos(t, s.rig)
	reader.runs(t, "cp '"+filepath.Join(topOf(t), "bin", "plugins", "tenantcap", "module.wasm.gz")+"' .")
	reader.follows(t, "docs/howto/limit-a-consumer.md")
	reader.runs(t, "helm --kubeconfig milan.kubeconfig upgrade longshore charts/longshore --namespace longshore --reset-then-reuse-values --set provider.limitsEnforcement=None --wait")
	eventually(t, "the slice has what it asks for", func(t planetest.T) bool {
		out, _, code := s.run(t, "get resourceslice milan --kubeconfig @rome", "")
		return code == 0 && strings.Contains(out, " Accepted   9 ")
	})
}

func tenancyLines(t *testing.T, s *shell) {
	s.ok(t, "cordon resourceslice milan --remote-cluster-id rome --kubeconfig @milan")
	assert.Regexp(t, `slice +liqo-tenant-rome\n`, s.ok(t, "get resourceslice milan -o wide --kubeconfig @milan"))
	s.ok(t, "uncordon resourceslice milan --remote-cluster-id rome --kubeconfig @milan")

	assert.Equal(t, "tenant/rome Cordoned\n", s.ok(t, "cordon tenant rome --kubeconfig @milan"))
	out, _, code := s.run(t, "status --kubeconfig @milan", "")
	assert.Equal(t, 5, code, "a cordon is a problem until it ends")
	assert.Contains(t, out, "It is cordoned with its Tenant")
	assert.Contains(t, out, "Accepted,cordoned")
	s.fails(t, "create resourceslice more --remote-cluster-id milan --kubeconfig @rome", 4, "The tenant is cordoned")
	s.ok(t, "delete resourceslice more --kubeconfig @rome")
	assert.Equal(t, "tenant/rome Active\n", s.ok(t, "uncordon tenant rome --kubeconfig @milan"))

	out, errs, code := s.run(t, "drain tenant rome --kubeconfig @milan", "")
	assert.Equal(t, 2, code)
	assert.Contains(t, errs, "set --skip-confirm")
	assert.Empty(t, out)
	_, errs, code = s.run(t, "drain tenant rome --kubeconfig @milan", "n\n")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "not confirmed; nothing was changed")
	out, errs, code = s.run(t, "drain tenant rome --kubeconfig @milan", "yes\n")
	require.Zero(t, code, errs)
	assert.Equal(t, "tenant/rome Drained\n", out)
	require.True(t, apierrors.IsNotFound(s.rig.Milan.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, &corev1.Namespace{})), "a drain deletes the offloaded namespaces")
	assert.Equal(t, "tenant/rome Drained\n", s.ok(t, "uncordon tenant rome --kubeconfig @milan"))
	assert.Equal(t, "tenant/rome Active\n", s.ok(t, "activate tenant rome --kubeconfig @milan"))
	s.fails(t, "drain tenant oslo --kubeconfig @milan", 1, `Tenant "oslo" does not exist`)
	for _, outcome := range []string{"unoffloaded", "is not offloaded"} {
		assert.Equal(t, "namespace/shop "+outcome+"\n", s.ok(t, "unoffload namespace shop --kubeconfig @rome --skip-confirm"))
	}
	startHowTos(t, s.rig).follows(t, "docs/howto/peer-two-clusters.md", "## Stop a consumer")
}

func unpeerLines(t *testing.T, s *shell) {
	s.ok(t, peerLine)
	startHowTos(t, s.rig).follows(t, "docs/howto/peer-two-clusters.md", "## Withdraw")
	for range 2 {
		out := s.ok(t, "unpeer --kubeconfig @rome --remote-kubeconfig @milan --delete-namespaces")
		assert.Equal(t, "CONSUMER  PROVIDER  STATE      VIRTUAL NODE\nrome      milan     NotPeered  -\n", out)
	}
	assert.Equal(t, "NAME  PROVIDER  NODE  KUBELET  CPU  MEMORY  PODS  AGE\n", s.ok(t, "get virtualnode --kubeconfig @rome"))
}

// apply is kubectl apply -f with what a command printed.
func apply(t *testing.T, c *rig.Cluster, manifest string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &object.Object))
	require.NoError(t, c.Apply(t.Context(), object))
}

// manualLines peers without a command that reaches both clusters.
func manualLines(t *testing.T, s *shell) {
	s.fails(t, "get nonce --remote-cluster-id rome --kubeconfig @milan", 1, `no tenant namespace for cluster "rome"`)
	nonce := s.ok(t, "create nonce --remote-cluster-id rome --kubeconfig @milan")
	assert.Equal(t, nonce, s.ok(t, "create nonce --remote-cluster-id rome --kubeconfig @milan"), "the nonce stays")
	assert.Equal(t, nonce, s.ok(t, "get nonce --remote-cluster-id rome --kubeconfig @milan"))
	tenant := s.ok(t, "generate tenant --remote-cluster-id milan --kubeconfig @rome --nonce "+nonce)
	apply(t, s.rig.Milan, tenant)
	identity := s.ok(t, "generate identity --remote-cluster-id rome --kubeconfig @milan")
	apply(t, s.rig.Rome, identity)
	eventually(t, "the consumer has its kubeconfig", func(t planetest.T) bool {
		out, _, code := s.run(t, "get kubeconfig controlplane-milan --remote-cluster-id milan --kubeconfig @rome", "")
		return code == 0 && strings.Contains(out, "client-certificate-data")
	})
	s.ok(t, "create resourceslice mypool --remote-cluster-id milan --kubeconfig @rome")
	s.ok(t, "delete resourceslice mypool --kubeconfig @rome")
	assert.Contains(t, s.ok(t, "authenticate --kubeconfig @rome --remote-kubeconfig @milan"), "Authenticated")
	assert.Contains(t, s.ok(t, "unauthenticate --kubeconfig @rome --remote-kubeconfig @milan"), "NotPeered")
}

func userLines(t *testing.T, s *shell) {
	const generate = "generate peering-user --consumer-cluster-id rome --kubeconfig @milan"
	config := s.ok(t, generate)
	s.fails(t, generate, 1, "run longshorectl delete peering-user --consumer-cluster-id rome first")
	path := filepath.Join(t.TempDir(), "user")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	s.kubeconfigs["user"] = path
	const peer = "--kubeconfig @rome --remote-kubeconfig @user"
	assert.Contains(t, s.ok(t, "peer "+peer+" --create-resource-slice=false"), "Authenticated")
	s.fails(t, "cordon tenant rome --kubeconfig @user", 1, "forbidden")
	s.fails(t, "get resourceslice --kubeconfig @user", 1, "forbidden")
	s.fails(t, "generate peering-user --consumer-cluster-id oslo --kubeconfig @user", 1, "forbidden")
	assert.Contains(t, s.ok(t, "unpeer "+peer), "NotPeered")
	assert.Equal(t, "peering-user/rome deleted\n", s.ok(t, "delete peering-user --consumer-cluster-id rome --kubeconfig @milan"))
	assert.Equal(t, "peering-user/rome does not exist\n", s.ok(t, "delete peering-user --consumer-cluster-id rome --kubeconfig @milan"))
	s.fails(t, "authenticate "+peer, 1, "forbidden")

	startHowTos(t, s.rig).follows(t, "docs/howto/peer-two-clusters.md", "## Let another administrator peer")
}

// lostLines removes a provider that is lost from its consumer, and a consumer that is lost from
// its provider.
func lostLines(t *testing.T, s *shell) {
	rome, milan := s.rig.Rome, s.rig.Milan
	s.fails(t, "force unpeer oslo --kubeconfig @rome", 1, `no ForeignCluster with the ID "oslo"`)
	s.ok(t, "peer --kubeconfig @rome --remote-kubeconfig @milan")
	require.NoError(t, rome.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}))
	s.ok(t, "offload namespace kept --pod-offloading-strategy Remote --kubeconfig @rome --timeout 4m")
	offloaded := pod("web")
	offloaded.Namespace = "kept"
	require.NoError(t, rome.Create(t.Context(), offloaded))
	eventually(t, "the pod runs in milan", func(t planetest.T) bool {
		all := pods(t, milan, "kept-rome", nil)
		return len(all) == 1 && all[0].Status.Phase == corev1.PodRunning
	})
	const unpeer = "force unpeer milan --kubeconfig @rome"
	eventually(t, "the provider answers", func(t planetest.T) bool {
		return apiServerStatus(t, rome, "milan") == liqocorev1beta1.ConditionStatusEstablished
	})
	s.fails(t, unpeer, 1, "answers: run longshorectl unpeer")

	require.NoError(t, s.clusters.Milan.Plane.Crash())
	eventually(t, "the provider counts as lost", func(t planetest.T) bool {
		return apiServerStatus(t, rome, "milan") != liqocorev1beta1.ConditionStatusEstablished
	})
	_, errs, code := s.run(t, unpeer, "n\n")
	assert.Equal(t, 1, code, errs)
	assert.Contains(t, errs, "not confirmed; nothing was changed")
	reader := startHowTos(t, s.rig)
	reader.follows(t, "docs/howto/operate.md", "### The provider is lost for good")
	reader.follows(t, "docs/howto/peer-two-clusters.md", "## Remove a cluster that is lost")
	assert.Equal(t, "cluster milan unpeered\n", s.ok(t, unpeer+" --skip-confirm"))
	for _, gone := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantInRome}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}},
		&offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: tenantInRome}},
	} {
		assert.True(t, apierrors.IsNotFound(rome.Get(t.Context(), client.ObjectKeyFromObject(gone), gone)), gone.GetName())
	}
	eventually(t, "no pod stays on the virtual node", func(t planetest.T) bool {
		for _, p := range pods(t, rome, "kept", nil) {
			if p.Spec.NodeName == "milan" {
				return false
			}
		}
		return true
	})

	require.NoError(t, s.clusters.Milan.Plane.Restart(t.Context()))
	require.NoError(t, s.clusters.Rome.Plane.Crash())
	reader.follows(t, "docs/howto/operate.md", "### The consumer is lost for good")
	assert.Equal(t, "cluster rome unpeered\n", s.ok(t, "force unpeer rome --kubeconfig @milan --skip-confirm"))
	for _, name := range []string{tenantInMilan, "kept-rome"} {
		eventually(t, "namespace "+name+" is gone", func(t planetest.T) bool {
			return apierrors.IsNotFound(milan.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{}))
		})
	}
}

// apiServerStatus returns whether the API server of a peer answers, as a cluster reports it.
func apiServerStatus(t planetest.T, c *rig.Cluster, peer liqocorev1beta1.ClusterID) liqocorev1beta1.ConditionStatusType {
	t.Helper()
	list := &liqocorev1beta1.ForeignClusterList{}
	require.NoError(t, c.List(t.Context(), list))
	for _, fc := range list.Items {
		for _, condition := range fc.Status.Conditions {
			if fc.Spec.ClusterID == peer && condition.Type == liqocorev1beta1.APIServerStatusCondition {
				return condition.Status
			}
		}
	}
	return liqocorev1beta1.ConditionStatusNone
}
