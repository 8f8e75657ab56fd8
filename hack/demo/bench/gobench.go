package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// Goals of the issue for what Go benchmarks measure.
const (
	smallGuestGoal    = 25  // us a decision
	runtimeIdleGoal   = 10  // MiB of an idle module that brings a runtime
	smallIdleGoal     = 1   // MiB of an idle module that brings none
	meteringGoal      = 1.5 // metered by unmetered
	rememberedGoal    = 500 // ns of a memo hit, the key given
	planGoal          = 500 // us a pod: 2,000 pods/s
	goGuest           = "golang"
	textGuest         = "text"
	goBenchTime       = "300ms"
	goBenchQuickTime  = "50ms"
	writes            = "5x"
	writesQuick       = "1x"
	idleNote          = "memory, snapshot and heap of one bound module that was asked and waits; machine code apart"
	idleCodeNote      = "machine code of one bound module"
	guestNote         = "p50 of calls with a tenth of a millisecond between them; the module by itself, outside the chain"
	writeNote         = "from the write of the object in a real API server; a standard Go module of two MiB"
	meteringNote      = "the built-in module, calls of the metered and the unmetered form in turns, medians"
	rememberedNote    = "a question of 900 bytes whose answer is remembered, the encoded question given"
	planNote          = "longshorectl plan of 10,000 pods in one call: from the file to the table, with the start of the policies from their cache"
	microsecondOfCall = "us/call"
)

// goBenchmarks are benchmarks that live beside the code that they measure: the same code
// runs there and here.
type goBenchmark struct {
	// measure is what its figures' names begin with.
	pkg, pattern, measure string
	// writes instead of a time: each iteration waits for an API server.
	writes bool
	// figures of one line: the name after the pattern, and its metrics by unit.
	figures func(name string, metrics map[string]float64) []sample
}

func goBenchmarkList() []goBenchmark {
	return []goBenchmark{
		{pkg: "./host/policy/chain", pattern: "BenchmarkMemoHit", measure: "policy/", figures: memoFigures},
		{pkg: "./host/policy/engine", pattern: "BenchmarkMetering", measure: "policy/", figures: meteringFigures},
		{pkg: "./conformance/guests", pattern: "BenchmarkGuests", measure: "policy/", figures: guestFigures},
		{pkg: "./conformance/guests", pattern: "BenchmarkIdle", measure: "memory/", figures: idleFigures},
		{pkg: "./host/app/policies", pattern: "BenchmarkWriteToReady", measure: "policy/", writes: true, figures: writeFigures},
		{pkg: "./cmd/longshorectl/plan", pattern: "BenchmarkTenThousandPods", measure: "plan/", figures: planFigures},
	}
}

func planFigures(_ string, m map[string]float64) []sample {
	return []sample{figure("plan/ten-thousand-pods", "us/pod", 1e6/m["pods/s"], planNote).bounded(valueGoal(planGoal))}
}

func memoFigures(_ string, m map[string]float64) []sample {
	return []sample{
		figure("policy/remembered-key-given", "ns/call", m["ns/op"], rememberedNote).bounded(valueGoal(rememberedGoal)),
		figure("policy/remembered-key-given-allocations", "allocs/call", m["allocs/op"], rememberedNote).bounded(valueGoal(0)),
	}
}

func meteringFigures(name string, m map[string]float64) []sample {
	metered := m["metered-ns"] / 1000
	return []sample{compare("policy/metered/"+name, microsecondOfCall, metered, metered/m["ratio"], ratioGoal(meteringGoal),
		"vector "+name+": "+meteringNote+"; baseline: unmetered")}
}

func guestFigures(name string, m map[string]float64) []sample {
	// The goal is that of small languages: neither of Go nor of the text format.
	bound := valueGoal(smallGuestGoal)
	if strings.HasPrefix(name, goGuest) || strings.HasPrefix(name, textGuest) {
		bound = goal{}
	}
	what := "; the whole pod of 7 KB"
	if strings.HasSuffix(name, "/projected") {
		what = "; what the policy reads of the pod"
	}
	return []sample{figure("policy/guest/"+name, microsecondOfCall, m["p50-us"], guestNote+what).bounded(bound)}
}

func idleFigures(name string, m map[string]float64) []sample {
	most := float64(smallIdleGoal)
	if name == goGuest || name == "built-in_policies" {
		most = runtimeIdleGoal
	}
	return []sample{
		figure("memory/idle-module/"+name, mib, m["MiB"], idleNote).bounded(valueGoal(most)),
		figure("memory/idle-module-code/"+name, mib, m["code-MiB"], idleCodeNote),
	}
}

func writeFigures(name string, m map[string]float64) []sample {
	return []sample{
		figure("policy/write-to-first-use/"+name, "ms", m["ms/first-use"], writeNote+"; until a pod is decided by it"),
		figure("policy/write-to-ready/"+name, "ms", m["ms/ready"], writeNote+"; until the status reports Ready with it"),
	}
}

// goBenchmarks runs the benchmarks of other packages, as `go test -bench` does.
func (b *bench) goBenchmarks(ctx context.Context) error {
	for _, benchmark := range goBenchmarkList() {
		if !b.needs(benchmark.measure) {
			continue
		}
		b.logf("%s of %s", benchmark.pattern, benchmark.pkg)
		output, err := b.runGoBenchmark(ctx, benchmark)
		if err != nil {
			return err
		}
		lines, err := parseGoBenchmark(output, benchmark.pattern)
		if err != nil {
			return err
		}
		if len(lines) == 0 && bytes.Contains(output, []byte("--- SKIP")) {
			b.logf("skipped: %s", output)
			continue
		}
		if len(lines) == 0 {
			return fmt.Errorf("%s of %s measured nothing:\n%s", benchmark.pattern, benchmark.pkg, output)
		}
		for _, line := range lines {
			b.record.add(benchmark.figures(line.name, line.metrics)...)
		}
	}
	return nil
}

func (b *bench) runGoBenchmark(ctx context.Context, benchmark goBenchmark) ([]byte, error) {
	time, count := goBenchTime, b.runs
	if b.quick {
		time = goBenchQuickTime
	}
	if benchmark.writes {
		// One control plane serves them all: its start takes longer than they do.
		time, count = writes, 1
		if b.quick {
			time = writesQuick
		}
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^"+benchmark.pattern+"$",
		"-benchtime", time, "-count", strconv.Itoa(count), "-benchmem", "-v", benchmark.pkg)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s of %s: %w\n%s", benchmark.pattern, benchmark.pkg, err, output)
	}
	return output, nil
}

// goBenchmarkLine is one line of the output of `go test -bench`.
type goBenchmarkLine struct {
	// name is what follows the benchmark's own and its slash; "" without.
	name    string
	metrics map[string]float64
}

// processorsSuffix is the number of processors that Go puts behind a benchmark's name.
var processorsSuffix = regexp.MustCompile(`-\d+$`)

// parseGoBenchmark reads the lines of one benchmark: name, number of iterations, and pairs
// of value and unit.
func parseGoBenchmark(output []byte, benchmark string) ([]goBenchmarkLine, error) {
	var found []goBenchmarkLine
	lines := bufio.NewScanner(bytes.NewReader(output))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || len(fields)%2 != 0 {
			continue
		}
		name, ok := strings.CutPrefix(processorsSuffix.ReplaceAllString(fields[0], ""), benchmark)
		if !ok || name != "" && !strings.HasPrefix(name, "/") {
			continue
		}
		line := goBenchmarkLine{strings.TrimPrefix(name, "/"), map[string]float64{}}
		for i := 2; i < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", lines.Text(), err)
			}
			line.metrics[fields[i+1]] = value
		}
		found = append(found, line)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the output of %s: %w", benchmark, err)
	}
	return found, nil
}
