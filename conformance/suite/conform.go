package suite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Options of [Conform] and [Run].
type Options struct {
	// Source names the module in the report, such as its file.
	Source string
	// Vectors are the module's own golden cases: what it must answer. See
	// [vectors.Read] for those of a folder.
	Vectors []vectors.Vector
	// CacheDir holds compiled modules between runs; empty for a temporary folder.
	CacheDir string
	// Strict makes advice count.
	Strict bool
	// Compiler compiles the module under limits; nil compiles it in this process, without limits.
	Compiler engine.Compiler
	// BuiltIn gives the module the limits of the built-in policies.
	BuiltIn bool
}

// Conform tests a module, compressed or not, against [Rules]. Beside its own vectors, it is
// asked the golden requests of the points that its manifest declares and generated ones. A
// module that does not load is a report with one finding. The error is that of the machine or
// the context.
func Conform(ctx context.Context, raw []byte, options Options) (report *Report, err error) {
	if options.CacheDir == "" {
		if options.CacheDir, err = os.MkdirTemp("", "longshore-conformance-"); err != nil {
			return nil, fmt.Errorf("creating a cache for compiled modules: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(options.CacheDir)) }()
	}
	report = newReport(&options)
	hosts, err := newHosts(ctx, raw, &options)
	if refused := (*refusal)(nil); errors.As(err, &refused) && ctx.Err() == nil {
		if wasm, unpackErr := module.Unpack(raw); unpackErr == nil {
			report.Module.Digest = module.Digest(wasm)
		}
		report.add(Result{Rule: ruleLoads, Feature: featureModule, Name: "load", Err: refused.err})
		report.skip(allSkipped())
		return report, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, hosts.close(ctx)) }()
	manifest := hosts.ours.Manifest()
	report.Module.Name, report.Module.Version, report.Module.Digest = manifest.Name, manifest.Version, hosts.ours.Digest()
	report.add(Result{Rule: ruleLoads, Feature: featureModule, Name: "load"})
	r := &run{hosts: hosts, options: &options, report: report, manifest: manifest, shrunk: map[string]bool{}}
	if err := r.all(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("testing the module: %w", ctx.Err())
	}
	report.skip(r.skipped())
	return report, nil
}

// refusal is the error of a module that does not load.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// hosts hold the module three times: two that share nothing, and stock Extism.
type hosts struct {
	ours, fresh *Longshore
	stock       *Oracle
}

func newHosts(ctx context.Context, raw []byte, options *Options) (*hosts, error) {
	h := &hosts{}
	wasm, err := module.Unpack(raw)
	if err != nil {
		return nil, &refusal{err}
	}
	for _, host := range []**Longshore{&h.ours, &h.fresh} {
		if *host, err = NewLongshore(ctx, raw, *options); err != nil {
			if module.AtFault(err) {
				err = &refusal{err}
			}
			return nil, errors.Join(err, h.close(ctx))
		}
	}
	parsed, err := fuel.Parse(wasm)
	if err != nil {
		return nil, errors.Join(&refusal{err}, h.close(ctx))
	}
	if h.stock, err = NewOracle(ctx, parsed.Plain()); err != nil {
		return nil, errors.Join(&refusal{err}, h.close(ctx))
	}
	return h, nil
}

func (h *hosts) close(ctx context.Context) error {
	var errs []error
	for _, host := range []*Longshore{h.ours, h.fresh} {
		if host != nil {
			errs = append(errs, host.Close(ctx))
		}
	}
	if h.stock != nil {
		errs = append(errs, h.stock.Close(ctx))
	}
	return errors.Join(errs...)
}

// run tests one module.
type run struct {
	hosts    *hosts
	options  *Options
	report   *Report
	manifest *contract.Manifest
	// settings are those with which the vectors have answers.
	settings []pointSettings
	// shrunk are the rules and features with a finding whose input was made small.
	shrunk map[string]bool
}

func (r *run) add(rule, feature, name string, err error, input []byte) {
	if err == nil {
		input = nil
	}
	r.report.add(Result{Rule: rule, Feature: feature, Name: name, Err: err, Input: input})
}

// all runs the checks.
func (r *run) all(ctx context.Context) error {
	r.describe(ctx)
	for i := range r.options.Vectors {
		v := &r.options.Vectors[i]
		point, err := v.Point()
		if err != nil {
			return err
		}
		if r.manifest.For(point) == nil {
			return fmt.Errorf("vector %s is about %s, which the manifest does not declare", v.Name, point)
		}
		r.add(ruleVector, string(point), v.Name, r.vector(ctx, v), v.Request)
	}
	if err := r.collectSettings(); err != nil {
		return err
	}
	for i := range r.manifest.Points {
		if err := r.point(ctx, &r.manifest.Points[i]); err != nil {
			return err
		}
	}
	if r.hosts.ours.module.ChecksSettings() {
		return r.checkSettings(ctx)
	}
	return nil
}

func (r *run) vector(ctx context.Context, v *vectors.Vector) error {
	for _, host := range []Host{r.hosts.ours, r.hosts.stock} {
		if err := Check(ctx, host, v); err != nil {
			return err
		}
	}
	return CheckResult(v)
}

// describe compares the manifests of three calls.
func (r *run) describe(ctx context.Context) {
	first, err := r.hosts.ours.Call(ctx, contract.ExportDescribe, nil)
	for _, other := range []struct {
		name string
		host Host
	}{{"in a fresh instance", r.hosts.fresh}, {"in stock Extism", r.hosts.stock}} {
		again, againErr := other.host.Call(ctx, contract.ExportDescribe, nil)
		r.add(ruleDescribe, featureModule, other.name, differ(first, err, again, againErr), nil)
	}
}

// skipped returns the reasons why features were not tested.
func (r *run) skipped() map[string]string {
	reasons := map[string]string{}
	for _, point := range contract.Points() {
		if r.manifest.For(point) == nil {
			reasons[string(point)] = "the manifest does not declare it"
		}
	}
	if !r.hosts.ours.module.ChecksSettings() {
		reasons[featureSettings] = "the module does not export " + contract.ExportValidateSettings
	}
	return reasons
}

// allSkipped are the reasons when the module does not load.
func allSkipped() map[string]string {
	const reason = "the module does not load"
	reasons := map[string]string{featureSettings: reason}
	for _, point := range contract.Points() {
		reasons[string(point)] = reason
	}
	return reasons
}
