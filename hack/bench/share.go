package main

import (
	"bufio"
	"context"
	"errors"
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
	kubeletProcess = "longshore/virtual-kubelet@" + rig.Consumer
	shareGoal      = 5
	shareNote      = "time that the virtual kubelet spent asking policies, by its own metrics, in percent of its CPU time in the burst; an upper bound, since a call that waits for a processor counts as well"
)

// policyTime returns the seconds that the virtual kubelet has spent asking policies.
func (w *world) policyTime(ctx context.Context) (float64, error) {
	list := &corev1.PodList{}
	labels := client.MatchingLabels{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet}
	if err := w.rome.List(ctx, list, client.InNamespace(rig.Pair.ConsumerTenant()), labels); err != nil {
		return 0, fmt.Errorf("finding the virtual kubelet: %w", err)
	}
	if len(list.Items) != 1 || list.Items[0].Status.PodIP == "" {
		return 0, fmt.Errorf("there are %d virtual kubelets, one with an address is expected", len(list.Items))
	}
	url := "http://" + net.JoinHostPort(list.Items[0].Status.PodIP, kubeletMetrics) + "/metrics"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("asking for metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("asking for metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("asking for metrics: %s", response.Status)
	}
	return sumOf(response.Body, policySeconds)
}

// reportShare records which part of the virtual kubelet's CPU time since the window was
// opened went into policies.
func (b *bench) reportShare(ctx context.Context, w window, askingBefore float64) error {
	asking, err := b.world.policyTime(ctx)
	if err != nil {
		return err
	}
	after, err := b.world.usage()
	if err != nil {
		return err
	}
	used := after[kubeletProcess].cpu - w.before[kubeletProcess].cpu
	if used <= 0 {
		return fmt.Errorf("process %s has used no CPU time", kubeletProcess)
	}
	b.record.add(figure("cpu/policies-share-of-virtual-kubelet", "%", 100*(asking-askingBefore)/used, shareNote).bounded(valueGoal(shareGoal)))
	return nil
}

// sumOf adds up the samples of a metric, whatever their labels, in Prometheus' text format.
func sumOf(text io.Reader, metric string) (float64, error) {
	total, found := 0.0, false
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, bytesOfMiB)
	for lines.Scan() {
		name, _, labeled := strings.Cut(lines.Text(), "{")
		end := strings.LastIndex(lines.Text(), "} ")
		if !labeled || name != metric || end < 0 {
			continue
		}
		value, err := strconv.ParseFloat(lines.Text()[end+2:], 64)
		if err != nil {
			return 0, fmt.Errorf("reading metric %s: %w", metric, err)
		}
		total, found = total+value, true
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("reading metrics: %w", err)
	}
	if !found {
		return 0, errors.New("there is no metric " + metric + " with labels")
	}
	return total, nil
}
