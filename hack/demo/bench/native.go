package main

import (
	"context"
	"fmt"
	"time"
)

const (
	nativeNote = "interleaved runs, each of fresh processes, their start excluded; the median of the pairs. Baseline: a server, built for this only, whose built-in policies are Go functions outside the sandbox, all else equal"
	forgetNote = "; both remember no answer: each question is a call, as if pods differed in everything that policies read, but for equal questions at the same moment, which share one"
	cpuSeconds = "CPU-s"
	// nativeFlag marks the commands whose results a run of everything else leaves alone.
	nativeFlag = " -native "
	// nativeGoal is what wasm may cost the virtual kubelet, as a ratio.
	nativeGoal = 1.1
	// restartSettle is how long fresh processes are left alone before they are measured.
	restartSettle = 6 * time.Second
)

// spent is what a burst cost the processes that ask policies, in CPU seconds.
type spent struct {
	kubelet, webhook, running float64
	asked                     asked
}

// suffix distinguishes the measures with forgetful servers.
func suffix(forgetful bool) string {
	if forgetful {
		return "-forgetful"
	}
	return ""
}

// nativeServers are those that the wanted measures need.
func (b *bench) nativeServers() []server {
	var all []server
	for _, forgetful := range []bool{false, true} {
		if b.wantsNative(forgetful) {
			all = append(all, server{forgetful: forgetful}, server{native: true, forgetful: forgetful})
		}
	}
	return all
}

func (b *bench) wantsNative(forgetful bool) bool {
	return b.record.wanted("cpu/virtual-kubelet-wasm-beside-native" + suffix(forgetful))
}

// native runs pairs of bursts on the same clusters: one with the policies in the sandbox,
// one with native functions in their places. Which is first alternates.
func (b *bench) native(ctx context.Context, s *servers) error {
	for pair := range b.pairs {
		for _, forgetful := range []bool{false, true} {
			if !b.wantsNative(forgetful) {
				continue
			}
			took := map[server]spent{}
			for turn := range 2 {
				kind := server{native: (pair+turn)%2 == 1, forgetful: forgetful}
				used, err := b.nativeRun(ctx, s, kind)
				if err != nil {
					return fmt.Errorf("pair %d, server %s: %w", pair+1, kind, err)
				}
				took[kind] = used
				b.logf("pair %d, %s: virtual kubelet %.2f CPU-s, webhook %.2f, running %.1fs; %.0f of %.0f questions were calls",
					pair+1, kind, used.kubelet, used.webhook, used.running, used.asked.calls, used.asked.questions)
			}
			b.reportNative(took[server{forgetful: forgetful}], took[server{native: true, forgetful: forgetful}], forgetful)
		}
	}
	return nil
}

// nativeRun starts the server's processes and measures a burst with them.
func (b *bench) nativeRun(ctx context.Context, s *servers, kind server) (spent, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepPatience, fmt.Errorf("not done after %s", stepPatience))
	defer cancel()
	w := b.testbed
	if err := s.choose(kind); err != nil {
		return spent{}, err
	}
	if err := w.restart(ctx); err != nil {
		return spent{}, err
	}
	if err := pause(ctx, restartSettle); err != nil {
		return spent{}, err
	}
	askedBefore, err := w.readAsked(ctx)
	if err != nil {
		return spent{}, err
	}
	before, err := w.usage()
	if err != nil {
		return spent{}, err
	}
	times, err := w.offloadBurst(ctx, b.sizes.burst)
	if err != nil {
		return spent{}, err
	}
	if err := pause(ctx, settleAfterLoad); err != nil {
		return spent{}, err
	}
	after, err := w.usage()
	if err != nil {
		return spent{}, err
	}
	now, err := w.readAsked(ctx)
	if err != nil {
		return spent{}, err
	}
	if err := w.decidedBy(ctx, kind); err != nil {
		return spent{}, err
	}
	used := spent{running: times.running, asked: now.minus(askedBefore)}
	for process, seconds := range map[string]*float64{kubeletProcess: &used.kubelet, webhookProcess: &used.webhook} {
		if *seconds = after[process].cpu - before[process].cpu; *seconds <= 0 {
			return spent{}, fmt.Errorf("process %s has used no CPU time", process)
		}
	}
	return used, w.removeLoad(ctx)
}

func (b *bench) reportNative(wasm, native spent, forgetful bool) {
	pods, end := float64(b.sizes.burst), suffix(forgetful)
	note := fmt.Sprintf("%d pods of Deployments, %s", b.sizes.burst, nativeNote)
	ratio, share := ratioGoal(nativeGoal), valueGoal(shareGoal)
	if forgetful {
		// Forgetful servers exist in benchmarks only: they show what the memo saves.
		note, ratio, share = note+forgetNote, goal{}, goal{}
	}
	sharesOf := func(s spent) float64 { return 100 * s.asked.seconds / s.kubelet }
	b.record.add(
		compare("cpu/virtual-kubelet-wasm-beside-native"+end, cpuSeconds, wasm.kubelet, native.kubelet, ratio, note),
		compare("cpu/webhook-wasm-beside-native"+end, cpuSeconds, wasm.webhook, native.webhook, goal{}, note),
		compare("cpu/policies-share-wasm-beside-native"+end, "%", sharesOf(wasm), sharesOf(native), share, shareNote+". "+note),
		compare("burst/local-pods-running-wasm-beside-native"+end, "s", wasm.running, native.running, goal{}, note),
		compare("policy/calls-per-pod"+end, "calls/pod", wasm.asked.calls/pods, wasm.asked.questions/pods, goal{},
			"calls of policies by the virtual kubelet, the others being remembered; baseline: all its questions to policies. "+note),
		compare("policy/time-per-pod"+end, "us/pod", wasm.asked.seconds*1e6/pods, native.asked.seconds*1e6/pods, goal{},
			"from question to applied answer, all questions of the virtual kubelet about a pod, by its own metrics. "+note),
	)
}
