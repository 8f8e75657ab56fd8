package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/hack/demo/rig"
	"github.com/longshore-dev/longshore/host/provider/admission/shadowpod"
)

// admissionTimes are the figures of one load of ShadowPods.
type admissionTimes struct {
	// creation are the milliseconds of the requests of the tenants.
	creation []float64
	// slow is the share of admissions in the webhook that took longer than the goal, in percent.
	slow float64
}

// admitShadowPods loads the provider with ShadowPods of all tenants that Quotas admit, then in the same way a
// provider that enforces none, and records both.
func (t *tenancy) admitShadowPods(ctx context.Context) error {
	with, err := t.load(ctx, "quota")
	if err != nil {
		return err
	}
	r, err := rig.Open(t.testbed.rig.Connection())
	if err != nil {
		return err
	}
	t.logf("tenants: the provider enforces no Quotas")
	err = r.Install(ctx, func(cluster string, values map[string]any) {
		if cluster == t.testbed.milan.Name {
			values["provider"] = map[string]any{"resourceEnforcement": false}
		}
	})
	if err != nil {
		return err
	}
	if err := r.Milan.WaitForDeployments(ctx, rig.Namespace, func(string) {}); err != nil {
		return err
	}
	if err := pause(ctx, idleSettle); err != nil {
		return err
	}
	without, err := t.load(ctx, "plain")
	if err != nil {
		return err
	}
	note := fmt.Sprintf("%d ShadowPods a second of %d tenants for %d s; baseline: the same without Quotas", t.sizes.rate, t.sizes.tenants, t.sizes.seconds)
	t.record.add(
		compare("tenants/quota-admissions-over-10ms", "%", with.slow, without.slow, valueGoal(1),
			"admissions in the webhook that took longer than 10 ms: at most 1 % means that p99 is at most 10 ms; "+note),
		compare("tenants/quota-creation-p50", "ms", percentile(with.creation, 0.5), percentile(without.creation, 0.5), goal{}, "whole requests of the tenants; "+note),
		compare("tenants/quota-creation-p99", "ms", percentile(with.creation, 0.99), percentile(without.creation, 0.99), goal{}, "whole requests of the tenants; "+note),
	)
	return nil
}

// load creates ShadowPods at a constant rate, of the tenants in turn, and deletes them.
func (t *tenancy) load(ctx context.Context, prefix string) (times admissionTimes, err error) {
	t.logf("tenants: %d ShadowPods a second for %d s", t.sizes.rate, t.sizes.seconds)
	count := t.sizes.rate * t.sizes.seconds
	before, err := t.testbed.webhookLatency(ctx)
	if err != nil {
		return admissionTimes{}, err
	}
	if times.creation, err = t.createShadowPods(ctx, prefix, count); err != nil {
		return admissionTimes{}, err
	}
	after, err := t.testbed.webhookLatency(ctx)
	if err != nil {
		return admissionTimes{}, err
	}
	all := after.all - before.all
	if all < float64(count) {
		return admissionTimes{}, fmt.Errorf("the webhook counted %v admissions of %d ShadowPods", all, count)
	}
	times.slow = 100 * (1 - (after.fast-before.fast)/all)
	return times, t.removeShadowPods(ctx)
}

// createShadowPods returns the milliseconds that each request took.
func (t *tenancy) createShadowPods(ctx context.Context, prefix string, count int) ([]float64, error) {
	took := make([]float64, count)
	group, creating := errgroup.WithContext(ctx)
	ticker := time.NewTicker(time.Second / time.Duration(t.sizes.rate))
	defer ticker.Stop()
	for i := range count {
		select {
		case <-ticker.C:
		case <-creating.Done():
			return nil, group.Wait()
		}
		tenant := t.tenants[i%len(t.tenants)]
		group.Go(func() error {
			began := time.Now()
			if err := tenant.client.Create(creating, shadowPodOf(tenant, fmt.Sprintf("%s-%05d", prefix, i))); err != nil {
				return fmt.Errorf("creating a ShadowPod of %q: %w", tenant.id, err)
			}
			took[i] = float64(time.Since(began)) / float64(time.Millisecond)
			return nil
		})
	}
	return took, group.Wait()
}

// removeShadowPods deletes the load.
func (t *tenancy) removeShadowPods(ctx context.Context) error {
	for _, tenant := range t.tenants {
		if err := t.testbed.milan.metadata.Resource(shadowPods).Namespace(tenant.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("deleting the ShadowPods of %q: %w", tenant.id, err)
		}
	}
	for _, tenant := range t.tenants {
		if err := t.testbed.milan.waitEmpty(ctx, tenant.namespace); err != nil {
			return err
		}
	}
	return nil
}

// admissions counts the admissions of ShadowPods: all, and those that took at most the goal.
type admissions struct{ all, fast float64 }

// webhookLatency reads the histogram of the provider's webhook.
func (w *testbed) webhookLatency(ctx context.Context) (admissions, error) {
	list := &corev1.PodList{}
	labels := client.MatchingLabels{"app.kubernetes.io/name": "longshore-webhook"}
	if err := w.milan.List(ctx, list, client.InNamespace(rig.Namespace), labels); err != nil {
		return admissions{}, fmt.Errorf("finding the webhook: %w", err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(list.Items) != 1 || list.Items[0].Status.PodIP == "" {
		return admissions{}, fmt.Errorf("there are %d webhooks, one with an address is expected", len(list.Items))
	}
	text, err := scrape(ctx, list.Items[0].Status.PodIP, webhookMetrics)
	if err != nil {
		return admissions{}, err
	}
	return parseAdmissions(string(text))
}

// parseAdmissions reads the buckets of the validation of ShadowPods.
func parseAdmissions(metrics string) (admissions, error) {
	found := admissions{}
	const bucket, limit = "controller_runtime_webhook_latency_seconds_bucket{", quotaAdmissionGoal / 1000.0
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, bucket) || !strings.Contains(line, `webhook="`+shadowpod.ValidatePath+`"`) {
			continue
		}
		_, rest, _ := strings.Cut(line, `le="`)
		bound, rest, _ := strings.Cut(rest, `"`)
		count, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		if err != nil {
			return admissions{}, fmt.Errorf("reading the line %q: %w", line, err)
		}
		le, err := strconv.ParseFloat(bound, 64)
		if err != nil {
			return admissions{}, fmt.Errorf("reading the line %q: %w", line, err)
		}
		switch {
		case math.IsInf(le, 1):
			found.all = count
		case math.Abs(le-limit) < limit/100:
			found.fast = count
		}
	}
	return found, nil
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
