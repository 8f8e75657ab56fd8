package testplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SimulatedLabel marks nodes that kwok manages, with the value "true". Virtual nodes
// must never carry it.
const SimulatedLabel = "longshore.dev/simulated"

const (
	kwokPort = 10247
	// simulatedNodeIP is an address for documentation: nothing answers there. Loopback
	// would be refused in EndpointSlices.
	simulatedNodeIP = "192.0.2.1"
)

// KwokOptions select the nodes that kwok simulates, and set its flags.
type KwokOptions struct {
	// NodeSelector selects the nodes by label; empty: SimulatedLabel=true.
	NodeSelector string
	// Args are added to kwok's flags and win over ours.
	Args []string
}

// StartKwok starts kwok beside the control plane, with its fast stages: selected nodes
// become ready, their pods run at once. It returns when kwok serves its health check. A
// kwok that has ended (KwokDone) is started again in the same way.
func (c *Cluster) StartKwok(ctx context.Context, options KwokOptions) error {
	setDefault(&options.NodeSelector, SimulatedLabel+"=true")
	health := net.JoinHostPort(c.options.Address, strconv.Itoa(kwokPort))
	if err := portFree(c.options.Address, kwokPort); err != nil {
		return fmt.Errorf("starting kwok of cluster %q: %w", c.Name, err)
	}
	args := append([]string{"kwok",
		"--kubeconfig=" + c.pki(kwokFile+".kubeconfig"),
		"--manage-all-nodes=false",
		"--manage-nodes-with-label-selector=" + options.NodeSelector,
		"--node-lease-duration-seconds=40",
		"--cidr=" + defaultPodCIDR, // for nodes without a CIDR of their own
		"--node-ip=" + simulatedNodeIP,
		"--server-address=" + health,
	}, options.Args...)
	p, err := start(spawn{name: "kwok " + c.Name, binary: c.options.Binary, args: args, log: c.KwokLogFile(),
		detach: c.options.Detach,
		// Else a configuration in the user's home folder would be read as well.
		env: []string{"KWOK_WORKDIR=" + c.path("kwok")}})
	if err != nil {
		return fmt.Errorf("starting kwok of cluster %q: %w", c.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = errors.Join(c.remember(p), waitFor(ctx, func(ctx context.Context) error { return healthy(ctx, "http://"+health+"/healthz") }, p))
	if err != nil {
		return errors.Join(fmt.Errorf("starting kwok of cluster %q: %w", c.Name, err), p.kill())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others = append(slices.DeleteFunc(c.others, (*process).ended), p)
	return nil
}

// KwokDone is closed when the kwok that was started last has ended, asked to or not. It
// is nil while there is none.
func (c *Cluster) KwokDone() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.others) == 0 {
		return nil
	}
	return c.others[len(c.others)-1].done
}

// KwokLogFile is the log of kwok.
func (c *Cluster) KwokLogFile() string { return c.logFile("kwok") }

// healthy asks a health check over plain HTTP.
func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("creating a request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking for health: %w", err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body) // to reuse the connection
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking for health: %s", response.Status)
	}
	return nil
}

// FakeNode is a node for kwok to play. A nil capacity is 32 CPUs, 256 GiB, 2,000 pods.
func FakeNode(name string, capacity corev1.ResourceList) *corev1.Node {
	if capacity == nil {
		capacity = corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("32"),
			corev1.ResourceMemory:           resource.MustParse("256Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
			corev1.ResourcePods:             resource.MustParse("2000"),
		}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				SimulatedLabel:         "true",
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
			},
		},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity.DeepCopy()},
	}
}
