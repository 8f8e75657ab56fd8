package rig_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// startThree starts the clusters and installs Longshore in them.
func startThree(t *testing.T, names ...string) (map[string]*rig.Side, *shell) {
	t.Helper()
	planetest.NeedsControlPlane(t)
	for _, binary := range []string{server, longshorectl} {
		_, err := os.Stat(binary)
		require.NoError(t, err, "a binary is missing: run make build")
	}
	dir, ctx := t.TempDir(), t.Context()
	logs := filepath.Join(dir, "logs")
	sides, s := map[string]*rig.Side{}, &shell{kubeconfigs: map[string]string{}}
	t.Cleanup(func() {
		for _, side := range sides {
			if t.Failed() {
				printPods(t, side)
			}
			assert.NoError(t, side.Stop(context.Background()))
		}
		if t.Failed() {
			printLogs(t, logs)
		}
	})
	options := rig.StartOptions{Dir: filepath.Join(dir, "data"), LogDir: logs, Longshore: server}
	for _, name := range names {
		side, err := rig.StartSide(ctx, name, options)
		require.NoError(t, err)
		sides[name], s.kubeconfigs[name] = side, side.Plane.Kubeconfig()
		require.NoError(t, side.Install(ctx, side.Endpoint(), noticeLoss))
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, side := range sides {
		require.NoError(t, side.WaitForDeployments(waiting, rig.Namespace, quiet))
	}
	return sides, s
}

// podsOf creates a pod in a namespace for each virtual node, and waits until each runs in its
// provider.
func podsOf(t *testing.T, consumer *rig.Side, namespace, remoteNamespace string, providers ...*rig.Side) {
	t.Helper()
	for _, provider := range providers {
		p := pod("on-" + provider.Name)
		p.Namespace, p.Labels = namespace, map[string]string{"app": "web"}
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: provider.Name}
		require.NoError(t, consumer.Create(t.Context(), p))
	}
	for _, provider := range providers {
		eventually(t, "the pod of "+provider.Name+" runs there and is ready in "+consumer.Name, func(t planetest.T) bool {
			remote, local := pods(t, provider.Cluster, remoteNamespace, nil), &corev1.Pod{}
			require.NoError(t, consumer.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "on-" + provider.Name}, local))
			return len(remote) == 1 && remote[0].Name == local.Name && local.Status.Phase == corev1.PodRunning && local.Status.PodIP == remote[0].Status.PodIP
		})
	}
}

// printPods logs the pods of a cluster: one that does not end holds up a virtual node.
func printPods(t *testing.T, side *rig.Side) {
	t.Helper()
	list := &corev1.PodList{}
	if err := side.List(context.WithoutCancel(t.Context()), list); err != nil {
		t.Logf("listing the pods of %s: %v", side.Name, err) // The cluster may be one that is lost.
		return
	}
	for i := range list.Items {
		p := &list.Items[i]
		t.Logf("%s: pod %s/%s on node %q is %s, deleted %v, finalizers %v", side.Name, p.Namespace, p.Name, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp, p.Finalizers)
	}
}

// addressesOf returns the addresses in the EndpointSlices of a Service.
func addressesOf(t planetest.T, c *rig.Cluster, namespace, service string) []string {
	t.Helper()
	list := &discoveryv1.EndpointSliceList{}
	require.NoError(t, c.List(t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}))
	var addresses []string
	for i := range list.Items {
		for _, endpoint := range list.Items[i].Endpoints {
			addresses = append(addresses, endpoint.Addresses...)
		}
	}
	return addresses
}

// threeClusters is rome, which has the providers milan and turin, and is one of milan.
type threeClusters struct {
	rome, milan, turin *rig.Side
	shell              *shell
}

// TestThreeClusters peers rome with two providers, milan and turin, milan with turin, a chain,
// and milan with rome, the other direction.
func TestThreeClusters(t *testing.T) {
	t.Parallel()
	sides, s := startThree(t, "rome", "milan", "turin")
	c := &threeClusters{rome: sides["rome"], milan: sides["milan"], turin: sides["turin"], shell: s}
	defer func() { t.Log("\n" + s.transcript.String()) }()
	for _, line := range []string{
		"peer --kubeconfig @rome --remote-kubeconfig @milan", "peer --kubeconfig @rome --remote-kubeconfig @turin",
		"peer --kubeconfig @milan --remote-kubeconfig @turin", "peer --kubeconfig @milan --remote-kubeconfig @rome",
	} {
		s.ok(t, line)
	}
	// The virtual kubelets, which are real, may not land on simulated nodes.
	for _, side := range sides {
		require.NoError(t, side.SimulateNodes(t.Context(), rig.StartOptions{SimulatedNodes: 1, PodsPerNode: "100"}))
	}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a consumer with two providers", c.twoProviders},
		{"both directions", c.bothDirections},
		{"two consumers of one provider", c.twoConsumers},
		{"a chain", c.chain},
		{"leaving one provider keeps the others", c.leaveOne},
		{"a provider is lost for good", c.loseProvider},
		{"a consumer is lost for good", c.loseConsumer},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

func (c *threeClusters) offload(t *testing.T, consumer *rig.Side, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, consumer.Offload(ctx, namespace, offloadingv1beta1.RemotePodOffloadingStrategyType, quiet))
}

func (c *threeClusters) twoProviders(t *testing.T) {
	c.offload(t, c.rome, "shop")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	require.NoError(t, c.rome.Create(t.Context(), service))
	podsOf(t, c.rome, "shop", "shop-rome", c.milan, c.turin)
	var addresses []string
	for _, provider := range []*rig.Side{c.milan, c.turin} {
		addresses = append(addresses, pods(t, provider.Cluster, "shop-rome", nil)[0].Status.PodIP)
	}
	for _, provider := range []*rig.Side{c.milan, c.turin} {
		eventually(t, "each endpoint is once in "+provider.Name+": its own, and that of the other provider", func(t planetest.T) bool {
			return assert.ElementsMatch(t, addresses, addressesOf(t, provider.Cluster, "shop-rome", "web"))
		})
	}
}

func (c *threeClusters) bothDirections(t *testing.T) {
	c.offload(t, c.milan, "books")
	podsOf(t, c.milan, "books", "books-milan", c.rome)
	assert.Len(t, pods(t, c.rome.Cluster, "shop", nil), 2, "pods of the other direction stay")
}

func (c *threeClusters) chain(t *testing.T) {
	c.offload(t, c.rome, "chain")
	c.offload(t, c.milan, "chain-rome")
	sides := map[string]*rig.Side{"rome": c.rome, "turin": c.turin}
	p := pod("far")
	p.Namespace, p.Spec.NodeSelector = "chain", map[string]string{corev1.LabelHostname: "milan"}
	require.NoError(t, c.rome.Create(t.Context(), p))
	eventually(t, "the pod that milan has for rome runs in a provider of milan", func(t planetest.T) bool {
		require.NoError(t, c.rome.Get(t.Context(), client.ObjectKeyFromObject(p), p))
		remote := pods(t, c.milan.Cluster, "chain-rome", nil)
		require.Len(t, remote, 1)
		provider := sides[remote[0].Spec.NodeName]
		require.NotNil(t, provider, "node %q is a virtual node", remote[0].Spec.NodeName)
		far := pods(t, provider.Cluster, "chain-rome-milan", nil)
		return len(far) == 1 && far[0].Status.Phase == corev1.PodRunning && p.Status.Phase == corev1.PodRunning && p.Status.PodIP == far[0].Status.PodIP
	})
	require.NoError(t, c.rome.Delete(t.Context(), p))
	eventually(t, "the pod is gone in all clusters", func(t planetest.T) bool {
		left := len(pods(t, c.milan.Cluster, "chain-rome", nil))
		for _, side := range sides {
			left += len(pods(t, side.Cluster, "chain-rome-milan", nil))
		}
		return left == 0 && apierrors.IsNotFound(c.rome.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	})
}

func (c *threeClusters) leaveOne(t *testing.T) {
	before := pods(t, c.turin.Cluster, "shop-rome", nil)
	require.Len(t, before, 1)
	c.shell.ok(t, "unpeer --kubeconfig @rome --remote-kubeconfig @milan --skip-confirm")
	after := pods(t, c.turin.Cluster, "shop-rome", nil)
	require.Len(t, after, 1)
	assert.Equal(t, before[0].UID, after[0].UID)
	assert.Len(t, pods(t, c.rome.Cluster, "books-milan", nil), 1, "milan is still a consumer of rome")
	eventually(t, "rome has no problem", func(t planetest.T) bool {
		out, _, code := c.shell.run(t, "status --kubeconfig @rome", "")
		return assert.Zero(t, code, out)
	})
}
