package processnode

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// retryServices is how soon an address that is taken is tried again.
const retryServices = 2 * time.Second

// serviceProxy does for the node's pods what kube-proxy does: a connection to a Service
// reaches one of its endpoints. See played for which Services.
type serviceProxy struct {
	services corev1listers.ServiceLister
	pods     corev1listers.PodLister
	events   record.EventRecorder
	clock    clock.WithTicker
	changed  *wake

	connections *connections
	forwarders  map[servicePort]*forwarder
}

func newServiceProxy(services corev1listers.ServiceLister, pods corev1listers.PodLister, events record.EventRecorder, clock clock.WithTicker) *serviceProxy {
	return &serviceProxy{
		services: services, pods: pods, events: events, clock: clock, changed: newWake(),
		connections: newConnections(), forwarders: map[servicePort]*forwarder{},
	}
}

// handler wakes the proxy when a Service or a pod changes.
func (p *serviceProxy) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { p.changed.all() }, UpdateFunc: func(any, any) { p.changed.all() }, DeleteFunc: func(any) { p.changed.all() },
	}
}

// run follows the Services and the pods until the context ends, then ends what is
// connected.
func (p *serviceProxy) run(ctx context.Context) {
	for ctx.Err() == nil {
		changed := p.changed.next()
		wait := time.Duration(math.MaxInt64)
		if !p.sync() {
			wait = retryServices
		}
		timer := p.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C():
		}
		timer.Stop()
	}
	for _, f := range p.forwarders {
		f.close()
	}
	p.connections.close()
}

// sync brings the forwarders in line with what is there; false when one could not be.
func (p *serviceProxy) sync() bool {
	services, err := p.services.List(labels.Everything())
	if err != nil {
		return false
	}
	pods, err := p.pods.List(labels.Everything())
	if err != nil {
		return false
	}
	want := routes(services, pods)
	for port, f := range p.forwarders {
		// Without endpoints connections are refused, as kube-proxy does it.
		if r := want[port]; len(r.backends) == 0 || r.listen != f.listener.Addr().String() {
			f.close()
			delete(p.forwarders, port)
		}
	}
	good := true
	for port, r := range want {
		if err := p.serve(port, r); err != nil {
			good = false
			p.warn(services, port, err)
		}
	}
	return good
}

func (p *serviceProxy) serve(port servicePort, r route) error {
	if len(r.backends) == 0 {
		return nil
	}
	if f, ok := p.forwarders[port]; ok {
		f.set(r.backends)
		return nil
	}
	f, err := forward(r.listen, r.backends, p.connections)
	if err != nil {
		return fmt.Errorf("serving port %d at %s: %w", port.port, r.listen, err)
	}
	p.forwarders[port] = f
	return nil
}

// warn records an event on the Service that cannot be served.
func (p *serviceProxy) warn(services []*corev1.Service, port servicePort, err error) {
	at := slices.IndexFunc(services, func(s *corev1.Service) bool { return s.Namespace == port.namespace && s.Name == port.name })
	p.events.Event(services[at], corev1.EventTypeWarning, "ServiceNotServed", "The process node tries again: "+err.Error())
}
