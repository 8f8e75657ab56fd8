package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/hack/demo/rig"
)

const auditLines = `{"kind":"Event","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/bench/pods/a/status","verb":"patch","user":{"username":"system:serviceaccount:liqo-tenant-milan:milan"},"objectRef":{"resource":"pods","subresource":"status"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseStarted","requestURI":"/api/v1/pods?watch=true","verb":"watch","user":{"username":"system:serviceaccount:longshore:longshore-manager"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseComplete","requestURI":"/api/v1/pods?watch=true","verb":"watch","user":{"username":"system:serviceaccount:longshore:longshore-manager"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseComplete","requestURI":"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/milan","verb":"update","user":{"username":"system:serviceaccount:liqo-tenant-milan:milan"},"objectRef":{"resource":"leases"},"responseStatus":{"code":409}}
{"kind":"Event","stage":"ResponseComplete","requestURI":"/version?timeout=5s","verb":"get","user":{"username":"rome"},"responseStatus":{"code":200}}
{"kind":"Event","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/bench/pods/a/binding","verb":"create","user":{"username":"system:kube-scheduler"},"objectRef":{"resource":"pods","subresource":"binding"},"responseStatus":{"code":201}}
{"kind":"Event","stage":"Panic","requestURI":"/api/v1/namespaces/bench/pods","verb":"create","user":{"username":"system:kube-scheduler"},"objectRef":{"resource":"pods"},"responseStatus":{"code":500}}
`

func TestRequestsAreCountedOnce(t *testing.T) {
	found, err := countRequests("rome", strings.NewReader(auditLines))
	require.NoError(t, err)
	assert.Equal(t, counts{
		{Cluster: "rome", Who: "virtual-kubelet", Ours: true, Verb: "patch", Resource: "pods/status"}: 1,
		{Cluster: "rome", Who: "manager", Ours: true, Verb: "watch", Resource: "pods"}:                1,
		{Cluster: "rome", Who: "virtual-kubelet", Ours: true, Verb: "update", Resource: "leases"}:     1,
		{Cluster: "rome", Who: "replicator", Ours: true, Verb: "get", Resource: "/version"}:           1,
		{Cluster: "rome", Who: "system:kube-scheduler", Verb: "create", Resource: "pods/binding"}:     1,
		{Cluster: "rome", Who: "system:kube-scheduler", Verb: "create", Resource: "pods"}:             1,
	}, found)
	assert.Equal(t, 3, found.sum(func(r request) bool { return r.Ours && !r.lease() }), "leases are apart")
}

func TestALineThatIsBeingWrittenWaits(t *testing.T) {
	whole := strings.SplitAfter(auditLines, "\n")
	found, err := countRequests("rome", strings.NewReader(whole[0]+whole[5][:40]))
	require.NoError(t, err)
	assert.Equal(t, 1, found.sum(func(request) bool { return true }))
}

func TestALineThatIsNoJSONIsAnError(t *testing.T) {
	_, err := countRequests("rome", strings.NewReader("{\"stage\":\n"))
	assert.ErrorContains(t, err, `audit log of "rome"`)
}

func TestComponents(t *testing.T) {
	tests := map[string]struct {
		username, want string
		ours           bool
	}{
		"Longshore's own service accounts":        {"system:serviceaccount:longshore:longshore-webhook", "webhook", true},
		"the virtual kubelet at home":             {"system:serviceaccount:liqo-tenant-milan:milan", "virtual-kubelet", true},
		"the virtual kubelet at the provider":     {rig.Pair.Slice(rig.Node).User, "virtual-kubelet", true},
		"the replicator at the provider":          {"rome", "replicator", true},
		"a controller of Kubernetes":              {"system:serviceaccount:kube-system:replicaset-controller", "system:serviceaccount:kube-system:replicaset-controller", false},
		"the administrator, and the process node": {"admin", "admin", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			who, ours := component(tc.username)
			assert.Equal(t, tc.want, who)
			assert.Equal(t, tc.ours, ours)
		})
	}
}

func TestOnlyWhatComesAfterTheMarkIsCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	lines := strings.SplitAfter(auditLines, "\n")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines[:3], "")), 0o600))
	logs := auditLogs{paths: map[string]string{"milan": path}}
	require.NoError(t, logs.mark())
	require.NoError(t, os.WriteFile(path, []byte(auditLines), 0o600))
	found, err := logs.since()
	require.NoError(t, err)
	assert.Equal(t, 4, found.sum(func(r request) bool { return r.Cluster == "milan" }))
}

func TestHeartbeats(t *testing.T) {
	for r, want := range map[request]bool{
		{Who: "virtual-kubelet", Verb: "get", Resource: "/livez"}:         true,
		{Who: "replicator", Verb: "list", Resource: "resourceslices"}:     true,
		{Who: "replicator", Verb: "update", Resource: "resourceslices"}:   false,
		{Who: "virtual-kubelet", Verb: "patch", Resource: "nodes/status"}: true,
		{Who: "virtual-kubelet", Verb: "patch", Resource: "pods/status"}:  false,
		{Who: "manager", Verb: "patch", Resource: "nodes/status"}:         false,
		{Who: "virtual-kubelet", Verb: "update", Resource: "leases"}:      false,
	} {
		assert.Equal(t, want, r.heartbeat(), r.String())
	}
}
