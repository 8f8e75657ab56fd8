package manager

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policysource"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// component is the name of this process in reports on policies: the elected replica reports.
const component = "manager"

// idlePolicies is short: a ResourceSlice can wait for the policies, and is rarely decided.
const idlePolicies = 5 * time.Second

// PolicyOptions configure the policies of ResourceSlices. The names are those of the command's
// flags.
type PolicyOptions struct {
	// CacheDir is the directory of compiled policies. If empty, they are not cached.
	CacheDir string
	// PrecompiledDir holds the compiled built-in policies; it may be absent.
	PrecompiledDir string
	// Compiler compiles modules in another process. If nil, they are compiled in this one
	// without a memory limit.
	Compiler engine.Compiler
	// Namespaces are those beside Longshore's own whose ConfigMaps may hold modules of policies.
	Namespaces []string
	// ReportKeys are the public keys of the conformance reports that modules need; none if they need
	// no report.
	ReportKeys []string
	// Metrics registers the metrics of policies; nil registers none.
	Metrics prometheus.Registerer
}

// modules returns the namespaces of ConfigMaps with modules of policies.
func (o *Options) modules() []string { return policies.Namespaces(o.Namespace, o.Policies.Namespaces) }

// slicePolicies are the policies of ResourceSlices. The elected replica loads them.
type slicePolicies struct {
	policies.Lazy
	// changes receives a value when decisions may have changed.
	changes chan event.GenericEvent
}

func newPolicies() *slicePolicies {
	return &slicePolicies{changes: make(chan event.GenericEvent, 1)}
}

// add loads the policies when this replica is elected.
func (p *slicePolicies) add(mgr ctrl.Manager, o *Options) error {
	p.Load = func(ctx context.Context) (*policies.Policies, error) {
		var observer *policysource.Metrics
		if o.Policies.Metrics != nil {
			var err error
			if observer, err = policysource.NewMetrics(o.Policies.Metrics); err != nil {
				return nil, fmt.Errorf("adding the metrics of policies: %w", err)
			}
		}
		loaded, err := policies.New(ctx, mgr, policies.Options{
			Identity: policies.OfElected(mgr.GetAPIReader(), component, client.ObjectKey{Namespace: o.Namespace, Name: o.PodName}),
			CacheDir: o.Policies.CacheDir, PrecompiledDir: o.Policies.PrecompiledDir, Compiler: o.Policies.Compiler,
			Stages:     []chain.Stage{{Point: contract.ResourceSliceAdmission}},
			ReportKeys: o.Policies.ReportKeys, ModuleNamespaces: o.modules(), Metrics: observer, Changed: p.changed, Idle: idlePolicies,
		})
		if err != nil {
			return nil, fmt.Errorf("loading the policies: %w", err)
		}
		return loaded, nil
	}
	if err := mgr.Add(manager.RunnableFunc(p.Run)); err != nil {
		return fmt.Errorf("adding the policies: %w", err)
	}
	return nil
}

// changed enqueues all ResourceSlices.
func (p *slicePolicies) changed() {
	select {
	case p.changes <- event.GenericEvent{Object: &authv1beta1.ResourceSlice{}}:
	default: // A value is pending.
	}
}
