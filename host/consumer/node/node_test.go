package node

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
)

const patience = time.Minute

var errDown = errors.New("connection refused")

func virtualNode() *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "milan-1", Namespace: "liqo-tenant-milan"},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID: "milan",
			ResourceQuota: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), "example.com/gpu": resource.MustParse("1"),
			}},
		},
	}
}

// listing is a fake client, which lists before it watches.
type listing struct{ client.WithWatch }

// IsWatchListSemanticsUnSupported tells client-go's reflector.
func (listing) IsWatchListSemanticsUnSupported() bool { return true }

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(corev1.AddToScheme(scheme), liqocorev1beta1.AddToScheme(scheme)))
	return scheme
}

func newNode(t *testing.T, clientset *fake.Clientset, alter func(*Options)) *Node {
	t.Helper()
	options := Options{
		Nodes: clientset.CoreV1().Nodes(), Leases: clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease),
		Local:        listing{ctrlfake.NewClientBuilder().WithScheme(testScheme(t)).Build()},
		RemoteHealth: func(context.Context) error { return nil },
		VirtualNode:  virtualNode(), Now: time.Now, NodeIP: "127.0.0.9", KubeletPort: 10250, KubeletVersion: "v1.37.0",
		LeaseDuration: 40 * time.Second, PingInterval: 10 * time.Millisecond, PingTimeout: time.Second, StatusInterval: time.Minute,
	}
	if alter != nil {
		alter(&options)
	}
	n, err := New(options)
	require.NoError(t, err)
	return n
}

func run(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
}

func TestNodeIsRegisteredWithALeaseAndFollowsItsVirtualNode(t *testing.T) {
	clientset := fake.NewClientset()
	n := newNode(t, clientset, nil)
	run(t, n)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		node, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
		require.NoError(c, err)
		assert.Equal(c, corev1.ConditionTrue, ready(node))
		lease, err := clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "milan-1", metav1.GetOptions{})
		require.NoError(c, err)
		assert.Equal(c, int32(40), *lease.Spec.LeaseDurationSeconds)
	}, patience, 10*time.Millisecond)

	vn := virtualNode()
	vn.Spec.Labels = map[string]string{"zone": "b"}
	delete(vn.Spec.ResourceQuota.Hard, "example.com/gpu")
	n.VirtualNodeChanged(vn)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		node, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
		require.NoError(c, err)
		assert.NotContains(c, node.Status.Capacity, corev1.ResourceName("example.com/gpu"), "T64: although the node was created with it")
	}, patience, 10*time.Millisecond)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		node, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
		require.NoError(c, err)
		assert.Equal(c, "b", node.Labels["zone"])
	}, patience, 10*time.Millisecond)

	vn = vn.DeepCopy()
	vn.Spec.Labels = nil
	delete(vn.Spec.ResourceQuota.Hard, corev1.ResourceMemory)
	n.VirtualNodeChanged(vn)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		node, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
		require.NoError(c, err)
		assert.NotContains(c, node.Labels, "zone", "what was ours and is not wanted any more goes")
		assert.NotContains(c, node.Status.Capacity, corev1.ResourceMemory, "T64")
		assert.Equal(c, corev1.ConditionFalse, ready(node))
	}, patience, 10*time.Millisecond)
}

func TestNoLeaseAndNoNodeWhileTheProviderDoesNotAnswer(t *testing.T) {
	clientset := fake.NewClientset()
	asked := make(chan struct{}, 100)
	n := newNode(t, clientset, func(o *Options) {
		o.RemoteHealth = func(context.Context) error {
			select {
			case asked <- struct{}{}:
			default:
			}
			return errDown
		}
	})
	run(t, n)
	for range 3 {
		<-asked
	}
	for _, action := range clientset.Actions() {
		assert.Equal(t, "get", action.GetVerb(), "nothing is written: %v", action)
	}
}

func TestNodeThatIsDeletedIsMadeAnew(t *testing.T) {
	clientset := fake.NewClientset()
	n := newNode(t, clientset, func(o *Options) { o.StatusInterval = 50 * time.Millisecond })
	run(t, n)
	exists := func() bool {
		_, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
		return err == nil
	}
	require.Eventually(t, exists, patience, 10*time.Millisecond)
	require.NoError(t, clientset.CoreV1().Nodes().Delete(t.Context(), "milan-1", metav1.DeleteOptions{}))
	require.Eventually(t, exists, patience, 10*time.Millisecond)
}

// forbidden makes a clientset in which a virtual kubelet may not create Nodes.
func forbidden(nodes ...runtime.Object) *fake.Clientset {
	clientset := fake.NewClientset(nodes...)
	clientset.PrependReactor("create", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "milan-1", errors.New("no such right"))
	})
	return clientset
}

// byManager is the Node as the manager creates it.
func byManager() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1", Labels: map[string]string{
		"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan",
	}}}
}

func TestANodeThatTheManagerCreatesIsCompleted(t *testing.T) {
	isReady := func(clientset *fake.Clientset) func() bool {
		return func() bool {
			node, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
			return err == nil && ready(node) == corev1.ConditionTrue
		}
	}
	t.Run("when it is there already", func(t *testing.T) {
		clientset := forbidden(byManager())
		run(t, newNode(t, clientset, nil))
		require.Eventually(t, isReady(clientset), patience, 10*time.Millisecond)
	})
	t.Run("when it comes later, and when it is created again", func(t *testing.T) {
		clientset := forbidden()
		asked := make(chan struct{}, 100)
		clientset.PrependReactor("create", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked <- struct{}{}
			return false, nil, nil
		})
		// Watches come from a client of their own.
		watched := ctrlfake.NewClientBuilder().WithScheme(testScheme(t)).
			WithIndex(&corev1.Node{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()
		// What is created between its list and its watch, the fake client does not show.
		watching := make(chan struct{}, 10)
		run(t, newNode(t, clientset, func(o *Options) {
			o.Local = listing{interceptor.NewClient(watched, interceptor.Funcs{
				Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
					w, err := c.Watch(ctx, list, opts...)
					if _, nodes := list.(*corev1.NodeList); nodes && err == nil {
						watching <- struct{}{}
					}
					return w, err
				},
			})}
		}))
		<-asked
		<-watching
		for range 2 {
			require.NoError(t, clientset.Tracker().Add(byManager()))
			require.NoError(t, watched.Create(t.Context(), byManager()))
			require.Eventually(t, isReady(clientset), patience, 10*time.Millisecond)
			require.NoError(t, clientset.CoreV1().Nodes().Delete(t.Context(), "milan-1", metav1.DeleteOptions{}))
			require.NoError(t, watched.Delete(t.Context(), byManager()))
		}
		assert.LessOrEqual(t, len(asked), 2, "it waits for an event, and does not poll")
	})
}

func TestANodeOfSomebodyElseIsNotTakenOver(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"a real node":             nil,
		"another provider's node": {"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "paris"},
	} {
		t.Run(name, func(t *testing.T) {
			clientset := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1", Labels: labels}})
			err := newNode(t, clientset, nil).Run(t.Context())
			require.ErrorContains(t, err, `node "milan-1" exists and is no virtual node of cluster "milan"`)
		})
	}
}

func TestPing(t *testing.T) {
	established, broken, none := liqocorev1beta1.ConditionStatusEstablished, liqocorev1beta1.ConditionStatusError, liqocorev1beta1.ConditionStatusNone
	for name, tc := range map[string]struct {
		status    *liqocorev1beta1.ConditionStatusType
		remote    error
		wantAsked bool
		wantErr   string
	}{
		"no ForeignCluster: the peer is asked":     {nil, nil, true, ""},
		"no ForeignCluster, no answer":             {nil, errDown, true, `asking the API server of cluster "milan": connection refused`},
		"nobody probes: the peer is asked":         {&none, nil, true, ""},
		"the ForeignCluster says that it is there": {&established, errDown, false, ""},
		"the ForeignCluster says that it is not":   {&broken, nil, false, `ForeignCluster milan says of the API server of cluster "milan": Error`},
	} {
		t.Run(name, func(t *testing.T) {
			asked := false
			n := newNode(t, fake.NewClientset(), func(o *Options) {
				o.RemoteHealth = func(context.Context) error { asked = true; return tc.remote }
			})
			if tc.status != nil {
				n.foreignCluster = &liqocorev1beta1.ForeignCluster{
					ObjectMeta: metav1.ObjectMeta{Name: "milan"},
					Status: liqocorev1beta1.ForeignClusterStatus{Conditions: []liqocorev1beta1.Condition{
						{Type: liqocorev1beta1.APIServerStatusCondition, Status: *tc.status},
					}},
				}
			}
			err := n.Ping(t.Context())
			assert.Equal(t, tc.wantAsked, asked)
			if tc.wantErr == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, tc.wantErr)
		})
	}
}

func TestWhatAPingFoundIsToldUnlessItWasStopped(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		want []bool
	}{
		"no answer in time": {late, []bool{false}},
		"stopped":           {stopped, nil},
		"no answer":         {t.Context(), []bool{false}},
	} {
		t.Run(name, func(t *testing.T) {
			var told []bool
			n := newNode(t, fake.NewClientset(), func(o *Options) {
				o.RemoteHealth = func(context.Context) error { return errDown }
				o.Reachable = func(up bool) { told = append(told, up) }
			})
			require.Error(t, n.Ping(tc.ctx))
			assert.Equal(t, tc.want, told)
		})
	}
}

// One answer that is lost is no outage; the consumer gives the Node up after LeaseDuration.
func TestAnOutageIsReportedBeforeTheNodeIsGivenUp(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var health error
	var reports []string
	n := newNode(t, fake.NewClientset(), func(o *Options) {
		o.Now = func() time.Time { return at }
		o.RemoteHealth = func(context.Context) error { return health }
		o.Unreachable = func(down bool) { reports = append(reports, at.Format("04:05")+" "+strconv.FormatBool(down)) }
	})
	ping := func(err error, after time.Duration) {
		health, at = err, at.Add(after)
		assert.ErrorIs(t, n.Ping(t.Context()), err)
	}
	ping(nil, 0)
	ping(errDown, 10*time.Second)
	ping(nil, 10*time.Second)
	ping(errDown, 10*time.Second)
	ping(errDown, 10*time.Second)
	ping(nil, 10*time.Second)
	assert.Equal(t, []string{"04:05 false", "04:25 false", "04:45 true", "04:55 false"}, reports)
}

func TestPingOfAnIntervalOfZeroAsksNobody(t *testing.T) {
	n := newNode(t, fake.NewClientset(), func(o *Options) {
		o.PingInterval = 0
		o.RemoteHealth = func(context.Context) error { return errDown }
	})
	assert.NoError(t, n.Ping(t.Context()))
}

func TestNetwork(t *testing.T) {
	cluster := func(observed int64, enabled bool, status liqocorev1beta1.ConditionStatusType) *liqocorev1beta1.ForeignCluster {
		return &liqocorev1beta1.ForeignCluster{Status: liqocorev1beta1.ForeignClusterStatus{
			ObservedGeneration: observed,
			Modules: liqocorev1beta1.Modules{Networking: liqocorev1beta1.Module{Enabled: enabled, Conditions: []liqocorev1beta1.Condition{
				{Type: liqocorev1beta1.NetworkConnectionStatusCondition, Status: status},
			}}},
		}}
	}
	for name, tc := range map[string]struct {
		check bool
		fc    *liqocorev1beta1.ForeignCluster
		want  local.Network
	}{
		"not to be checked":            {false, nil, local.NetworkUnchecked},
		"no ForeignCluster":            {true, nil, local.NetworkDown},
		"module off":                   {true, cluster(1, false, ""), local.NetworkUnchecked},
		"no component reports modules": {true, cluster(0, false, ""), local.NetworkUnchecked},
		"connection pending":           {true, cluster(1, true, liqocorev1beta1.ConditionStatusPending), local.NetworkDown},
		"connection established":       {true, cluster(1, true, liqocorev1beta1.ConditionStatusEstablished), local.NetworkUp},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, fake.NewClientset(), func(o *Options) { o.CheckNetwork = tc.check })
			n.foreignCluster = tc.fc
			assert.Equal(t, tc.want, n.network())
		})
	}
}

// The label liqo.io/remote-cluster-id is set by a webhook that need not be there.
func TestTheForeignClusterIsFoundByItsClusterID(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, liqocorev1beta1.AddToScheme(scheme))
	cluster := func(name, id string) *liqocorev1beta1.ForeignCluster {
		return &liqocorev1beta1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       liqocorev1beta1.ForeignClusterSpec{ClusterID: liqocorev1beta1.ClusterID(id)},
		}
	}
	c := listing{ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster("a", "turin"), cluster("b", "milan"), cluster("c", "paris")).Build()}
	n := newNode(t, fake.NewClientset(), func(o *Options) { o.Local = c })
	found := func() string {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.foreignCluster == nil {
			return ""
		}
		return n.foreignCluster.Name
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	require.True(t, n.followForeignCluster(ctx, &group))
	require.Eventually(t, func() bool { return found() == "b" }, time.Minute, time.Millisecond)
	require.NoError(t, c.Delete(t.Context(), cluster("a", "turin")))
	require.NoError(t, c.Delete(t.Context(), cluster("b", "milan")))
	require.Eventually(t, func() bool { return found() == "" }, time.Minute, time.Millisecond)
}

func TestTaintsAreMergedWithThoseOfOthers(t *testing.T) {
	ours := corev1.Taint{Key: "virtual-node.liqo.io/not-allowed", Value: "true", Effect: corev1.TaintEffectNoExecute}
	others := corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: time.Unix(1, 0)}}
	gpu := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}
	for name, tc := range map[string]struct {
		record                string
		server, desired, want []corev1.Taint
	}{
		"ours was taken away (T63)":        {"", []corev1.Taint{others}, []corev1.Taint{ours}, []corev1.Taint{others, ours}},
		"all is well":                      {"", []corev1.Taint{ours, others}, []corev1.Taint{ours}, []corev1.Taint{ours, others}},
		"one of the VirtualNode's is new":  {"", []corev1.Taint{ours}, []corev1.Taint{ours, gpu}, []corev1.Taint{ours, gpu}},
		"one of the VirtualNode's is gone": {"gpu:NoSchedule", []corev1.Taint{ours, gpu}, []corev1.Taint{ours}, []corev1.Taint{ours}},
		"an administrator's stays":         {"", []corev1.Taint{ours, gpu}, []corev1.Taint{ours}, []corev1.Taint{ours, gpu}},
		"a value was changed": {
			"", []corev1.Taint{{Key: ours.Key, Value: "no", Effect: ours.Effect}}, []corev1.Taint{ours}, []corev1.Taint{ours},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := &corev1.Node{Spec: corev1.NodeSpec{Taints: tc.server}}
			server.Annotations = map[string]string{taintsAnnotation: tc.record}
			assert.Equal(t, tc.want, mergeTaints(server, &corev1.Node{Spec: corev1.NodeSpec{Taints: tc.desired}}))
		})
	}
}

func TestHealingTaintsIsOnePatchOfTheVersionThatWasLookedAt(t *testing.T) {
	existing := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1", ResourceVersion: "7"}}
	clientset := fake.NewClientset(existing)
	n := newNode(t, clientset, nil)
	n.server = existing
	n.healTaints(t.Context(), n.desired())
	node, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, n.desired().Spec.Taints, node.Spec.Taints)
	n.server = node
	before := len(clientset.Actions())
	n.healTaints(t.Context(), n.desired())
	assert.Len(t, clientset.Actions(), before, "nothing is sent when nothing is to be done")
}

func TestStaleness(t *testing.T) {
	for name, tc := range map[string]struct {
		alter func(published, server *corev1.Node)
		want  bool
	}{
		"nothing changed":                   {func(_, _ *corev1.Node) {}, false},
		"only the heartbeat is older":       {func(p, _ *corev1.Node) { p.Status.Conditions[0].LastHeartbeatTime = metav1.Time{} }, false},
		"others added a label":              {func(_, s *corev1.Node) { s.Labels["admin"] = "x" }, false},
		"others took a label away":          {func(_, s *corev1.Node) { delete(s.Labels, "liqo.io/type") }, true},
		"others changed the capacity":       {func(_, s *corev1.Node) { s.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("9") }, true},
		"the node was given up meanwhile":   {func(_, s *corev1.Node) { s.Status.Conditions[0].Status = corev1.ConditionUnknown }, true},
		"the VirtualNode has another label": {func(p, _ *corev1.Node) { p.Labels["old"] = "x" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, fake.NewClientset(), nil)
			n.server = n.desired()
			n.published = n.desired()
			tc.alter(n.published, n.server)
			assert.Equal(t, tc.want, n.stale(n.desired()))
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "needs clients")
	n := newNode(t, fake.NewClientset(&coordinationv1.Lease{}), nil)
	options := n.options
	options.LeaseDuration = time.Second
	_, err = New(options)
	assert.ErrorContains(t, err, "lease of 1s is too short")
}
