package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/hack/demo/rig"
)

const (
	nearObjects, quickNearObjects = 2000, 200
	farObjects, quickFarObjects   = 5000, 200
	// distance is the time of a round trip between the clusters.
	distance = 50 * time.Millisecond
	// mirrorWorkers is the number of workers of the virtual kubelet for ConfigMaps in the chart.
	mirrorWorkers = 10
	// mirrorGoal bounds the time beside the plain client.
	mirrorGoal   = 1.5
	mirrorPrefix = "mirror-"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// mirrors takes the measures of ConfigMaps, in an installation of their own: the provider is behind a proxy
// that can delay.
func (b *bench) mirrors(ctx context.Context) (err error) {
	var proxy *faultproxy.Proxy
	defer func() {
		if proxy != nil {
			err = errors.Join(err, proxy.Close())
		}
	}()
	var changing error
	return b.inTestbed(ctx, func(cluster string, values map[string]any) {
		if cluster != rig.Provider {
			return
		}
		proxy, changing = proxyFor(values)
	}, func(ctx context.Context) error {
		if changing != nil {
			return fmt.Errorf("changing the values of the chart: %w", changing)
		}
		return b.mirror(ctx, proxy)
	})
}

// proxyFor starts a proxy for the API server that the values of a chart name, and puts it in its place.
func proxyFor(values map[string]any) (*faultproxy.Proxy, error) {
	server, _ := values["apiServer"].(map[string]any)
	text, _ := server["address"].(string)
	address, err := url.Parse(text)
	if err != nil || address.Port() == "" {
		return nil, errors.Join(err, fmt.Errorf("the address %q of the API server is not a URL with a port", text))
	}
	proxy, err := faultproxy.Start(address.Host)
	if err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	server["address"] = proxy.URL()
	return proxy, nil
}

// mirror measures ConfigMaps without and with a delay between the clusters, and a minute with them.
func (b *bench) mirror(ctx context.Context, proxy *faultproxy.Proxy) error {
	config := rest.CopyConfig(b.testbed.milan.Config)
	config.Host, config.QPS = proxy.URL(), -1
	plainClient, err := client.New(config, client.Options{Scheme: b.testbed.milan.Scheme()})
	if err != nil {
		return fmt.Errorf("connecting through the proxy: %w", err)
	}
	near, far := b.size(nearObjects, quickNearObjects), b.size(farObjects, quickFarObjects)
	for range b.runs {
		if err := b.sendBeside(ctx, "mirror/configmaps", near, writers, plainClient); err != nil {
			return err
		}
		if err := b.testbed.rome.removeConfigMaps(ctx, offloaded); err != nil {
			return err
		}
		if err := b.testbed.awaitNoConfigMaps(ctx); err != nil {
			return err
		}
	}
	proxy.SetRoundTrip(distance)
	if err := b.sendBeside(ctx, fmt.Sprintf("mirror/configmaps-at-%dms", distance.Milliseconds()), far, mirrorWorkers, plainClient); err != nil {
		return err
	}
	proxy.SetRoundTrip(0)
	w, err := b.quietMinute(ctx, "mirror")
	if err != nil {
		return err
	}
	b.record.add(figure("mirror/quiet-requests", "requests", w.requests(request.disturbs),
		fmt.Sprintf("neither leases nor heartbeats, in %s with %d ConfigMaps", b.shorter(quietMinute), far)).bounded(valueGoal(0)))
	return nil
}

// sendBeside measures the time until the provider has ConfigMaps that writers create in the consumer,
// beside that of a plain client that writes each one once, directly, with some requests under way.
func (b *bench) sendBeside(ctx context.Context, name string, objects, concurrency int, plainClient client.Client) error {
	ctx, cancel := withPatience(ctx, stepPatience)
	defer cancel()
	w := b.testbed
	b.logf("%s: %d ConfigMaps", name, objects)
	theirs, err := w.sendConfigMaps(ctx, objects, concurrency, createIn(plainClient, plain), plain)
	if err != nil {
		return err
	}
	ours, err := w.sendConfigMaps(ctx, objects, writers, createIn(w.rome.Client, offloaded), w.remote)
	if err != nil {
		return err
	}
	b.logf("%s: %.1fs, the plain client %.1fs", name, ours, theirs)
	b.record.add(compare(name, "s", ours, theirs, ratioGoal(mirrorGoal), fmt.Sprintf(
		"%d ConfigMaps of 512 bytes by %d writers, until the last is seen in the provider; baseline: a plain client that writes them there, %d requests under way, by the same proxy",
		objects, writers, concurrency)))
	return w.milan.removeConfigMaps(ctx, plain)
}

// createIn returns what creates ConfigMaps of 512 bytes in a namespace, by their number.
func createIn(c client.Client, namespace string) func(context.Context, int) error {
	data := map[string]string{"text": strings.Repeat("x", 512)}
	return func(ctx context.Context, i int) error {
		return c.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s%05d", mirrorPrefix, i)}, Data: data,
		})
	}
}

// sendConfigMaps creates ConfigMaps and returns the seconds until the target in the provider has them.
func (w *testbed) sendConfigMaps(ctx context.Context, objects, concurrency int, create func(context.Context, int) error, target string) (float64, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := w.milan.watchMetadata(watching, configMaps, target, mirrorPrefix)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := each(ctx, concurrency, objects, create); err != nil {
		return 0, fmt.Errorf("creating ConfigMaps: %w", err)
	}
	last, err := seen.wait(ctx, objects)
	if err != nil {
		return 0, fmt.Errorf("waiting for ConfigMaps in the provider: %w", err)
	}
	return last.Sub(began).Seconds(), nil
}

// removeConfigMaps deletes the ConfigMaps of a namespace.
func (s *side) removeConfigMaps(ctx context.Context, namespace string) error {
	if err := s.client.CoreV1().ConfigMaps(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting the ConfigMaps of %q in %q: %w", namespace, s.Name, err)
	}
	return nil
}

// awaitNoConfigMaps waits until the provider has removed the copies.
func (w *testbed) awaitNoConfigMaps(ctx context.Context) error {
	return until(ctx, "ConfigMaps are gone", func() (bool, error) {
		left, err := w.milan.metadata.Resource(configMaps).Namespace(w.remote).List(ctx, metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(left.Items, func(o metav1.PartialObjectMetadata) bool { return strings.HasPrefix(o.Name, mirrorPrefix) }), err
	})
}
