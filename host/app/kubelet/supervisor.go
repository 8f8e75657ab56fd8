package kubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/lease"
	"github.com/longshore-dev/longshore/host/kit/retry"
	"github.com/longshore-dev/longshore/host/policysource/report"
)

const (
	// reasonNotServed is the reason of the event on a VirtualNode whose virtual node cannot run
	// in the shared process.
	reasonNotServed = "VirtualNodeNotServed"
	// servedManager owns the served VirtualNodes in the PolicyComponent.
	servedManager = client.FieldOwner("longshore-virtual-nodes")
	// nodeLabel is the label of the metrics of a virtual node in a shared process.
	nodeLabel = "virtual_node"
)

// supervisor runs the virtual nodes of a shared process: one for each VirtualNode that the manager
// has assigned to it. One that fails is tried again, and does not affect the others.
type supervisor struct {
	*shared
	options *Options
	leases  kubernetes.Interface
	report  report.Identity
	metrics *nodeMetrics
	kick    chan struct{}
	// members, invalid and recorded belong to the goroutine of run. invalid has the last error of each
	// VirtualNode whose arguments are invalid, recorded that of the last event for it.
	members           map[string]*member
	invalid, recorded map[string]string
	// served are the names that were reported last; nil before the first report.
	served []string

	mu      sync.Mutex
	running map[string]*virtualNode
}

// member is a virtual node that runs, or is tried again, until cancel is called.
type member struct {
	options nodeOptions
	cancel  context.CancelFunc
	ended   chan struct{}
}

func newSupervisor(o *Options, s *shared) (*supervisor, error) {
	leases, err := kubernetes.NewForConfig(protobuf(s.config))
	if err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	v := &supervisor{
		shared: s, options: o, leases: leases, report: o.component(s.client), metrics: &nodeMetrics{registries: map[*prometheus.Registry]bool{}},
		kick: make(chan struct{}, 1), members: map[string]*member{}, recorded: map[string]string{}, running: map[string]*virtualNode{},
	}
	if err := s.registry.Register(v.metrics); err != nil {
		return nil, fmt.Errorf("adding the metrics of virtual nodes: %w", err)
	}
	return v, nil
}

// run runs virtual nodes until the context ends. The manager calls it after the lease of the
// process was acquired.
func (s *supervisor) run(ctx context.Context) error {
	changed := func(any) { s.wake() }
	if err := watch(ctx, s.manager.GetCache(), &offloadingv1beta1.VirtualNode{}, changed, func(string) { s.wake() }); err != nil {
		return err
	}
	trim := time.AfterFunc(trimDelay, s.policies.Trim)
	defer trim.Stop()
	defer startElection(ctx, s.policies, s.leadership.election)()
	var group sync.WaitGroup
	defer group.Wait()
	for {
		desired, err := s.desired(ctx)
		if err != nil {
			return err
		}
		s.stop(desired)
		if err := s.reportServed(ctx, desired); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Reporting the served VirtualNodes failed, trying again")
			time.AfterFunc(retry.Max, s.wake)
		} else if s.start(ctx, &group, desired) {
			trim.Reset(trimDelay)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.kick:
		}
	}
}

func (s *supervisor) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// desired returns the options of the VirtualNodes that are assigned to this process, by name.
func (s *supervisor) desired(ctx context.Context) (map[string]nodeOptions, error) {
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := s.manager.GetClient().List(ctx, list, client.InNamespace(s.options.TenantNamespace)); err != nil {
		return nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	desired, invalid := map[string]nodeOptions{}, map[string]string{}
	for i := range list.Items {
		vn := &list.Items[i]
		if vn.Annotations[offloadingv1beta1.SharedProcessKey] != s.options.SharedProcess {
			continue
		}
		options, err := s.options.ofNode(vn)
		if err == nil {
			desired[vn.Name] = options
			continue
		}
		invalid[vn.Name] = err.Error()
		s.reportInvalid(ctx, vn, err)
	}
	s.invalid = invalid
	maps.DeleteFunc(s.recorded, func(name, _ string) bool { return invalid[name] == "" })
	return desired, nil
}

// reportInvalid logs why the arguments of a VirtualNode are invalid, and records an event, once for each
// reason. An event that could not be recorded is tried again.
func (s *supervisor) reportInvalid(ctx context.Context, vn *offloadingv1beta1.VirtualNode, cause error) {
	if s.invalid[vn.Name] != cause.Error() {
		ctrl.LoggerFrom(ctx).Error(cause, "The arguments of a VirtualNode are invalid", "node", vn.Name)
	}
	if s.recorded[vn.Name] == cause.Error() {
		return
	}
	message := "The virtual node does not run in the shared process: "
	if s.members[vn.Name] != nil {
		message = "The virtual node runs with the arguments that it had before: "
	}
	if s.warn(ctx, vn, message+cause.Error()+". Correct spec.template of the VirtualNode.") {
		s.recorded[vn.Name] = cause.Error()
		return
	}
	time.AfterFunc(retry.Max, s.wake)
}

// stop stops the virtual nodes that are not desired or have other options. One whose new arguments are
// invalid runs on with those that it has.
func (s *supervisor) stop(desired map[string]nodeOptions) {
	for name, m := range s.members {
		if options, found := desired[name]; !found && s.invalid[name] == "" || found && !slices.Equal(options.arguments, m.options.arguments) {
			m.cancel()
		}
		select {
		case <-m.ended:
			delete(s.members, name)
		default:
		}
	}
}

// reportServed reports which VirtualNodes this process serves or is about to serve, if they have
// changed. The manager withdraws none of them.
func (s *supervisor) reportServed(ctx context.Context, desired map[string]nodeOptions) error {
	served := slices.Collect(maps.Keys(desired))
	for name := range s.members {
		if _, found := desired[name]; !found {
			served = append(served, name)
		}
	}
	slices.Sort(served)
	if s.served != nil && slices.Equal(s.served, served) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	var owners []metav1.OwnerReference
	if s.report.Owner != nil {
		owner, err := s.report.Owner(ctx)
		if err != nil {
			return fmt.Errorf("finding the pod of this process: %w", err)
		}
		owners = append(owners, *owner)
	}
	if err := s.applyComponent(ctx, servedManager, s.report, owners, policyv1alpha1.PolicyComponentStatus{VirtualNodes: served}); err != nil {
		return err
	}
	s.served = append([]string{}, served...)
	return nil
}

// start starts the missing virtual nodes and reports whether there were any. A virtual node that is
// to start again is missing after it has ended.
func (s *supervisor) start(ctx context.Context, group *sync.WaitGroup, desired map[string]nodeOptions) (hasStarted bool) {
	for name, options := range desired {
		if s.members[name] != nil || ctx.Err() != nil {
			continue
		}
		hasStarted = true
		log := ctrl.LoggerFrom(ctx).WithValues("node", name)
		running, cancel := context.WithCancel(ctrl.LoggerInto(ctx, log))
		m := &member{options: options, cancel: cancel, ended: make(chan struct{})}
		s.members[name] = m
		group.Go(func() {
			defer s.wake()
			defer close(m.ended)
			defer cancel()
			s.repeat(running, &m.options.Options)
		})
	}
	return hasStarted
}

// repeat serves a virtual node until the context ends, again after each error.
func (s *supervisor) repeat(ctx context.Context, o *Options) {
	limiter := retry.Limiter[string]()
	for ctx.Err() == nil {
		startedAt := time.Now()
		err := s.serve(ctx, o)
		if ctx.Err() != nil {
			return
		}
		ctrl.LoggerFrom(ctx).Error(err, "The virtual node ended and is started again")
		s.warn(ctx, &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: o.TenantNamespace, Name: o.NodeName}},
			"The virtual node does not run in the shared process and is tried again: "+err.Error())
		if time.Since(startedAt) > retry.Max {
			limiter.Forget(o.NodeName)
		}
		if !retry.Pause(ctx, limiter.When(o.NodeName)) {
			return
		}
	}
}

// serve runs a virtual node while this process holds the lease of the node.
func (s *supervisor) serve(ctx context.Context, o *Options) error {
	registry := prometheus.NewRegistry()
	v, err := newVirtualNode(o, s.shared, prometheus.WrapRegistererWith(prometheus.Labels{nodeLabel: o.NodeName}, registry))
	if err != nil {
		return err
	}
	// A process of its own holds the same lease (wire 5.7), so that no two processes serve the node. The
	// replicas of a shared process have one identity there, because the lease of the process decides
	// between them.
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: s.options.TenantNamespace, Name: o.NodeName},
		Client:    s.leases.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: s.options.SharedProcess},
	}
	return lease.Hold(ctx, lock, time.Now, func(ctx context.Context) error {
		s.metrics.set(registry, true)
		defer s.metrics.set(registry, false)
		s.setRunning(o.NodeName, v)
		defer s.setRunning(o.NodeName, nil)
		return v.run(ctx)
	})
}

func (s *supervisor) setRunning(name string, v *virtualNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v == nil {
		delete(s.running, name)
		return
	}
	s.running[name] = v
}

// policiesChanged makes all virtual nodes ask policies about all objects again.
func (s *supervisor) policiesChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.running {
		v.policiesChanged()
	}
}

// warn records an event on a VirtualNode, and reports whether it did, or the VirtualNode is gone.
func (s *supervisor) warn(ctx context.Context, vn *offloadingv1beta1.VirtualNode, message string) bool {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	current := &offloadingv1beta1.VirtualNode{}
	err := s.manager.GetClient().Get(ctx, client.ObjectKeyFromObject(vn), current)
	if err == nil {
		err = events.Warn(ctx, s.client, events.Warning{
			Regarding: corev1.ObjectReference{
				APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "VirtualNode",
				Namespace: current.Namespace, Name: current.Name, UID: current.UID,
			},
			Reason: reasonNotServed, Message: message,
			Component: eventComponent, ReportingInstance: s.options.SharedProcess, Time: time.Now(),
		})
	}
	if client.IgnoreNotFound(err) != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Recording an event on the VirtualNode failed", "reason", reasonNotServed)
		return false
	}
	return true
}

// nodeMetrics collects the metrics of the virtual nodes of a process.
type nodeMetrics struct {
	mu         sync.Mutex
	registries map[*prometheus.Registry]bool
}

func (m *nodeMetrics) set(registry *prometheus.Registry, present bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if present {
		m.registries[registry] = true
	} else {
		delete(m.registries, registry)
	}
}

// Describe implements prometheus.Collector. It describes nothing: virtual nodes come and go.
func (m *nodeMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *nodeMetrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for registry := range m.registries {
		registry.Collect(metrics)
	}
}
