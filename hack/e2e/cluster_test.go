package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/e2e/images"
	"github.com/longshore-dev/longshore/hack/e2e/node"
	"github.com/longshore-dev/longshore/host/app/scheme"
)

const (
	consumerID = "rome"
	providerID = "milan"

	gateway      = "10.201.0.1"
	prefixLength = 24

	soon = 2 * time.Minute
	poll = 100 * time.Millisecond
)

// network is the addresses of a cluster.
type network struct{ address, podCIDR, serviceCIDR string }

var networks = map[string]network{
	consumerID: {"10.201.0.2", "10.202.0.0/24", "10.203.0.0/24"},
	providerID: {"10.201.0.3", "10.204.0.0/24", "10.205.0.0/24"},
}

// configOf returns the configuration of a cluster's node. Plain routes to the pods of the other
// cluster stand in for a network fabric.
func configOf(name string) (node.Config, error) {
	dir, err := filepath.Abs(filepath.Join(stateDir, name))
	if err != nil {
		return node.Config{}, fmt.Errorf("resolving the folder of %s: %w", name, err)
	}
	n := networks[name]
	config := node.Config{
		Name: name, Dir: dir, Address: n.address, Gateway: gateway, PrefixLength: prefixLength,
		PodCIDR: n.podCIDR, ServiceCIDR: n.serviceCIDR, Routes: map[string]string{},
		TestPlane: os.Getenv(testPlaneVariable), Pause: images.Pause,
	}
	for other, n := range networks {
		if other != name {
			config.Routes[n.podCIDR] = n.address
		}
	}
	for _, archive := range []string{longshore, imageDir + "/app.tar", imageDir + "/pause.tar"} {
		path, err := filepath.Abs(archive)
		if err != nil {
			return node.Config{}, fmt.Errorf("resolving %s: %w", archive, err)
		}
		config.Images = append(config.Images, path)
	}
	return config, nil
}

// cluster is a cluster of one real node.
type cluster struct {
	client.WithWatch

	name string
	node *node.Node
	kube *kubernetes.Clientset
	rest *rest.Config
}

func startCluster(ctx context.Context, name string) (*cluster, error) {
	config, err := configOf(name)
	if err != nil {
		return nil, err
	}
	n, err := node.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	c := &cluster{name: name, node: n}
	if c.rest, err = clientcmd.BuildConfigFromFlags("", n.Kubeconfig()); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
	}
	c.rest.QPS = -1
	if c.kube, err = kubernetes.NewForConfig(c.rest); err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", name, err)
	}
	kinds, err := scheme.New()
	if err != nil {
		return nil, err
	}
	if c.WithWatch, err = client.NewWithWatch(c.rest, client.Options{Scheme: kinds}); err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", name, err)
	}
	return c, nil
}

// kubectlCommand returns a command of kubectl in the cluster.
func (c *cluster) kubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, stateDir+"/kubectl", append([]string{"--kubeconfig", c.node.Kubeconfig()}, args...)...)
}

// kubectl returns the output of kubectl, which must succeed.
func (c *cluster) kubectl(t planetest.T, args ...string) string {
	t.Helper()
	return execute(t, c.kubectlCommand(t.Context(), args...))
}

// execute returns the standard output of a command that must succeed.
func execute(t planetest.T, cmd *exec.Cmd) string {
	t.Helper()
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	require.NoError(t, cmd.Run(), "%s\n%s%s", strings.Join(cmd.Args, " "), out.String(), messages.String())
	return out.String()
}

// apply applies manifests as an administrator does.
func (c *cluster) apply(t *testing.T, manifests string) {
	t.Helper()
	cmd := c.kubectlCommand(t.Context(), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifests)
	execute(t, cmd)
}

// isReady reports whether a condition of the object's status is true.
func podIsReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// readyPods returns the pods of the selection, when there are as many as wanted and all are ready.
func (c *cluster) readyPods(t *testing.T, namespace, selector string, want int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	options := &client.ListOptions{Namespace: namespace}
	client.MatchingLabels(parseLabels(selector)).ApplyToList(options)
	planetest.Until(t, func(t planetest.T) bool {
		list := &corev1.PodList{}
		require.NoError(t, c.List(t.Context(), list, options))
		pods = nil
		for _, pod := range list.Items {
			if pod.DeletionTimestamp == nil {
				pods = append(pods, pod)
			}
		}
		require.Len(t, pods, want)
		for i := range pods {
			require.True(t, podIsReady(&pods[i]), "%s is not ready: %s", pods[i].Name, summary(&pods[i]))
		}
		return true
	}, soon, poll, "pods %s of %s in %s are ready", selector, namespace, c.name)
	return pods
}

func parseLabels(selector string) map[string]string {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(selector, ",") {
		key, value, _ := strings.Cut(pair, "=")
		labels[key] = value
	}
	return labels
}

// summary says why a pod is not ready, as far as its status does.
func summary(pod *corev1.Pod) string {
	text := fmt.Sprintf("phase %s, node %q %s", pod.Status.Phase, pod.Spec.NodeName, pod.Status.Message)
	for _, condition := range pod.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			text += fmt.Sprintf("; %s: %s %s", condition.Type, condition.Reason, condition.Message)
		}
	}
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if waiting := status.State.Waiting; waiting != nil {
			text += fmt.Sprintf("; container %s: %s %s", status.Name, waiting.Reason, waiting.Message)
		}
		if ended := status.LastTerminationState.Terminated; ended != nil {
			text += fmt.Sprintf("; container %s ended: %d %s %s", status.Name, ended.ExitCode, ended.Reason, ended.Message)
		}
	}
	return text
}
