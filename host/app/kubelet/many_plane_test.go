package kubelet_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/internal/testkit/childprocess"
)

// manyVariable is the number of virtual nodes of TestLongManyVirtualNodesOfAProcess. A measurement has
// 50: LONGSHORE_TEST_VIRTUAL_NODES=50 go test ./host/app/kubelet -v -run TestManyVirtualNodes
const manyVariable = "LONGSHORE_TEST_VIRTUAL_NODES"

// watches returns the number of watches of single namespaces that a cluster serves.
func watches(t planetest.T, cluster kubernetes.Interface) int {
	t.Helper()
	raw, err := cluster.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	require.NoError(t, err)
	total := 0
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `scope="namespace"`) && strings.Contains(line, `verb="WATCH"`) {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			require.NoError(t, err)
			total += int(value)
		}
	}
	return total
}

// memory returns the proportional set size of a process, in MiB.
func memory(t *testing.T, pid int) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Pss:" {
			kib, err := strconv.Atoi(fields[1])
			require.NoError(t, err)
			return float64(kib) / 1024
		}
	}
	t.Fatal("smaps_rollup has no Pss")
	return 0
}

// createIdentity creates the Secret of a ResourceSlice's identity: the provider knows each as a user of
// its own.
func (r *rig) createIdentity(slice string) (secret string) {
	r.t.Helper()
	certificate, key, err := r.provider.IssueClientCert(slice+"-0123456789ab", []string{"rome"})
	require.NoError(r.t, err)
	kubeconfig, err := r.provider.KubeconfigFor("", certificate, key)
	require.NoError(r.t, err)
	identity := r.secret(kubeconfig)
	identity.Name = "kubeconfig-resourceslice-" + slice
	r.create(r.rome, identity)
	return identity.Name
}

// Another virtual node of a process adds no watch towards the provider, also with a ResourceSlice of
// its own. The watches go on without the virtual node that opened them.
func TestLongManyVirtualNodesOfAProcess(t *testing.T) {
	t.Parallel()
	count := 4
	if value := os.Getenv(manyVariable); value != "" {
		var err error
		count, err = strconv.Atoi(value)
		require.NoError(t, err)
	}
	r := newRig(t)
	r.createSharedPod("replica-1")
	first := assigned("milan-1", r.createIdentity("milan-1"))
	r.create(r.rome, first)
	r.mapNamespace()
	provider := planetest.Client(t, r.provider)
	before := watches(t, provider)
	process := childprocess.Start(t, childOptions{
		Kubeconfig: r.adminKubeconfig(t), NodeIP: r.consumer.Address(), PolicyCache: r.policyCache, SharedProcess: sharedProcess,
	})
	r.awaitNode("milan-1")
	r.create(r.rome, r.settings("settings", "1"))
	r.awaitRemote("settings", "1")
	const settled = 40
	await := func(name string) int {
		last, same := -1, 0
		planetest.Until(t, func(t planetest.T) bool {
			if now := watches(t, provider) - before; now != last {
				last, same = now, 0
			}
			same++
			return same > settled
		}, soon, tick, name)
		return last
	}
	one := await("the watches of one virtual node settle")
	t.Logf("1 virtual node: %.1f MiB (PSS), %d watches towards the provider", memory(t, process.PID()), one)
	for i := 2; i <= count; i++ {
		name := "milan-" + strconv.Itoa(i)
		r.create(r.rome, assigned(name, r.createIdentity(name)))
	}
	for i := 2; i <= count; i++ {
		r.awaitNode("milan-" + strconv.Itoa(i))
	}
	all := await("the watches of all virtual nodes settle")
	t.Logf("%d virtual nodes: %.1f MiB (PSS), %d watches towards the provider", count, memory(t, process.PID()), all)
	assert.Equal(t, one, all)
	require.NoError(t, r.rome.Delete(t.Context(), first))
	planetest.Until(t, func(t planetest.T) bool { return r.holderOf(t, "milan-1") == "" }, soon, tick, "milan-1 is not served any more")
	r.create(r.rome, r.settings("more-settings", "1"))
	r.awaitRemote("more-settings", "1")
}
