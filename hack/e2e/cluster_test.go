package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
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
	"github.com/longshore-dev/longshore/hack/e2e/clusters"
	"github.com/longshore-dev/longshore/hack/e2e/node"
	"github.com/longshore-dev/longshore/host/app/scheme"
)

const (
	consumerID = clusters.Consumer
	providerID = clusters.Provider

	// signingDuration is how long certificates are valid that a cluster has signed for Longshore.
	signingDuration = 4 * time.Minute

	soon = 2 * time.Minute
	poll = 100 * time.Millisecond
)

// cluster is a cluster of one real node.
type cluster struct {
	client.WithWatch

	name string
	node *node.Node
	kube *kubernetes.Clientset
	rest *rest.Config
	// cgroup1 says that the containers have cgroups of version 1.
	cgroup1 bool
}

func startCluster(ctx context.Context, folder, name string) (*cluster, error) {
	config, err := files.Config(folder, name)
	if err != nil {
		return nil, err
	}
	config.ManagerArgs = []string{
		// Certificates are renewed all the time. A signer sets their beginning five minutes back.
		"--cluster-signing-duration=" + signingDuration.String(),
		"--horizontal-pod-autoscaler-sync-period=5s",
	}
	n, err := node.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	c := &cluster{name: name, node: n}
	if c.cgroup1, err = node.UsesCgroup1(); err != nil {
		return nil, err
	}
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
	return files.Kubectl(ctx, c.node.Kubeconfig(), args...)
}

// kubectl returns the output of kubectl, which must succeed.
func (c *cluster) kubectl(t planetest.T, args ...string) string {
	t.Helper()
	return execute(t, c.kubectlCommand(t.Context(), args...))
}

// execute returns the standard output of a command that must succeed.
func execute(t planetest.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := clusters.Output(cmd)
	require.NoError(t, err)
	return out
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
