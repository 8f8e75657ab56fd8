package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/native"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policy/view"
)

const (
	// replaced is the folder whose files are others in servers that only we build, others
	// the folder of these.
	replaced = "host/app/policies"
	others   = "hack/demo/bench/policies"
	// webhookDeployment is what the chart names the webhook's.
	webhookDeployment = "longshore-webhook"
	readyPoll         = 100 * time.Millisecond
)

// server is a way to build the server binary; the zero value is the product's.
type server struct {
	// native servers take the built-in decisions without a sandbox, forgetful ones
	// remember no answer.
	native, forgetful bool
}

// String names the server, and its binary.
func (s server) String() string {
	return map[bool]string{false: "wasm", true: "native"}[s.native] + suffix(s.forgetful)
}

// overlay maps the product's files to those that take their place.
func (s server) overlay(root string) map[string]string {
	files := map[string]string{}
	for name, other := range map[string]bool{"builtin.go": s.native, "options.go": s.forgetful} {
		if other {
			files[filepath.Join(root, replaced, name)] = filepath.Join(root, others, name)
		}
	}
	return files
}

// build compiles the server as `make build` does, from the clone at root.
func (s server) build(ctx context.Context, root, dir string) (string, error) {
	overlay, err := json.Marshal(map[string]any{"Replace": s.overlay(root)})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay of server %s: %w", s, err)
	}
	list, binary := filepath.Join(dir, s.String()+".overlay.json"), filepath.Join(dir, s.String())
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", fmt.Errorf("writing the overlay of server %s: %w", s, err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-ldflags", "-s -w", "-o", binary, "./cmd/longshore")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building server %s: %w\n%s", s, err, output)
	}
	return binary, nil
}

// servers are built, and take turns in running.
type servers struct {
	// link is what the process nodes run: a link to one of the binaries.
	link     string
	binaries map[server]string
}

func newServers(ctx context.Context, dir string, all []server) (*servers, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, fmt.Errorf("finding the clone: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of the servers: %w", err)
	}
	s := &servers{link: filepath.Join(dir, "longshore"), binaries: map[server]string{}}
	for _, kind := range all {
		if s.binaries[kind], err = kind.build(ctx, root, dir); err != nil {
			return nil, err
		}
	}
	return s, s.choose(all[0])
}

// choose lets processes that start from now on be of this server.
func (s *servers) choose(kind server) error {
	return relink(s.link, s.binaries[kind])
}

// relink makes link a link to a binary. Processes that run stay what they are.
func relink(link, binary string) error {
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("choosing server %s: %w", binary, err)
	}
	if err := os.Symlink(binary, link); err != nil {
		return fmt.Errorf("choosing server %s: %w", binary, err)
	}
	return nil
}

// restart ends the consumer's virtual kubelet and webhook and waits until new ones are
// ready: the processes that ask policies about pods.
func (w *testbed) restart(ctx context.Context) error {
	deployments := w.rome.client.AppsV1().Deployments(rig.Namespace)
	// The webhook has one address: the next one can listen when this one is gone.
	for _, replicas := range []int{0, 1} {
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
		if _, err := deployments.Patch(ctx, webhookDeployment, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("scaling the webhook to %d: %w", replicas, err)
		}
		if err := w.await(ctx, rig.Namespace, client.MatchingLabels{"app.kubernetes.io/name": webhookDeployment}, replicas, ""); err != nil {
			return fmt.Errorf("restarting the webhook: %w", err)
		}
	}
	tenant := rig.Pair.ConsumerTenant()
	labels := client.MatchingLabels{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet}
	list := &corev1.PodList{}
	if err := w.rome.List(ctx, list, client.InNamespace(tenant), labels); err != nil || len(list.Items) != 1 {
		return errors.Join(err, fmt.Errorf("restarting the virtual kubelet: there are %d, one is expected", len(list.Items)))
	}
	if err := w.rome.Delete(ctx, &list.Items[0]); err != nil {
		return fmt.Errorf("restarting the virtual kubelet: %w", err)
	}
	if err := w.await(ctx, tenant, labels, 1, list.Items[0].UID); err != nil {
		return fmt.Errorf("restarting the virtual kubelet: %w", err)
	}
	return w.rome.WaitForNode(ctx, rig.Node, func(string) {})
}

// await waits until there are as many pods, all ready and none of them the one before.
func (w *testbed) await(ctx context.Context, namespace string, labels client.MatchingLabels, want int, before types.UID) error {
	for {
		list := &corev1.PodList{}
		if err := w.rome.List(ctx, list, client.InNamespace(namespace), labels); err != nil {
			return fmt.Errorf("listing the pods of %q: %w", namespace, err)
		}
		ready := 0
		for i := range list.Items {
			if list.Items[i].UID != before && podReady(&list.Items[i]) {
				ready++
			}
		}
		if len(list.Items) == want && ready == want {
			return nil
		}
		if err := pause(ctx, readyPoll); err != nil {
			return fmt.Errorf("%d pods, %d of them ready, %d expected: %w", len(list.Items), ready, want, err)
		}
	}
}

func podReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// decidedBy checks, on the objects of one pod, that the server decided that is measured:
// the annotations on the pod and on its ShadowPod name the module's digest.
func (w *testbed) decidedBy(ctx context.Context, kind server) error {
	pods, shadows := &corev1.PodList{}, &offloadingv1beta1.ShadowPodList{}
	if err := w.rome.List(ctx, pods, client.InNamespace(offloaded), client.Limit(1)); err != nil {
		return fmt.Errorf("reading a pod: %w", err)
	}
	if err := w.milan.List(ctx, shadows, client.InNamespace(w.remote), client.Limit(1)); err != nil {
		return fmt.Errorf("reading a ShadowPod: %w", err)
	}
	if len(pods.Items) == 0 || len(shadows.Items) == 0 {
		return errors.New("no pod, or no ShadowPod, is there to be looked at")
	}
	functions := chain.ShortDigest(policytest.Native(policyv1alpha1.BuiltInDefault, defaults.Manifest(), native.Functions()).Digest())
	for _, object := range []metav1.Object{&pods.Items[0], &shadows.Items[0]} {
		var entries []view.Entry
		text := object.GetAnnotations()[policyv1alpha1.DecisionsAnnotation]
		if err := json.Unmarshal([]byte(text), &entries); err != nil || len(entries) == 0 {
			return errors.Join(err, fmt.Errorf("the annotation %q of %s names no decision", text, object.GetName()))
		}
		for i := range entries {
			if (entries[i].Digest == functions) != kind.native {
				return fmt.Errorf("%s was decided by %q, not by server %s: %s", object.GetName(), entries[i].Digest, kind, strings.TrimSpace(text))
			}
		}
	}
	return nil
}
