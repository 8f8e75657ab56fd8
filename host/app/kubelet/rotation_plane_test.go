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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// rotation is a shared process whose virtual nodes have a kubeconfig Secret each.
type rotation struct {
	*rig

	audit string
	names []string
	// uids are those of ShadowPods and remote pods.
	uids map[string]types.UID
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

func (r *rotation) secretOf(name string, kubeconfig []byte) *corev1.Secret {
	secret := r.secret(kubeconfig)
	secret.Name = "kubeconfig-" + name
	return secret
}

// audited is a request in the audit log of the provider.
type audited struct {
	Stage, Verb, RequestURI string
	User                    struct{ Username string }
	ObjectRef               struct{ Resource, Name string }
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

func isWatchRequest(request audited) bool { return request.Verb == "watch" }

// run creates a pod for a node and waits until it runs.
func (r *rotation) run(name, pod string) {
	r.t.Helper()
	r.create(r.rome, podOn(name, pod))
	r.awaitRunning(pod)
}

// remoteUIDs returns the UIDs of ShadowPods and remote pods of the pods that were created first.
func (r *rotation) remoteUIDs(t *testing.T) map[string]types.UID {
	t.Helper()
	uids := map[string]types.UID{}
	for _, name := range r.names {
		key := client.ObjectKey{Namespace: "shop-rome", Name: "web-" + name}
		shadow, pod := &offloadingv1beta1.ShadowPod{}, &corev1.Pod{}
		require.NoError(t, r.milan.Get(t.Context(), key, shadow))
		require.NoError(t, r.milan.Get(t.Context(), key, pod))
		uids["ShadowPod of "+name], uids["Pod of "+name] = shadow.UID, pod.UID
	}
	return uids
}

// The virtual nodes of a process share watches, because their users have the same rights. One after
// the other gets another user, while pods run.
func TestLongCredentialsAreRotatedInASharedProcess(t *testing.T) {
	t.Parallel()
	r := &rotation{audit: filepath.Join(t.TempDir(), "audit.log"), names: []string{"milan-1", "milan-2", "milan-3"}}
	r.rig = newRigOf(t, []*testplane.Cluster{
		planetest.ForTest(t, "rome"), planetest.ForTest(t, "milan", func(o *testplane.Options) { o.AuditLog = r.audit }),
	})
	r.runManager()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	r.createSharedPod("replica-1")
	before := r.kubeconfigOf(t, "before")
	for _, name := range r.names {
		r.create(r.rome, r.secretOf(name, before), assigned(name, "kubeconfig-"+name))
	}
	r.mapNamespace()
	ended := r.runKubelet(r.sharedOptions())
	for _, name := range r.names {
		r.awaitNode(name)
		r.run(name, "web-"+name)
	}
	r.uids = r.remoteUIDs(t)

	t.Run("one gets another credential", r.testOne)
	t.Run("a kubeconfig that cannot be used is reported, and the one before stays in use", r.testBroken)
	t.Run("the credential of before is not used after all have another", r.testAll)
	assert.Equal(t, r.uids, r.remoteUIDs(t), "all remote pods are those of before")
	events := &corev1.EventList{}
	require.NoError(t, r.rome.List(t.Context(), events, client.InNamespace(tenant)))
	for i := range events.Items {
		assert.NotEqual(t, "VirtualNodeNotServed", events.Items[i].Reason, events.Items[i].Message)
	}
	select {
	case err := <-ended:
		t.Fatalf("the virtual kubelet ended: %v", err)
	default:
	}
}

func (r *rotation) testOne(t *testing.T) {
	mark := r.mark(t)
	require.NoError(t, r.rome.Update(t.Context(), r.secretOf("milan-2", r.kubeconfigOf(t, "after"))))
	creations := func(user, pod string) func(planetest.T) bool {
		return func(t planetest.T) bool {
			return r.requestsOf(t, user, mark, func(request audited) bool {
				return request.Verb == "create" && request.ObjectRef.Resource == "shadowpods" && request.ObjectRef.Name == pod
			}) > 0
		}
	}
	planetest.Until(t, func(t planetest.T) bool { return r.requestsOf(t, "after", mark, isCheck) > 0 }, soon, tick, "milan-2 checks the provider with the other credential")
	for _, name := range r.names {
		r.run(name, "second-"+name)
	}
	planetest.Until(t, creations("after", "second-milan-2"), soon, tick, "milan-2 has the other credential")
	planetest.Until(t, creations("before", "second-milan-1"), soon, tick, "milan-1 has its own credential")
	assert.Zero(t, r.requestsOf(t, "before", mark, isWatchRequest), "the watches of the others go on")
	isShared := func(request audited) bool {
		return isWatchRequest(request) && request.ObjectRef.Resource == "shadowpods"
	}
	assert.Zero(t, r.requestsOf(t, "after", mark, isShared), "users with the same rights share watches, apart from those of the leader")
}

func (r *rotation) testBroken(t *testing.T) {
	require.NoError(t, r.rome.Update(t.Context(), r.secretOf("milan-1", []byte("rubbish"))))
	r.awaitEvent("BrokenKubeconfig", `kubeconfig-milan-1: key "kubeconfig" is not a kubeconfig`)
	r.run("milan-1", "third-milan-1")
}

func (r *rotation) testAll(t *testing.T) {
	users := map[string]string{"milan-1": "after-1", "milan-2": "after", "milan-3": "after-3"}
	for _, name := range []string{"milan-1", "milan-3"} {
		require.NoError(t, r.rome.Update(t.Context(), r.secretOf(name, r.kubeconfigOf(t, users[name]))))
	}
	// Each virtual node checks the provider every second.
	mark := r.mark(t)
	planetest.Until(t, func(t planetest.T) bool {
		if r.requestsOf(t, "before", mark, anyRequest) > 0 {
			mark = r.mark(t)
		}
		for _, user := range users {
			require.Greater(t, r.requestsOf(t, user, mark, isCheck), 1, user)
		}
		return true
	}, soon, tick, "only the other credentials are used")
	for _, name := range r.names {
		r.run(name, "last-"+name)
	}
	assert.Zero(t, r.requestsOf(t, "before", mark, anyRequest))
}
