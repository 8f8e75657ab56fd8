package kubelet_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/internal/testkit/childprocess"
)

const (
	// churnPeriod is the time between two creations of a pod, and churnPods the number of
	// creations after which it is deleted.
	churnPeriod = 100 * time.Millisecond
	churnPods   = 10
	// churnBacklog is the number of pods, those being deleted included, at which churn waits:
	// a slow machine is not given more work than it can do.
	churnBacklog = 60
)

// remoteUIDs records the UIDs that the ShadowPods and pods of the provider have had.
type remoteUIDs struct {
	mu   sync.Mutex
	seen map[string]map[types.UID]bool
}

func (u *remoteUIDs) add(object client.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := fmt.Sprintf("%T %s", object, object.GetName())
	if u.seen[key] == nil {
		u.seen[key] = map[types.UID]bool{}
	}
	u.seen[key][object.GetUID()] = true
}

// await waits until the provider has run a pod, which may be gone again.
func (u *remoteUIDs) await(t *testing.T, pod string) {
	t.Helper()
	require.Eventually(t, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.seen["*v1.Pod "+pod] != nil
	}, soon, tick, "pod %s is seen in the provider", pod)
}

// checkOnce checks that each object had one UID, and that those of a pod were seen.
func (u *remoteUIDs) checkOnce(t *testing.T, pod string) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	assert.Contains(t, u.seen, "*v1.Pod "+pod)
	assert.Contains(t, u.seen, "*v1beta1.ShadowPod "+pod)
	for name, uids := range u.seen {
		assert.Len(t, uids, 1, "%s was created once", name)
	}
}

// recordUIDs records UIDs until the test ends. It returns after both watches have begun.
func (r *rig) recordUIDs(t *testing.T) *remoteUIDs {
	t.Helper()
	recorded := &remoteUIDs{seen: map[string]map[types.UID]bool{}}
	c, err := client.NewWithWatch(r.provider.RESTConfig(), client.Options{Scheme: r.runtimeTypes})
	require.NoError(t, err)
	for _, list := range []client.ObjectList{&offloadingv1beta1.ShadowPodList{}, &corev1.PodList{}} {
		events, err := c.Watch(t.Context(), list, client.InNamespace("shop-rome"))
		require.NoError(t, err)
		r.background(func(ctx context.Context) error {
			defer events.Stop()
			for {
				select {
				case <-ctx.Done():
					return nil
				case event, ok := <-events.ResultChan():
					if !ok {
						return nil
					}
					if object, isObject := event.Object.(client.Object); isObject && event.Type != watch.Bookmark {
						recorded.add(object)
					}
				}
			}
		})
	}
	return recorded
}

// churn creates pods on the virtual node and deletes them after a while. stop ends that and returns an
// error of a request.
func (r *rig) churn() (stop func() error) {
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := r.background(func(context.Context) error {
		ticker := time.NewTicker(churnPeriod)
		defer ticker.Stop()
		for i := 0; ; {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			pods, err := r.podNames(r.rome, "shop")
			if err != nil {
				return err
			}
			if len(pods) >= churnBacklog {
				continue
			}
			if err := r.rome.Create(r.t.Context(), podOn(nodeName, "churn-"+strconv.Itoa(i))); err != nil {
				return err
			}
			if i >= churnPods {
				old := podOn("", "churn-"+strconv.Itoa(i-churnPods))
				if err := client.IgnoreNotFound(r.rome.Delete(r.t.Context(), old)); err != nil {
					return err
				}
			}
			i++
		}
	})
	return func() error {
		cancel()
		return <-ended
	}
}

func (r *rig) podNames(c client.Client, namespace string) (map[string]bool, error) {
	list := &corev1.PodList{}
	err := c.List(r.t.Context(), list, client.InNamespace(namespace))
	names := map[string]bool{}
	for i := range list.Items {
		names[list.Items[i].Name] = list.Items[i].Status.Phase == corev1.PodRunning && list.Items[i].DeletionTimestamp == nil
	}
	return names, err
}

func (r *rig) awaitNode(name string) {
	r.t.Helper()
	node := &corev1.Node{}
	require.Eventually(r.t, func() bool {
		return r.rome.Get(r.t.Context(), client.ObjectKey{Name: name}, node) == nil && isReady(node)
	}, soon, tick, "node %s is ready", name)
}

func (r *rig) awaitRunning(name string) {
	r.t.Helper()
	pod := &corev1.Pod{}
	require.Eventually(r.t, func() bool {
		return r.rome.Get(r.t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, pod) == nil && pod.Status.Phase == corev1.PodRunning
	}, soon, tick, "pod %s is Running", name)
}

// Two replicas take turns while pods come and go: the leader ends in order, and the next one is killed.
// Each remote object is created once.
func TestLongReplicasTakeOverUnderChurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runManager()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	r.create(r.rome, r.secret(r.kubeconfig), virtualNode())
	r.mapNamespace()
	startReplica := func(identity string) *childprocess.Process {
		return childprocess.Start(t, childOptions{
			Kubeconfig: r.adminKubeconfig(t), NodeIP: r.consumer.Address(), PolicyCache: r.policyCache, Identity: identity, ListenPort: 10250,
		})
	}
	recorded := r.recordUIDs(t)
	first := startReplica("replica-1")
	r.awaitNode(nodeName)
	r.create(r.rome, podOn(nodeName, "stays"))
	r.awaitRunning("stays")
	second := startReplica("replica-2")
	stop := r.churn()
	takesOver := func(identity string) {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool { return ptr.Deref(r.nodeLease(t).HolderIdentity, "") == identity }, soon, tick, "%s leads", identity)
		r.create(r.rome, podOn(nodeName, "after-"+identity))
		r.awaitRunning("after-" + identity)
	}
	recorded.await(t, "churn-"+strconv.Itoa(churnPods))
	first.End(t)
	takesOver("replica-2")
	startReplica("replica-3")
	second.Kill(t)
	takesOver("replica-3")
	require.NoError(t, stop())

	require.Eventually(t, func() bool {
		local, err := r.podNames(r.rome, "shop")
		if err != nil {
			return false
		}
		remote, err := r.podNames(r.milan, "shop-rome")
		if err != nil || len(local) != 3+churnPods {
			return false
		}
		for name, isRunning := range local {
			if !isRunning || !remote[name] {
				return false
			}
		}
		return len(remote) == len(local)
	}, soon, tick, "both clusters have the same pods, and all run")
	recorded.checkOnce(t, "after-replica-3")
	r.awaitNode(nodeName)
}
