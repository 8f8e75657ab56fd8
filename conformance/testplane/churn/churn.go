// Package churn changes objects of all kinds that Longshore mirrors, for tests that disturb its
// components meanwhile, and compares the two clusters afterwards.
package churn

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Workers is the number of workers that change objects at the same time.
	Workers = 8
	// objectsPerWorker is the number of objects of each kind that a worker has at most.
	objectsPerWorker = 4
	// slicePrefix begins the name of each EndpointSlice. Others are those of Kubernetes.
	slicePrefix = "endpointslice-"
	// retryPause is the pause before an operation that failed is repeated.
	retryPause = 100 * time.Millisecond
)

// Workload creates, updates and deletes objects in a namespace of the consumer. The operations,
// and their order per object, depend on the seed only.
type Workload struct {
	Client    client.Client
	Namespace string
	Seed      uint64
	// Pause is the longest time between two operations of a worker.
	Pause time.Duration
	// Pod returns a pod that runs in the provider, with one container named web.
	Pod func(namespace, name string) *corev1.Pod
	// IsTransient reports whether an operation that failed had no effect and is repeated. If it is
	// nil, each error ends the workload.
	IsTransient func(error) bool
}

// Run carries out a number of operations and then returns, or when the context ends.
func (w *Workload) Run(ctx context.Context, operations int) error {
	group, ctx := errgroup.WithContext(ctx)
	for id := range Workers {
		group.Go(func() error {
			worker := &worker{Workload: w, id: id, random: rand.New(rand.NewPCG(w.Seed, uint64(id))), revisions: map[string]int{}, pods: map[int]int{}}
			for range operations / Workers {
				if err := worker.operate(ctx); err != nil {
					if ctx.Err() != nil {
						return nil // the workload was ended
					}
					return err
				}
				if !PauseFor(ctx, worker.random, w.Pause) {
					return nil
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("changing objects in namespace %q: %w", w.Namespace, err)
	}
	return nil
}

// PauseFor waits for a random time, and reports whether the context still runs.
func PauseFor(ctx context.Context, random *rand.Rand, longest time.Duration) bool {
	if longest <= 0 {
		return ctx.Err() == nil
	}
	return sleep(ctx, time.Duration(random.Int64N(int64(longest))))
}

// sleep reports whether the context still runs after a time.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// worker changes objects that no other worker changes.
type worker struct {
	*Workload

	id     int
	random *rand.Rand
	// revisions has the revision of each object that exists, by kind and name.
	revisions map[string]int
	// pods has the number of pods that were deleted gracefully, by index: another pod of the
	// name could be created only when the provider has ended the first.
	pods map[int]int
}

// operate creates an object, or updates or deletes it if it exists.
func (w *worker) operate(ctx context.Context) error {
	kinds := []string{"configmap", "configmap", "secret", "service", "ingress", "endpointslice", "pod", "pod", "pod"}
	kind, index := kinds[w.random.IntN(len(kinds))], w.random.IntN(objectsPerWorker)
	name := fmt.Sprintf("%s-%d-%d", kind, w.id, index)
	if kind == "pod" {
		name += "-" + strconv.Itoa(w.pods[index])
	}
	change, choice := w.random.IntN(1000), w.random.IntN(10)
	revision, exists := w.revisions[name]
	switch {
	case !exists:
		w.revisions[name] = 1
		return w.try(ctx, "creating", name, func() error { return w.Client.Create(ctx, w.object(kind, name, change)) })
	case choice < 6:
		w.revisions[name] = revision + 1
		return w.try(ctx, "updating", name, func() error {
			return w.Client.Patch(ctx, w.object(kind, name, change), update(kind, revision+1, change))
		})
	}
	delete(w.revisions, name)
	var options []client.DeleteOption
	if kind == "pod" {
		if choice < 8 {
			options = append(options, client.GracePeriodSeconds(0))
		} else {
			w.pods[index]++
		}
	}
	return w.try(ctx, "deleting", name, func() error { return w.Client.Delete(ctx, w.object(kind, name, change), options...) })
}

// try repeats an operation for as long as it fails with a transient error.
func (w *worker) try(ctx context.Context, verb, name string, operation func() error) error {
	for {
		err := operation()
		if err == nil {
			return nil
		}
		if w.IsTransient == nil || !w.IsTransient(err) || !sleep(ctx, retryPause) {
			return fmt.Errorf("%s %s: %w", verb, name, err)
		}
	}
}

// object returns a new object.
func (w *worker) object(kind, name string, change int) client.Object {
	meta := metav1.ObjectMeta{Namespace: w.Namespace, Name: name, Labels: map[string]string{"change": strconv.Itoa(change)}}
	switch kind {
	case "configmap":
		return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"created": strconv.Itoa(change)}}
	case "secret":
		return &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"created": strconv.Itoa(change)}}
	case "service":
		return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "web", Port: int32(1 + change)}},
		}}
	case "ingress":
		return &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{DefaultBackend: backend(change)}}
	case "endpointslice":
		return &discoveryv1.EndpointSlice{
			ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To(int32(1 + change))}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address(change)}}},
		}
	}
	pod := w.Pod(w.Namespace, name)
	pod.Labels = meta.Labels
	return pod
}

// backend returns a backend of an Ingress.
func backend(change int) *networkingv1.IngressBackend {
	return &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: int32(1 + change)}}}
}

// address returns an address outside of both clusters.
func address(change int) string { return fmt.Sprintf("203.0.113.%d", change%256) }

// update returns a patch of an object that exists. Every third removes what another added.
func update(kind string, revision, change int) client.Patch {
	value, base64 := any(strconv.Itoa(change)), any("Y2hhbmdl")
	if revision%3 == 0 {
		value, base64 = nil, nil
	}
	patch := map[string]any{"metadata": map[string]any{
		"labels":      map[string]any{"change": strconv.Itoa(change), "added": value},
		"annotations": map[string]any{"example.com/change": value},
	}}
	patchType := types.MergePatchType
	switch kind {
	case "configmap":
		patch["data"] = map[string]any{"key-" + strconv.Itoa(revision%2): value}
	case "secret":
		patch["data"] = map[string]any{"key-" + strconv.Itoa(revision%2): base64}
	case "service":
		patch["spec"] = map[string]any{
			"selector": map[string]any{"added": value},
			"ports":    []any{map[string]any{"name": "web", "port": 1 + change, "protocol": "TCP"}},
		}
	case "ingress":
		patch["spec"] = map[string]any{"defaultBackend": backend(change)}
	case "endpointslice":
		patch["endpoints"] = []any{map[string]any{"addresses": []string{address(change)}}, map[string]any{"addresses": []string{"198.51.100.1"}}}
	case "pod":
		patchType = types.StrategicMergePatchType
		patch["spec"] = map[string]any{"containers": []any{map[string]any{"name": "web", "image": "example.com/web:" + strconv.Itoa(change)}}}
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		panic(err) // maps and strings only
	}
	return client.RawPatch(patchType, raw)
}
