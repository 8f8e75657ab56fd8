package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/planner"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

// Options select what is planned.
type Options struct {
	// Files have the objects with pod templates, and any object that they refer to.
	Files []string
	// Facts are files with NamespaceOffloadings, VirtualNodes, OffloadingPolicies and the
	// ConfigMaps of their modules.
	Facts []string
	// Namespace of objects that name none.
	Namespace string
	// HomeClusterID, RuntimeClassName and NodeName are as in planner.Facts.
	HomeClusterID, RuntimeClassName, NodeName string
	// CacheDir keeps compiled policies; empty keeps none.
	CacheDir string
	// Compiler compiles modules under the limits of a cluster; nil compiles them in this process,
	// without limits.
	Compiler engine.Compiler
	// In is the file "-".
	In io.Reader
	// Live adds what a cluster has; nil plans offline.
	Live *Live
	// Step runs the planning of a number of templates, which calls progress now and then; it
	// may be nil.
	Step Step
}

// Step runs something with progress.
type Step func(templates int, run func(progress func(done int)) error) error

// Result are the plans of all templates, in the order of the files.
type Result struct {
	Plans []*planner.Plan `json:"plans"`
	// Problems are policies that cannot be used as they are.
	Problems []string `json:"policyProblems,omitempty"`
	// Warnings are fields of the files that no kind has, and fields that are there twice.
	Warnings []string `json:"warnings,omitempty"`
}

// Failed reports whether a pod would be refused or stay Pending.
func (r *Result) Failed() bool {
	return slices.ContainsFunc(r.Plans, func(p *planner.Plan) bool { return p.Result == planner.Refused || p.Result == planner.Pending })
}

// Run reads the files and the cluster, and plans all pod templates.
func Run(ctx context.Context, options Options) (*Result, error) {
	f, fixed, err := load(ctx, options)
	if err != nil {
		return nil, err
	}
	result := &Result{Problems: problems(fixed), Warnings: f.warnings}
	core, err := planner.New(f.Facts, fixed.Chains)
	if err == nil {
		step := options.Step
		if step == nil {
			step = func(_ int, run func(func(int)) error) error { return run(func(int) {}) }
		}
		err = step(len(f.templates), func(progress func(int)) error {
			var err error
			result.Plans, err = planAll(ctx, core, f.templates, progress)
			return err
		})
	}
	if err = errors.Join(err, fixed.Close(ctx)); err != nil {
		return nil, err
	}
	return result, nil
}

// load reads the files and the cluster, and loads the policies. The caller closes them.
func load(ctx context.Context, options Options) (*facts, *policies.Fixed, error) {
	f, err := gather(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	if len(f.templates) == 0 {
		return nil, nil, errors.New("the files have no Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob")
	}
	objects := make([]*policyv1alpha1.OffloadingPolicy, 0, len(f.policies))
	for _, policy := range f.policies {
		objects = append(objects, policy)
	}
	fixed, err := policies.NewFixed(ctx, engine.Options{CacheDir: options.CacheDir, Compiler: options.Compiler}, f, objects)
	if err != nil {
		return nil, nil, fmt.Errorf("loading the policies: %w", err)
	}
	return f, fixed, nil
}

// problems lists the policies of which the current version is not used.
func problems(fixed *policies.Fixed) []string {
	var list []string
	for i := range fixed.Outcomes {
		if o := &fixed.Outcomes[i]; o.Problem != nil {
			list = append(list, fmt.Sprintf("OffloadingPolicy %q is not used: %s", o.Policy.Name, o.Problem.Error()))
		}
	}
	return list
}

// gather reads the files, then the cluster.
func gather(ctx context.Context, options Options) (*facts, error) {
	f := newFacts(options.Namespace, options.Live != nil)
	f.HomeClusterID, f.RuntimeClassName, f.NodeName = options.HomeClusterID, options.RuntimeClassName, options.NodeName
	docs, err := documents(options.In, append(slices.Clone(options.Facts), options.Files...))
	if err != nil {
		return nil, err
	}
	all, err := decodeAll(docs)
	if err != nil {
		return nil, err
	}
	f.warnings = all.warnings
	if options.Live != nil {
		if err = options.Live.read(ctx, f, all.objects); err != nil {
			err = orOffline(err)
		}
	} else {
		err = f.addAll(all.objects)
	}
	if err != nil {
		return nil, err
	}
	f.assume(options.Live != nil)
	return f, nil
}

// decodeAll decodes documents in parallel and keeps their order.
func decodeAll(docs []document) (decoded, error) {
	scheme, err := newScheme()
	if err != nil {
		return decoded{}, err
	}
	d := newDecoder(scheme)
	each := make([]decoded, len(docs))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range docs {
		group.Go(func() error {
			var err error
			each[i], err = d.decode(docs[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return decoded{}, err //nolint:wrapcheck // decode names the document.
	}
	var all decoded
	for _, one := range each {
		all.add(one)
	}
	return all, nil
}

// planAll plans templates in parallel and keeps their order.
func planAll(ctx context.Context, core *planner.Planner, templates []planner.Template, progress func(done int)) ([]*planner.Plan, error) {
	plans := make([]*planner.Plan, len(templates))
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range templates {
		group.Go(func() error {
			var err error
			plans[i], err = core.Plan(ctx, templates[i])
			if n := int(done.Add(1)); n%progressStep == 0 {
				progress(n)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err //nolint:wrapcheck // Plan names the template.
	}
	return plans, nil
}

// progressStep is the number of templates between two reports of progress.
const progressStep = 100
