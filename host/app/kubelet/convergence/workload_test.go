package convergence_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
)

const (
	workers = 8
	// objectsPerWorker is the number of objects of each kind that a worker has at most.
	objectsPerWorker = 4
)

// workload creates, updates and deletes objects in a namespace of the consumer. The operations,
// and their order per object, depend on the seed only.
type workload struct {
	client    client.Client
	namespace string
	seed      uint64
	// pause is the longest time between two operations of a worker.
	pause time.Duration
}

// run carries out a number of operations and then returns, or when the context ends.
func (w *workload) run(ctx context.Context, operations int) error {
	group, ctx := errgroup.WithContext(ctx)
	for id := range workers {
		group.Go(func() error {
			worker := &worker{workload: w, id: id, random: rand.New(rand.NewPCG(w.seed, uint64(id))), revisions: map[string]int{}, pods: map[int]int{}}
			for range operations / workers {
				if err := worker.operate(ctx); err != nil {
					if ctx.Err() != nil {
						return nil // the workload was ended
					}
					return err
				}
				if !pauseFor(ctx, worker.random, w.pause) {
					return nil
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// pauseFor waits for a random time, and reports whether the context still runs.
func pauseFor(ctx context.Context, random *rand.Rand, longest time.Duration) bool {
	if longest <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(time.Duration(random.Int64N(int64(longest)))):
		return true
	case <-ctx.Done():
		return false
	}
}

// worker changes objects that no other worker changes.
type worker struct {
	*workload

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
	kinds := []string{"configmap", "configmap", "secret", "service", "pod", "pod"}
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
		return wrap("creating", name, w.client.Create(ctx, w.object(kind, name, change)))
	case choice < 6:
		w.revisions[name] = revision + 1
		return wrap("updating", name, w.client.Patch(ctx, w.object(kind, name, change), update(kind, revision+1, change)))
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
	return wrap("deleting", name, w.client.Delete(ctx, w.object(kind, name, change), options...))
}

func wrap(verb, name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, name, err)
	}
	return nil
}

// object returns a new object.
func (w *worker) object(kind, name string, change int) client.Object {
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{"change": strconv.Itoa(change)}}
	switch kind {
	case "configmap":
		return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"created": strconv.Itoa(change)}}
	case "secret":
		return &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"created": strconv.Itoa(change)}}
	case "service":
		return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "web", Port: int32(1 + change)}},
		}}
	}
	pod := twoclusters.Pod(w.namespace, name)
	pod.Labels = meta.Labels
	return pod
}

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
