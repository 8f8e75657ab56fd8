package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

const (
	mirrorObjects, quickMirrorObjects   = 2000, 200
	distantObjects, quickDistantObjects = 5000, 200
	// distance is the time of a round trip between the clusters.
	distance = 50 * time.Millisecond
	// mirrorWorkers is the number of workers of the virtual kubelet for ConfigMaps in the chart.
	mirrorWorkers = 10
	// mirrorGoal bounds the time beside the plain client.
	mirrorGoal = 1.5
	// Goals of a pod with a token, events, webhook and quota. The reference system needs 22.2 requests
	// and 0.032 CPU-seconds.
	tokenRequestsGoal, tokenCPUGoal           = 7, 0.012
	referenceTokenRequests, referenceTokenCPU = 22.2, 0.032
)

// apart takes the measures that need an installation of their own: the provider is behind a proxy that
// can delay, and pods get tokens for the consumer's API server.
func (b *bench) apart(ctx context.Context, o options, dir string) (err error) {
	var proxy *faultproxy.Proxy
	var changing error
	b.testbed, err = startTestbed(ctx, testbedOptions{longshore: o.longshore, dir: dir, audit: true, logf: b.logf, change: func(cluster string, values map[string]any) {
		address, isURL := apiServerOf(values)
		switch {
		case !isURL:
			changing = fmt.Errorf("the address of the API server of %q is not a URL", cluster)
		case cluster == rig.Consumer:
			valuesOf(values, "virtualKubelet")["apiServerAccess"] = map[string]any{"host": address.Hostname(), "port": address.Port()}
		default:
			if proxy, changing = faultproxy.Start(address.Host); changing == nil {
				valuesOf(values, "apiServer")["address"] = proxy.URL()
			}
		}
	}})
	if proxy != nil {
		defer func() { err = errors.Join(err, proxy.Close()) }()
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.testbed.stop(context.WithoutCancel(ctx))) }()
	if changing != nil {
		return fmt.Errorf("changing the values of the chart: %w", changing)
	}
	if b.needs("tokens/") {
		if err := b.tokens(ctx); err != nil {
			return err
		}
	}
	if !b.needs("mirror/") {
		return nil
	}
	return b.mirrors(ctx, proxy)
}

// valuesOf returns a part of the values of the chart.
func valuesOf(values map[string]any, part string) map[string]any {
	found, ok := values[part].(map[string]any)
	if !ok {
		found = map[string]any{}
		values[part] = found
	}
	return found
}

func apiServerOf(values map[string]any) (*url.URL, bool) {
	text, _ := valuesOf(values, "apiServer")["address"].(string)
	address, err := url.Parse(text)
	return address, err == nil && address.Port() != ""
}

// mirrors measures ConfigMaps without and with a delay between the clusters, and a minute with them.
func (b *bench) mirrors(ctx context.Context, proxy *faultproxy.Proxy) error {
	near, far := mirrorObjects, distantObjects
	if b.quick {
		near, far = quickMirrorObjects, quickDistantObjects
	}
	plainClient, err := b.testbed.milan.through(proxy.URL())
	if err != nil {
		return err
	}
	const nearName = "mirror/configmaps"
	for range b.runs {
		if !b.only.MatchString(nearName) {
			break
		}
		if err := b.configMaps(ctx, nearName, near, scaleRequests, plainClient); err != nil {
			return err
		}
		if err := b.testbed.removeConfigMaps(ctx, near); err != nil {
			return err
		}
	}
	farName := fmt.Sprintf("mirror/configmaps-at-%dms", distance.Milliseconds())
	if !b.only.MatchString(farName) {
		return nil // The quiet minute is with its objects.
	}
	proxy.SetRoundTrip(distance)
	if err := b.configMaps(ctx, farName, far, mirrorWorkers, plainClient); err != nil {
		return err
	}
	proxy.SetRoundTrip(0)
	return b.quietObjects(ctx, far)
}

// through returns a client of the cluster's administrator by another address.
func (s *side) through(url string) (client.Client, error) {
	config := rest.CopyConfig(s.Config)
	config.Host, config.QPS = url, -1
	c, err := client.New(config, client.Options{Scheme: s.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connecting to cluster %q through the proxy: %w", s.Name, err)
	}
	return c, nil
}

// configMaps measures the time until the provider has ConfigMaps that 16 writers create in the consumer,
// beside that of a plain client that writes each one once, directly, with some requests under way.
func (b *bench) configMaps(ctx context.Context, name string, objects, concurrency int, plainClient client.Client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepPatience, fmt.Errorf("not done after %s", stepPatience))
	defer cancel()
	w, kind := b.testbed, mirroredKinds()[0]
	b.logf("%s: %d ConfigMaps", name, objects)
	in := func(c client.Client, namespace string) func(context.Context, int) error {
		return func(ctx context.Context, i int) error { return c.Create(ctx, kind.build(numbered(namespace, i))) }
	}
	timed := func(create func(context.Context, int) error, writers int, target string) (float64, error) {
		watching, stop := context.WithCancel(ctx)
		defer stop()
		seen, err := w.milan.watchMetadata(watching, kind.remote, target)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		group, creating := errgroup.WithContext(ctx)
		group.SetLimit(writers)
		for i := range objects {
			group.Go(func() error { return create(creating, i) })
		}
		if err := group.Wait(); err != nil {
			return 0, fmt.Errorf("creating ConfigMaps: %w", err)
		}
		last, err := seen.wait(ctx, objects)
		if err != nil {
			return 0, fmt.Errorf("waiting for ConfigMaps in the provider: %w", err)
		}
		return last.Sub(began).Seconds(), nil
	}
	local, direct := in(w.rome.Client, metav1.NamespaceDefault), in(plainClient, plain)
	theirs, err := timed(direct, concurrency, plain)
	if err != nil {
		return err
	}
	if err := w.removePlainConfigMaps(ctx); err != nil {
		return err
	}
	floor, err := timed(func(ctx context.Context, i int) error { return errors.Join(local(ctx, i), direct(ctx, i)) }, concurrency, plain)
	if err != nil {
		return err
	}
	ours, err := timed(in(w.rome.Client, offloaded), scaleRequests, w.remote)
	if err != nil {
		return err
	}
	b.logf("%s: %.1fs, the plain client %.1fs, in both clusters %.1fs", name, ours, theirs, floor)
	b.record.add(compare(name, "s", ours, theirs, ratioGoal(mirrorGoal), fmt.Sprintf(
		"%d ConfigMaps of 512 bytes by %d writers, until the last is seen in the provider; baseline: a plain client that writes them there, %d requests under way, by the same proxy",
		objects, scaleRequests, concurrency)),
		compare(name+"-beside-floor", "s", ours, floor, goal{}, "baseline: the plain client creates each of them in the consumer, and then in the provider"))
	return w.removePlainConfigMaps(ctx)
}

// removePlainConfigMaps deletes what the plain client created in both clusters.
func (w *testbed) removePlainConfigMaps(ctx context.Context) error {
	for cluster, namespace := range map[*side]string{w.rome: metav1.NamespaceDefault, w.milan: plain} {
		if err := cluster.client.CoreV1().ConfigMaps(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("deleting the ConfigMaps of the plain client in %q: %w", cluster.Name, err)
		}
	}
	return nil
}

// numbered is the metadata of an object of this measure.
func numbered(namespace string, i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s%05d", kindsPrefix, i)}
}

// removeConfigMaps deletes what configMaps created in the consumer and waits until the provider has none.
func (w *testbed) removeConfigMaps(ctx context.Context, objects int) error {
	if err := w.rome.removeAll(ctx, mirroredKinds()[0], objects); err != nil {
		return err
	}
	for {
		left, err := w.milan.metadata.Resource(configMaps).Namespace(w.remote).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing ConfigMaps in %q: %w", w.remote, err)
		}
		mirrored := 0
		for i := range left.Items {
			if isNumbered(left.Items[i].Name) {
				mirrored++
			}
		}
		if mirrored == 0 {
			return nil
		}
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until ConfigMaps are gone: %w", err)
		}
	}
}

// quietObjects counts the requests of a minute in which nothing happens to many ConfigMaps.
func (b *bench) quietObjects(ctx context.Context, objects int) error {
	minute, settle, silence := b.quietTimes()
	b.logf("mirror: nothing happens to %d ConfigMaps for %s", objects, minute)
	if err := b.silence(ctx, settle, silence); err != nil {
		return err
	}
	if err := b.testbed.audit.mark(); err != nil {
		return err
	}
	if err := pause(ctx, minute); err != nil {
		return err
	}
	asked, err := b.testbed.audit.since()
	if err != nil {
		return err
	}
	groups := asked.group(func(r request) string {
		if !r.Ours || r.idle() {
			return ""
		}
		return r.String()
	})
	note := fmt.Sprintf("in %s with %d ConfigMaps", minute, objects)
	b.record.add(
		compare("mirror/quiet-requests", "requests", float64(asked.sum(func(r request) bool { return r.Ours && !r.idle() })), math.NaN(), valueGoal(0), "neither leases nor heartbeats, "+note),
		figure("mirror/quiet-leases-and-heartbeats", "requests", float64(asked.sum(func(r request) bool { return r.Ours && r.idle() })), note),
	)
	for _, name := range byCount(groups) {
		b.record.add(figure("mirror/quiet-requests/"+name, "requests", float64(groups[name]), "part of mirror/quiet-requests"))
	}
	return nil
}

// tokens measures pods with tokens of their service accounts.
func (b *bench) tokens(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepPatience, fmt.Errorf("not done after %s", stepPatience))
	defer cancel()
	w, pods := b.testbed, b.sizes.burst
	for range b.runs {
		window, err := b.open()
		if err != nil {
			return err
		}
		b.logf("tokens: %d pods with tokens", pods)
		if _, err := w.offloadBurst(ctx, pods); err != nil {
			return err
		}
		if err := w.awaitTokens(ctx, pods); err != nil {
			return err
		}
		if err := pause(ctx, settleAfterLoad); err != nil {
			return err
		}
		after, err := w.usage()
		if err != nil {
			return err
		}
		asked, err := w.audit.since()
		if err != nil {
			return err
		}
		requests := asked.group(func(r request) string {
			if !r.Ours || r.lease() {
				return ""
			}
			return r.String()
		})
		for _, name := range byCount(requests) {
			b.logf("tokens: %5d %s", requests[name], name)
		}
		note := fmt.Sprintf("%d pods with tokens, events, webhook and quota; baseline: the reference system", pods)
		requestsAtMost, cpuAtMost := valueGoal(tokenRequestsGoal), valueGoal(tokenCPUGoal)
		if pods != referenceBurst {
			requestsAtMost, cpuAtMost = goal{}, goal{}
		}
		b.record.add(
			compare("tokens/requests-per-pod", requestUnit, float64(asked.sum(func(r request) bool { return r.Ours && !r.lease() }))/float64(pods),
				referenceTokenRequests, requestsAtMost, note),
			compare("tokens/cpu-per-pod", cpuUnit, cpuBetween(window.before, after, ours)/float64(pods), referenceTokenCPU, cpuAtMost, note),
		)
		if err := w.removeLoad(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitTokens waits until the provider has the tokens of the pods: simulated pods run without them.
func (w *testbed) awaitTokens(ctx context.Context, pods int) error {
	for {
		list, err := w.milan.metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(w.remote).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing Secrets in %q: %w", w.remote, err)
		}
		tokens := 0
		for i := range list.Items {
			if list.Items[i].Annotations[remote.TokenPodKey] != "" {
				tokens++
			}
		}
		if tokens >= pods {
			return nil
		}
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for %d tokens, %d exist: %w", pods, tokens, err)
		}
	}
}
