// Command bench measures what Longshore costs: latency, throughput, requests, CPU time,
// memory, and policy calls, each beside a baseline. `make bench` runs it and writes
// bench/results.json; bench/README.md explains the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	defaultRuns = 3
	defaultPods = 1000
	quickPods   = 100
	// quickShare of the waits is enough to try a measure out.
	quickShare = 5
)

type options struct {
	only, out, longshore  string
	runs, pods            int
	scale, tenants, quick bool
}

// bench is one run of this command.
type bench struct {
	options
	record  *recorder
	testbed *testbed
	// dir is for the clusters' data and logs.
	dir  string
	logf func(format string, arguments ...any)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.StringVar(&o.only, "only", "", "measure only names that match this `regexp`, which names at least one of policy, stream, burst, requests, cpu, memory, quiet, mirror")
	flags.IntVar(&o.runs, "runs", defaultRuns, "how often each measure is taken; the median counts")
	flags.IntVar(&o.pods, "pods", defaultPods, "pods of the burst")
	flags.BoolVar(&o.scale, "scale", false, "measure only scale: many virtual nodes, namespaces, pods and ConfigMaps")
	flags.BoolVar(&o.tenants, "tenants", false, "measure only peering, and a provider with many tenants")
	flags.BoolVar(&o.quick, "quick", false, "one run of small sizes, to try it out; the results are only printed")
	flags.StringVar(&o.out, "out", filepath.Join("bench", "results.json"), "where the results are written, in the place of earlier ones with the same names")
	flags.StringVar(&o.longshore, "longshore", filepath.Join("bin", "longshore"), "the server binary")
	_ = flags.Parse(os.Args[1:]) // ExitOnError
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	// What libraries log (watches that end with their context) is not about the measures.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	o.runs = max(o.runs, 1)
	if o.quick {
		o.runs, o.pods = 1, min(o.pods, quickPods)
	}
	from, err := newOrigin(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	b := &bench{options: o, record: newRecorder(o.command(), from, only.MatchString), logf: func(format string, arguments ...any) {
		fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, arguments...))
	}}
	b.record.small = o.quick
	err = b.measure(ctx)
	results := b.record.results()
	if len(results) == 0 {
		return errors.Join(err, fmt.Errorf("nothing was measured: -only %q matches no measure", o.only))
	}
	// What was measured before something failed, and figures of small sizes, are only shown.
	if err == nil && !o.quick {
		err = save(o.out, results)
	}
	return errors.Join(table(os.Stdout, results), err)
}

// command makes the same figures again: with the options that they depend on.
func (o *options) command() string {
	command := fmt.Sprintf("bin/bench -runs %d -pods %d", o.runs, o.pods)
	switch {
	case o.scale:
		command = "bin/bench -scale"
	case o.tenants:
		command = "bin/bench -tenants"
	}
	if o.only != "" {
		command += fmt.Sprintf(" -only '%s'", o.only)
	}
	if o.quick {
		command += " -quick"
	}
	return command
}

// wants reports whether one of the measures is wanted: -only names it, or nothing.
func (o *options) wants(measures ...string) bool {
	return o.only == "" || slices.ContainsFunc(measures, func(measure string) bool { return strings.Contains(o.only, measure) })
}

// size is a size of a load, and shorter a wait, of which -quick needs less.
func (o *options) size(full, quick int) int {
	if o.quick {
		return quick
	}
	return full
}

func (o *options) shorter(wait time.Duration) time.Duration {
	if o.quick {
		return wait / quickShare
	}
	return wait
}

// measure takes the wanted measures: those first that need a quiet machine and no cluster.
func (b *bench) measure(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "longshore-bench-"); err != nil {
		return fmt.Errorf("making a folder for the clusters: %w", err)
	}
	defer func() {
		if err != nil {
			b.logf("data and logs are in %s", b.dir)
			return
		}
		err = os.RemoveAll(b.dir)
	}()
	if b.scale {
		return b.measureScale(ctx)
	}
	if b.tenants {
		return b.measureTenants(ctx)
	}
	if b.wants("policy") {
		if err := b.policies(ctx); err != nil {
			return err
		}
	}
	if b.wants("stream", "burst", "requests", "cpu", "memory", "quiet") {
		if err := b.inTestbed(ctx, nil, b.loads); err != nil {
			return err
		}
	}
	if b.wants("mirror") {
		return b.mirrors(ctx)
	}
	return nil
}

// loads runs the loads, those of each run one after the other.
func (b *bench) loads(ctx context.Context) error {
	if b.wants("memory") {
		if err := b.memoryIdle(ctx); err != nil {
			return err
		}
	}
	warming, cancel := withPatience(ctx, stepPatience)
	defer cancel()
	if err := b.testbed.learnTemplate(warming); err != nil {
		return err
	}
	bursts := b.wants("burst", "requests", "cpu", "memory", "quiet")
	if bursts {
		if err := b.testbed.prepareFloor(warming); err != nil {
			return err
		}
	}
	for i := range b.runs {
		if b.wants("stream") {
			if err := b.stream(ctx); err != nil {
				return err
			}
		}
		if bursts {
			if err := b.burst(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}
