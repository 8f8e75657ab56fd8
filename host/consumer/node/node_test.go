package node

import (
	"context"
	"errors"
	"strconv"
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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/local"
)

const patience = time.Minute

var errUnreachable = errors.New("connection refused")

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

// listClient makes client-go's reflector list before it watches, as a fake client needs it.
type listClient struct{ client.WithWatch }

// IsWatchListSemanticsUnSupported is called by client-go's reflector.
func (listClient) IsWatchListSemanticsUnSupported() bool { return true }

func newNode(t *testing.T, clientset *fake.Clientset, alter func(*Options)) *Node {
	t.Helper()
	options := Options{
		Nodes: clientset.CoreV1().Nodes(), Leases: clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease),
		Local:         listClient{fakeclient.Builder().Build()},
		CheckProvider: func(context.Context) error { return nil },
		VirtualNode:   virtualNode(), Now: time.Now, NodeIP: "127.0.0.9", KubeletPort: 10250, KubeletVersion: "v1.37.0",
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

func TestNodeIsRegisteredWithALeaseAndUpdated(t *testing.T) {
	clientset := fake.NewClientset()
	n := newNode(t, clientset, nil)
	run(t, n)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		node, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
		require.NoError(c, err)
		assert.Equal(c, corev1.ConditionTrue, readyStatus(node))
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
		assert.NotContains(c, node.Status.Capacity, corev1.ResourceName("example.com/gpu"), "T64: a resource that the node was registered with")
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
		assert.NotContains(c, node.Labels, "zone", "a removed label is removed from the node")
		assert.NotContains(c, node.Status.Capacity, corev1.ResourceMemory, "T64")
		assert.Equal(c, corev1.ConditionFalse, readyStatus(node))
	}, patience, 10*time.Millisecond)
}

func TestNothingIsWrittenBeforeTheProviderAnswers(t *testing.T) {
	clientset := fake.NewClientset()
	checks := make(chan struct{}, 100)
	n := newNode(t, clientset, func(o *Options) {
		o.CheckProvider = func(context.Context) error {
			select {
			case checks <- struct{}{}:
			default:
			}
			return errUnreachable
		}
	})
	run(t, n)
	for range 3 {
		<-checks
	}
	for _, action := range clientset.Actions() {
		assert.Equal(t, "get", action.GetVerb(), "%v", action)
	}
}

func TestDeletedNodeIsCreatedAgain(t *testing.T) {
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

// clientsetWithoutCreate returns a clientset without the right to create Nodes.
func clientsetWithoutCreate(nodes ...runtime.Object) *fake.Clientset {
	clientset := fake.NewClientset(nodes...)
	clientset.PrependReactor("create", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "milan-1", errors.New("no such right"))
	})
	return clientset
}

// managerNode returns the Node as the manager creates it.
func managerNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1", Labels: map[string]string{
		"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan",
	}}}
}

func TestNodeOfTheManagerIsUpdated(t *testing.T) {
	isReady := func(clientset *fake.Clientset) func() bool {
		return func() bool {
			node, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
			return err == nil && readyStatus(node) == corev1.ConditionTrue
		}
	}
	t.Run("that exists", func(t *testing.T) {
		clientset := clientsetWithoutCreate(managerNode())
		run(t, newNode(t, clientset, nil))
		require.Eventually(t, isReady(clientset), patience, 10*time.Millisecond)
	})
	t.Run("that is created later, and again", func(t *testing.T) {
		clientset := clientsetWithoutCreate()
		creations := make(chan struct{}, 100)
		clientset.PrependReactor("create", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			creations <- struct{}{}
			return false, nil, nil
		})
		// The clientset has no field selectors: watches use another client.
		watched := fakeclient.Builder().
			WithIndex(&corev1.Node{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()
		// The fake client loses objects that are created between its list and its watch.
		watching := make(chan struct{}, 10)
		run(t, newNode(t, clientset, func(o *Options) {
			o.Local = listClient{interceptor.NewClient(watched, interceptor.Funcs{
				Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
					w, err := c.Watch(ctx, list, opts...)
					if _, nodes := list.(*corev1.NodeList); nodes && err == nil {
						watching <- struct{}{}
					}
					return w, err
				},
			})}
		}))
		<-creations
		<-watching
		for range 2 {
			require.NoError(t, clientset.Tracker().Add(managerNode()))
			require.NoError(t, watched.Create(t.Context(), managerNode()))
			require.Eventually(t, isReady(clientset), patience, 10*time.Millisecond)
			require.NoError(t, clientset.CoreV1().Nodes().Delete(t.Context(), "milan-1", metav1.DeleteOptions{}))
			require.NoError(t, watched.Delete(t.Context(), managerNode()))
		}
		assert.LessOrEqual(t, len(creations), 2, "it waits for events and does not poll")
	})
}

func TestExistingNodeOfAnotherOwnerIsRefused(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"a real node":             nil,
		"another provider's node": {"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "paris"},
	} {
		t.Run(name, func(t *testing.T) {
			clientset := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1", Labels: labels}})
			err := newNode(t, clientset, nil).Run(t.Context())
			require.ErrorContains(t, err, `node "milan-1" exists and is not a virtual node of cluster "milan"`)
		})
	}
}

func TestPing(t *testing.T) {
	established, broken, none := liqocorev1beta1.ConditionStatusEstablished, liqocorev1beta1.ConditionStatusError, liqocorev1beta1.ConditionStatusNone
	for name, tc := range map[string]struct {
		status  *liqocorev1beta1.ConditionStatusType
		remote  error
		wantErr string
	}{
		"no ForeignCluster, the provider answers":                                {nil, nil, ""},
		"no ForeignCluster, the provider does not answer":                        {nil, errUnreachable, `checking the API server of cluster "milan": connection refused`},
		"ForeignCluster without probe":                                           {&none, nil, ""},
		"the manager reaches the provider, this virtual kubelet does not":        {&established, errUnreachable, `checking the API server of cluster "milan": connection refused`},
		"the manager does not reach the provider, but this virtual kubelet does": {&broken, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, fake.NewClientset(), func(o *Options) {
				o.CheckProvider = func(context.Context) error { return tc.remote }
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
			if tc.wantErr == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, tc.wantErr)
		})
	}
}

func TestResultOfAPingIsReportedUnlessCanceled(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		want []bool
	}{
		"deadline exceeded": {expired, []bool{false}},
		"canceled":          {canceled, nil},
		"no answer":         {t.Context(), []bool{false}},
	} {
		t.Run(name, func(t *testing.T) {
			var results []bool
			n := newNode(t, fake.NewClientset(), func(o *Options) {
				o.CheckProvider = func(context.Context) error { return errUnreachable }
				o.OnPing = func(reachable bool) { results = append(results, reachable) }
			})
			require.Error(t, n.Ping(tc.ctx))
			assert.Equal(t, tc.want, results)
		})
	}
}

// One lost answer is not an outage, also not the first one of a process: while many virtual nodes
// start at once, answers are slow. The consumer marks the Node after LeaseDuration.
func TestOutageIsReportedBeforeTheLeaseExpires(t *testing.T) {
	type ping struct {
		err   error
		after time.Duration
	}
	const later = 10 * time.Second
	for name, test := range map[string]struct {
		pings []ping
		want  []string
	}{
		"a node that was reached": {
			[]ping{{nil, 0}, {errUnreachable, later}, {nil, later}, {errUnreachable, later}, {errUnreachable, later}, {nil, later}},
			[]string{"04:05 false", "04:25 false", "04:45 true", "04:55 false"},
		},
		"the first answer is lost":       {[]ping{{errUnreachable, time.Second}, {nil, later}}, []string{"04:16 false"}},
		"a provider that is not reached": {[]ping{{errUnreachable, later}, {errUnreachable, later}, {nil, later}}, []string{"04:25 true", "04:35 false"}},
	} {
		t.Run(name, func(t *testing.T) {
			at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			var health error
			var reports []string
			n := newNode(t, fake.NewClientset(), func(o *Options) {
				o.Now = func() time.Time { return at }
				o.CheckProvider = func(context.Context) error { return health }
				o.OnOutage = func(outage bool) { reports = append(reports, at.Format("04:05")+" "+strconv.FormatBool(outage)) }
			})
			for _, p := range test.pings {
				health, at = p.err, at.Add(p.after)
				assert.ErrorIs(t, n.Ping(t.Context()), p.err)
			}
			assert.Equal(t, test.want, reports)
		})
	}
}

func TestPingWithAnIntervalOfZeroIsDisabled(t *testing.T) {
	n := newNode(t, fake.NewClientset(), func(o *Options) {
		o.PingInterval = 0
		o.CheckProvider = func(context.Context) error { return errUnreachable }
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
		"check disabled":               {false, nil, local.NetworkUnchecked},
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

func TestMergeTaints(t *testing.T) {
	own := corev1.Taint{Key: "virtual-node.liqo.io/not-allowed", Value: "true", Effect: corev1.TaintEffectNoExecute}
	other := corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: time.Unix(1, 0)}}
	gpu := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}
	for name, tc := range map[string]struct {
		record                string
		server, desired, want []corev1.Taint
	}{
		"own taint was removed (T63)":        {"", []corev1.Taint{other}, []corev1.Taint{own}, []corev1.Taint{other, own}},
		"no difference":                      {"", []corev1.Taint{own, other}, []corev1.Taint{own}, []corev1.Taint{own, other}},
		"taint added to the VirtualNode":     {"", []corev1.Taint{own}, []corev1.Taint{own, gpu}, []corev1.Taint{own, gpu}},
		"taint removed from the VirtualNode": {"gpu:NoSchedule", []corev1.Taint{own, gpu}, []corev1.Taint{own}, []corev1.Taint{own}},
		"administrator's taint":              {"", []corev1.Taint{own, gpu}, []corev1.Taint{own}, []corev1.Taint{own, gpu}},
		"value was changed": {
			"", []corev1.Taint{{Key: own.Key, Value: "no", Effect: own.Effect}}, []corev1.Taint{own}, []corev1.Taint{own},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := &corev1.Node{Spec: corev1.NodeSpec{Taints: tc.server}}
			server.Annotations = map[string]string{taintsAnnotation: tc.record}
			assert.Equal(t, tc.want, mergeTaints(server, &corev1.Node{Spec: corev1.NodeSpec{Taints: tc.desired}}))
		})
	}
}

func TestApplySpecSendsOnePatch(t *testing.T) {
	existing := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1", ResourceVersion: "7"}}
	clientset := fake.NewClientset(existing)
	n := newNode(t, clientset, nil)
	n.server = existing
	n.applySpec(t.Context(), n.desired())
	node, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, n.desired().Spec.Taints, node.Spec.Taints)
	n.server = node
	before := len(clientset.Actions())
	n.applySpec(t.Context(), n.desired())
	assert.Len(t, clientset.Actions(), before, "no request without a difference")
}

func TestNeedsPublish(t *testing.T) {
	for name, tc := range map[string]struct {
		alter func(published, server *corev1.Node)
		want  bool
	}{
		"no difference":                       {func(_, _ *corev1.Node) {}, false},
		"older heartbeat":                     {func(p, _ *corev1.Node) { p.Status.Conditions[0].LastHeartbeatTime = metav1.Time{} }, false},
		"another client added a label":        {func(_, s *corev1.Node) { s.Labels["admin"] = "x" }, false},
		"another client removed a label":      {func(_, s *corev1.Node) { delete(s.Labels, "liqo.io/type") }, true},
		"another client changed the capacity": {func(_, s *corev1.Node) { s.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("9") }, true},
		"node controller marked the node":     {func(_, s *corev1.Node) { s.Status.Conditions[0].Status = corev1.ConditionUnknown }, true},
		"another client changed a message":    {func(_, s *corev1.Node) { s.Status.Conditions[1].Message = "x" }, true},
		"another client reported pressure":    {func(_, s *corev1.Node) { s.Status.Conditions[1].Status = corev1.ConditionTrue }, true},
		"another client removed a condition":  {func(_, s *corev1.Node) { s.Status.Conditions = s.Status.Conditions[:3] }, true},
		"another client reported no network":  {func(_, s *corev1.Node) { withoutNetwork(s, corev1.ConditionTrue) }, true},
		"another client reported a network":   {func(_, s *corev1.Node) { withoutNetwork(s, corev1.ConditionFalse) }, false},
		"another client's own condition": {func(_, s *corev1.Node) {
			s.Status.Conditions = append(s.Status.Conditions, corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionTrue})
		}, false},
		"label was removed from the VirtualNode": {func(p, _ *corev1.Node) { p.Labels["old"] = "x" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, fake.NewClientset(), nil)
			n.server = n.desired()
			n.published = n.desired()
			for _, condition := range n.published.Status.Conditions {
				assert.NotEmpty(t, condition.Message, "a patch cannot remove another client's message")
			}
			tc.alter(n.published, n.server)
			assert.Equal(t, tc.want, n.needsPublish(n.desired()))
		})
	}
}

func TestAMissingProviderIDIsSet(t *testing.T) {
	vn := virtualNode()
	vn.Spec.Annotations = map[string]string{local.ProviderIDAnnotation: "longshore://{cluster}/{node}"}
	for name, tc := range map[string]struct {
		current, want string
		reported      bool
	}{
		"without one":                 {"", "longshore://milan/milan-1", false},
		"with this one":               {"longshore://milan/milan-1", "longshore://milan/milan-1", false},
		"with another, which is kept": {"aws:///z/i-1", "aws:///z/i-1", true},
	} {
		t.Run(name, func(t *testing.T) {
			existing := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1", ResourceVersion: "7"}, Spec: corev1.NodeSpec{ProviderID: tc.current}}
			clientset, recorded := fake.NewClientset(existing), &reports{}
			n := newNode(t, clientset, func(o *Options) { o.VirtualNode, o.Report = vn, recorded.add })
			n.server = existing
			n.applySpec(t.Context(), n.desired())
			node, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, tc.want, node.Spec.ProviderID)
			assert.Equal(t, tc.reported, len(recorded.list()) == 1, "%v", recorded.list())
		})
	}
}

// withoutNetwork sets the condition of a cloud's route controller.
func withoutNetwork(node *corev1.Node, status corev1.ConditionStatus) {
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: status, Reason: "NoRouteCreated", Message: "RouteController failed to create a route",
	})
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "Nodes, Leases, Local and CheckProvider are required")
	n := newNode(t, fake.NewClientset(&coordinationv1.Lease{}), nil)
	options := n.options
	options.LeaseDuration = time.Second
	_, err = New(options)
	assert.ErrorContains(t, err, "lease duration 1s is too short")
}
