package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	// kubeletMetrics is the port of the virtual kubelet's metrics, the chart's default.
	kubeletMetrics = "5872"
	policySeconds  = "longshore_policy_call_duration_seconds_sum"
	// policyQuestions are by their result; answeredByCall is that of those that were not
	// remembered.
	policyQuestions = "longshore_policy_calls_total"
	answeredByCall  = `result="answered"`
	kubeletProcess  = "longshore/virtual-kubelet@" + rig.Consumer
	webhookProcess  = "longshore/webhook@" + rig.Consumer
	shareGoal       = 5
	shareNote       = "time that the virtual kubelet spent asking policies, by its own metrics, in percent of its CPU time in the burst; an upper bound, since a call that waits for a processor counts as well"
)

// asked is what the virtual kubelet has asked policies so far.
type asked struct {
	// seconds spent, questions in all, and those of them that had no remembered answer.
	seconds, questions, calls float64
}

func (a asked) minus(before asked) asked {
	return asked{a.seconds - before.seconds, a.questions - before.questions, a.calls - before.calls}
}

// readAsked reads what the virtual kubelet has asked policies, from its metrics.
func (w *testbed) readAsked(ctx context.Context) (asked, error) {
	text, err := w.kubeletMetrics(ctx)
	if err != nil {
		return asked{}, err
	}
	var a asked
	for _, sum := range []struct {
		of            *float64
		metric, label string
	}{{&a.seconds, policySeconds, ""}, {&a.questions, policyQuestions, ""}, {&a.calls, policyQuestions, answeredByCall}} {
		if *sum.of, err = sumOf(bytes.NewReader(text), sum.metric, sum.label); err != nil {
			return asked{}, err
		}
	}
	return a, nil
}

func (w *testbed) kubeletMetrics(ctx context.Context) ([]byte, error) {
	list := &corev1.PodList{}
	labels := client.MatchingLabels{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet}
	if err := w.rome.List(ctx, list, client.InNamespace(rig.Pair.ConsumerTenant()), labels); err != nil {
		return nil, fmt.Errorf("finding the virtual kubelet: %w", err)
	}
	if len(list.Items) != 1 || list.Items[0].Status.PodIP == "" {
		return nil, fmt.Errorf("there are %d virtual kubelets, one with an address is expected", len(list.Items))
	}
	return scrape(ctx, list.Items[0].Status.PodIP, kubeletMetrics)
}

// scrape reads the metrics of a process.
func scrape(ctx context.Context, ip, port string) ([]byte, error) {
	url := "http://" + net.JoinHostPort(ip, port) + "/metrics"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking for metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking for metrics: %s", response.Status)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return text, nil
}

// reportShare records which part of the virtual kubelet's CPU time since the window was
// opened went into policies.
func (b *bench) reportShare(ctx context.Context, w window, before asked) error {
	now, err := b.testbed.readAsked(ctx)
	if err != nil {
		return err
	}
	after, err := b.testbed.usage()
	if err != nil {
		return err
	}
	used := after[kubeletProcess].cpu - w.before[kubeletProcess].cpu
	if used <= 0 {
		return fmt.Errorf("process %s has used no CPU time", kubeletProcess)
	}
	if now.questions <= before.questions {
		return fmt.Errorf("process %s has asked no policy", kubeletProcess)
	}
	b.record.add(figure("cpu/policies-share-of-virtual-kubelet", "%", 100*now.minus(before).seconds/used, shareNote).bounded(valueGoal(shareGoal)))
	return nil
}

// sumOf adds up the samples of a metric that have the label, name="value", or any for "",
// in Prometheus' text format. A metric that nothing was counted in has no samples: 0.
func sumOf(text io.Reader, metric, label string) (float64, error) {
	total := 0.0
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, bytesOfMiB)
	for lines.Scan() {
		name, rest, labeled := strings.Cut(lines.Text(), "{")
		end := strings.LastIndex(rest, "} ")
		if !labeled || name != metric || end < 0 || !strings.Contains(rest[:end], label) {
			continue
		}
		value, err := strconv.ParseFloat(rest[end+2:], 64)
		if err != nil {
			return 0, fmt.Errorf("reading metric %s: %w", metric, err)
		}
		total += value
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("reading metrics: %w", err)
	}
	return total, nil
}
