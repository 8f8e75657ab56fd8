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

// sizes of the loads, in pods.
type sizes struct{ burst, stream int }

const (
	defaultRuns   = 3
	defaultBurst  = 1000
	defaultStream = 200
	quickBurst    = 100
	quickStream   = 25
	// resultsFile is what documents cite. Figures of small sizes never get there by themselves.
	resultsFile = "bench/results.json"
	quickFile   = "bench/raw/quick.json"
	// idleSettle is how long a fresh installation is left alone before its memory is read.
	idleSettle = 15 * time.Second
	// policiesSettle is how long the built-in policies of a fresh installation need to leave memory:
	// a minute after the last call.
	policiesSettle = 75 * time.Second
)

// bench is one run of this command.
type bench struct {
	record  *recorder
	testbed *testbed
	sizes   sizes
	runs    int
	// pairs of bursts with wasm and with native policies; 0: the other measures.
	pairs int
	quick bool
	only  *regexp.Regexp
	// profiles is the folder of the virtual kubelet's profiles; empty: none.
	profiles string
	logf     func(format string, arguments ...any)
}

type options struct {
	only, out, longshore, dir, profiles string
	runs, pods, native                  int
	quick, keep                         bool
	// scale measures scale only, tenants many tenants only.
	scale, tenants bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.StringVar(&o.only, "only", "", "measure only names that match this `regexp`: stream/, kinds/, burst/, requests/, cpu/, memory/, quiet/, start/, policy/, mirror/, tokens/")
	flags.IntVar(&o.runs, "runs", defaultRuns, "how often each measure is taken; the median counts")
	flags.IntVar(&o.pods, "pods", defaultBurst, "pods of the burst")
	flags.IntVar(&o.native, "native", 0, "measure only bursts with wasm beside bursts with native policies, `pairs` of them")
	flags.BoolVar(&o.scale, "scale", false, "measure only scale: many virtual nodes, namespaces, pods and ConfigMaps")
	flags.BoolVar(&o.tenants, "tenants", false, "measure only peering, and a provider with many tenants")
	flags.BoolVar(&o.quick, "quick", false, "one run of small sizes, to try it out")
	flags.StringVar(&o.out, "out", "", "where the results are written; results of earlier runs stay unless they have the same name, or the code or the machine is another. Empty: "+resultsFile+", or, with -quick, "+quickFile)
	flags.StringVar(&o.longshore, "longshore", filepath.Join("bin", "longshore"), "the server binary")
	flags.StringVar(&o.dir, "dir", "", "folder of the clusters' data and logs; empty: a temporary one")
	flags.StringVar(&o.profiles, "profiles", "", "folder for profiles of the virtual kubelet: memory idle and loaded, CPU in the burst")
	flags.BoolVar(&o.keep, "keep", false, "keep the temporary folder")
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
	begin := time.Now()
	b := &bench{
		sizes: sizes{burst: o.pods, stream: defaultStream}, runs: max(o.runs, 1), pairs: o.native, quick: o.quick, only: only, profiles: o.profiles,
		logf: func(format string, arguments ...any) {
			fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, arguments...))
		},
	}
	if o.quick {
		b.runs, b.sizes = 1, sizes{burst: min(o.pods, quickBurst), stream: quickStream}
	}
	from, err := newOrigin(ctx)
	if err != nil {
		return err
	}
	b.record = newRecorder(o.command(), from, only.MatchString)
	err = b.all(ctx, o)
	results := b.record.results()
	if len(results) == 0 {
		return errors.Join(err, fmt.Errorf("nothing was measured: -only %q matches no measure", o.only))
	}
	// What was measured before something failed is shown, but only a whole run is kept.
	if err == nil {
		err = o.keepResults(results, func(known []Result) []Result {
			return dropStale(known, from, func(commit string) bool { return measuresSameCode(ctx, commit) })
		})
	}
	return errors.Join(table(os.Stdout, results), err)
}

// all takes the wanted measures: those first that need a quiet machine and no cluster.
func (b *bench) all(ctx context.Context, o options) error {
	if b.pairs == 0 && !o.scale && !o.tenants {
		if err := b.policies(ctx); err != nil {
			return err
		}
		if err := b.goBenchmarks(ctx); err != nil {
			return err
		}
	}
	return b.clusters(ctx, o)
}

// keepResults writes the results to where they belong, with those of earlier runs that
// keepCurrent and the options leave.
func (o *options) keepResults(results []Result, keepCurrent func([]Result) []Result) error {
	out := o.out
	if out == "" {
		out = filepath.FromSlash(map[bool]string{false: resultsFile, true: quickFile}[o.quick])
	}
	known, err := read(out)
	if err != nil {
		return err
	}
	return write(out, merge(keepCurrent(o.dropReplaced(known)), results))
}

// dropReplaced drops the earlier results that this run replaces. A run of everything but
// -native replaces all others, also those of measures that no longer exist.
func (o *options) dropReplaced(known []Result) []Result {
	if o.only != "" || o.native > 0 || o.scale || o.tenants {
		return known
	}
	return slices.DeleteFunc(known, func(r Result) bool {
		return !strings.Contains(r.Command, nativeFlag) && !strings.Contains(r.Command, scaleFlag) && !strings.Contains(r.Command, tenantsFlag)
	})
}

// command makes the same figures again: with the options that they depend on.
func (o *options) command() string {
	command := "bin/bench"
	if o.only != "" {
		command += fmt.Sprintf(" -only '%s'", o.only)
	}
	if o.native > 0 {
		command += fmt.Sprintf("%s%d", nativeFlag, o.native)
	}
	if o.scale {
		command += scaleFlag
	}
	if o.tenants {
		command += tenantsFlag
	}
	if o.quick {
		return command + " -quick"
	}
	if o.scale || o.tenants {
		return command
	}
	if o.native > 0 {
		return fmt.Sprintf("%s -pods %d", command, o.pods)
	}
	return fmt.Sprintf("%s -runs %d -pods %d", command, max(o.runs, 1), o.pods)
}

// needs reports whether a measure of this prefix is wanted. An expression that names
// another measure does not need this one.
func (b *bench) needs(prefixes ...string) bool {
	expression := b.only.String()
	if expression == "" {
		return true
	}
	named := false
	for _, measure := range []string{"stream", "kinds", "burst", "requests", "cpu", "memory", "quiet", "policy", "plan", "mirror", "tokens", "start"} {
		if !strings.Contains(expression, measure) {
			continue
		}
		named = true
		for _, prefix := range prefixes {
			if strings.HasPrefix(prefix, measure) {
				return true
			}
		}
	}
	return !named
}

// clusters takes the measures that need two clusters.
func (b *bench) clusters(ctx context.Context, o options) (err error) {
	needed := b.needs("stream/", "kinds/", "burst/", "requests/", "cpu/", "memory/", "quiet/", "start/", "mirror/", "tokens/")
	if !needed && b.pairs == 0 && !o.scale && !o.tenants {
		return nil
	}
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "longshore-bench-"); err != nil {
			return fmt.Errorf("making a folder for the clusters: %w", err)
		}
		defer func() {
			if err != nil || o.keep {
				b.logf("data and logs are in %s", dir)
				return
			}
			err = os.RemoveAll(dir)
		}()
	}
	if o.scale {
		return b.scale(ctx, o, dir)
	}
	if o.tenants {
		return b.tenants(ctx, o, dir)
	}
	return b.testbeds(ctx, o, dir)
}

// testbeds takes the measures of `make bench`, or those with -native, in clusters of their own.
func (b *bench) testbeds(ctx context.Context, o options, dir string) error {
	streams, kinds := b.needs("stream/"), b.needs("kinds/")
	bursts := b.needs("burst/", "requests/", "cpu/", "memory/", "quiet/")
	if streams || kinds || bursts || b.needs("start/") || b.pairs > 0 {
		if err := b.testbedMeasures(ctx, o, filepath.Join(dir, "main"), streams, kinds, bursts); err != nil {
			return err
		}
	}
	if b.pairs > 0 || !b.needs("mirror/", "tokens/") {
		return nil
	}
	return b.apart(ctx, o, filepath.Join(dir, "apart"))
}

// testbedMeasures takes the measures in the clusters of the testbed.
func (b *bench) testbedMeasures(ctx context.Context, o options, dir string, streams, kinds, bursts bool) (err error) {
	var built *servers
	if b.pairs > 0 {
		b.logf("building %d servers", len(b.nativeServers()))
		if built, err = newServers(ctx, filepath.Join(dir, "servers"), b.nativeServers()); err != nil {
			return err
		}
		o.longshore = built.link
	}
	if b.testbed, err = startTestbed(ctx, testbedOptions{longshore: o.longshore, dir: dir, audit: built == nil, profiling: o.profiles != "", logf: b.logf}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.testbed.stop(context.WithoutCancel(ctx))) }()
	if built != nil {
		return b.native(ctx, built)
	}
	if kinds {
		if err := b.kinds(ctx); err != nil {
			return err
		}
	}
	if streams || bursts {
		if err := b.load(ctx, streams, bursts); err != nil {
			return err
		}
	}
	if b.needs("start/") {
		return b.starts(ctx)
	}
	return nil
}

// awaitIdle waits until a fresh installation is idle: the built-in policies have left memory, and what only
// the start needed is returned.
func (b *bench) awaitIdle(ctx context.Context) error {
	settle := policiesSettle
	if b.quick {
		settle /= 5
	}
	return pause(ctx, settle)
}

// load runs the loads, those of each run one after the other.
func (b *bench) load(ctx context.Context, streams, bursts bool) error {
	if err := b.awaitIdle(ctx); err != nil {
		return err
	}
	if err := errors.Join(b.memoryIdle(), b.profile(ctx, "heap", "memory-idle")); err != nil {
		return err
	}
	warming, cancel := context.WithTimeoutCause(ctx, stepPatience, fmt.Errorf("not done after %s", stepPatience))
	defer cancel()
	if err := b.testbed.learnTemplate(warming); err != nil {
		return err
	}
	if bursts {
		if err := b.testbed.prepareFloor(warming); err != nil {
			return err
		}
	}
	for i := range b.runs {
		if streams {
			b.logf("stream %d: %d pods, 5 a second", i+1, b.sizes.stream)
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
