package kubelet_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/app/kubelet"
)

// rotation is a rig whose provider logs requests.
type rotation struct {
	*rig

	audit string
}

// kubeconfigOf returns a kubeconfig of the provider for a user.
func (r *rotation) kubeconfigOf(t *testing.T, user string) []byte {
	t.Helper()
	certificate, key, err := r.provider.IssueClientCert(user, []string{"rome"})
	require.NoError(t, err)
	kubeconfig, err := r.provider.KubeconfigFor("", certificate, key)
	require.NoError(t, err)
	return kubeconfig
}

// audited is a request in the audit log of the provider.
type audited struct {
	Stage, Verb, RequestURI string
	User                    struct{ Username string }
}

// mark returns the end of the audit log.
func (r *rotation) mark(t planetest.T) int64 {
	t.Helper()
	info, err := os.Stat(r.audit)
	require.NoError(t, err)
	return info.Size()
}

// requestsOf returns how many requests of a user after a mark are of the kind.
func (r *rotation) requestsOf(t planetest.T, user string, mark int64, kind func(audited) bool) (found int) {
	t.Helper()
	log, err := os.Open(r.audit)
	require.NoError(t, err)
	defer log.Close()
	_, err = log.Seek(mark, io.SeekStart)
	require.NoError(t, err)
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var request audited
		// The last line may be incomplete. A watch has a line when it begins, and one when it ends.
		if json.Unmarshal(lines.Bytes(), &request) == nil && request.User.Username == user && kind(request) &&
			(request.Verb == "watch") == (request.Stage == "ResponseStarted") {
			found++
		}
	}
	require.NoError(t, lines.Err())
	return found
}

func anyRequest(audited) bool { return true }

func isCheck(request audited) bool { return request.RequestURI == "/livez" }

// The virtual kubelet gets another credential, while pods run.
func TestLongTheCredentialIsRotated(t *testing.T) {
	t.Parallel()
	r := &rotation{audit: filepath.Join(t.TempDir(), "audit.log")}
	r.rig = newRigOf(t, []*testplane.Cluster{
		planetest.ForTest(t, "rome"), planetest.ForTest(t, "milan", func(o *testplane.Options) { o.AuditLog = r.audit }),
	})
	r.runManager()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	r.create(r.rome, r.secret(r.kubeconfigOf(t, "before")), virtualNode())
	r.mapNamespace()
	options := r.options()
	options.CertificateType = string(kubelet.CertificateSelfSigned)
	ended := r.runKubelet(options)
	r.awaitNode(nodeName)
	r.create(r.rome, podOn(nodeName, "web"))
	r.awaitRunning("web")
	shadow, remotePod := r.awaitShadow("web").UID, r.awaitRemotePod(t, "web", "").UID

	require.NoError(t, r.rome.Update(t.Context(), r.secret([]byte("rubbish"))))
	r.awaitEvent("BrokenKubeconfig", `key "kubeconfig" is not a kubeconfig`)
	r.create(r.rome, podOn(nodeName, "second"))
	r.awaitRunning("second")

	require.NoError(t, r.rome.Update(t.Context(), r.secret(r.kubeconfigOf(t, "after"))))
	// The virtual kubelet checks the provider every second.
	mark := r.mark(t)
	planetest.Until(t, func(t planetest.T) bool {
		if r.requestsOf(t, "before", mark, anyRequest) > 0 {
			mark = r.mark(t)
		}
		require.Greater(t, r.requestsOf(t, "after", mark, isCheck), 1)
		return true
	}, soon, tick, "only the other credential is used")
	r.create(r.rome, podOn(nodeName, "last"))
	r.awaitRunning("last")
	assert.Zero(t, r.requestsOf(t, "before", mark, anyRequest))
	assert.Equal(t, shadow, r.awaitShadow("web").UID)
	assert.Equal(t, remotePod, r.awaitRemotePod(t, "web", "").UID)
	select {
	case err := <-ended:
		t.Fatalf("the virtual kubelet ended: %v", err)
	default:
	}
}
