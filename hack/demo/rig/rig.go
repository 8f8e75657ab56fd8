package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/peer"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	"github.com/longshore-dev/longshore/hack/demo/chart"
)

// Connection is what a process needs to work on running clusters: the administrators'
// kubeconfigs.
type Connection struct {
	Rome, Milan Endpoint
}

// Endpoint is one cluster.
type Endpoint struct {
	Name       string
	Kubeconfig string
	// WebhookIP is the address of the webhook's Service, which the process node serves.
	WebhookIP string
	// Policies is the folder with the compiled built-in policies, which the image has, too.
	Policies string
}

// Save writes the connection to a file that only its owner reads: it holds keys.
func (c *Connection) Save(path string) error {
	content, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding the connection: %w", err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing the connection: %w", err)
	}
	return nil
}

// LoadConnection reads what Save wrote.
func LoadConnection(path string) (*Connection, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the connection: %w", err)
	}
	c := &Connection{}
	if err := json.Unmarshal(content, c); err != nil {
		return nil, fmt.Errorf("reading the connection: %w", err)
	}
	return c, nil
}

// WriteKubeconfigs copies the administrators' kubeconfigs to where people look for them.
func (c *Connection) WriteKubeconfigs(dir string) (map[string]string, error) {
	paths := map[string]string{}
	for _, endpoint := range []Endpoint{c.Rome, c.Milan} {
		content, err := os.ReadFile(endpoint.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("reading the kubeconfig of %q: %w", endpoint.Name, err)
		}
		path := filepath.Join(dir, endpoint.Name+".kubeconfig")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("writing the kubeconfig of %q: %w", endpoint.Name, err)
		}
		paths[endpoint.Name] = path
	}
	return paths, nil
}

// Rig works on both clusters.
type Rig struct {
	Rome, Milan *Cluster
	connection  *Connection
}

// Open connects to both clusters.
func Open(connection *Connection) (*Rig, error) {
	rome, err := Connect(connection.Rome.Name, connection.Rome.Kubeconfig)
	if err != nil {
		return nil, err
	}
	milan, err := Connect(connection.Milan.Name, connection.Milan.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return &Rig{Rome: rome, Milan: milan, connection: connection}, nil
}

// WriteKubeconfigs copies the administrators' kubeconfigs to where people look for them.
func (r *Rig) WriteKubeconfigs(dir string) (map[string]string, error) {
	return r.connection.WriteKubeconfigs(dir)
}

// Values are the chart's values for a cluster whose pods are processes on loopback.
func (e Endpoint) Values() map[string]any {
	policies := []any{"--precompiled-policy-dir=" + e.Policies}
	placed := func() map[string]any {
		return map[string]any{
			"nodeSelector": map[string]any{ProcessNodeLabel: "true"},
			"tolerations":  []any{map[string]any{"key": ProcessNodeLabel, "operator": "Exists"}},
		}
	}
	webhook := placed()
	webhook["service"] = map[string]any{"type": "ExternalName", "externalName": e.WebhookIP}
	// The Service leads to one address.
	webhook["replicas"] = 1
	manager := placed()
	manager["extraArgs"], webhook["extraArgs"] = policies, policies
	return map[string]any{
		"clusterID": e.Name, "bindPodIP": true,
		"manager": manager, "webhook": webhook,
		"virtualKubelet": map[string]any{"tolerations": placed()["tolerations"]},
		"uninstall":      placed(),
	}
}

// Values are the chart's values for both clusters, by name, as [Rig.Install] has them.
func (r *Rig) Values() map[string]map[string]any {
	return map[string]map[string]any{
		r.Rome.Name: r.Rome.values(r.connection.Rome), r.Milan.Name: r.Milan.values(r.connection.Milan),
	}
}

func (c *Cluster) values(endpoint Endpoint) map[string]any {
	values := endpoint.Values()
	values["apiServer"] = map[string]any{"address": c.Config.Host}
	return values
}

// Install renders the chart for both clusters and applies it. Change may alter the
// values of a cluster, by name, before; it may be nil.
func (r *Rig) Install(ctx context.Context, change func(cluster string, values map[string]any)) error {
	for cluster, endpoint := range map[*Cluster]Endpoint{r.Rome: r.connection.Rome, r.Milan: r.connection.Milan} {
		if err := cluster.Install(ctx, endpoint, change); err != nil {
			return err
		}
	}
	return nil
}

// Install renders the chart for a cluster and applies it, as [Rig.Install] does.
func (c *Cluster) Install(ctx context.Context, endpoint Endpoint, change func(cluster string, values map[string]any)) error {
	values := c.values(endpoint)
	if change != nil {
		change(c.Name, values)
	}
	objects, err := chart.Render(values, chart.Options{Namespace: Namespace})
	if err != nil {
		return fmt.Errorf("rendering the chart for cluster %q: %w", c.Name, err)
	}
	apply := []client.Object{namespace(Namespace)}
	for _, obj := range objects {
		apply = append(apply, obj)
	}
	return c.Apply(ctx, apply...)
}

// Peer gives rome its credentials for milan, with the code of longshorectl peer.
func (r *Rig) Peer(ctx context.Context, progress Progress) error {
	pair, err := r.pair(ctx)
	if err != nil {
		return err
	}
	return runSteps(ctx, pair.AuthenticateSteps(), progress)
}

// CreateVirtualNode asks milan for resources, and waits until their virtual node is ready.
func (r *Rig) CreateVirtualNode(ctx context.Context, capacity corev1.ResourceList, progress Progress) error {
	return r.CreateNamedVirtualNode(ctx, Node, capacity, progress)
}

// CreateNamedVirtualNode is CreateVirtualNode for a virtual node of another name.
func (r *Rig) CreateNamedVirtualNode(ctx context.Context, name string, capacity corev1.ResourceList, progress Progress) error {
	pair, err := r.pair(ctx)
	if err != nil {
		return err
	}
	if err := pair.FindTenantNamespaces(ctx); err != nil {
		return fmt.Errorf("finding the tenant namespaces: %w", err)
	}
	return runSteps(ctx, pair.SliceSteps(resourceslice.Request{Name: name, Resources: capacity, VirtualNode: true}), progress)
}

func (r *Rig) pair(ctx context.Context) (*peer.Pair, error) {
	consumer, err := admin.Connect(ctx, "consumer", r.Rome.Config, Namespace)
	if err != nil {
		return nil, fmt.Errorf("peering: %w", err)
	}
	provider, err := admin.Connect(ctx, "provider", r.Milan.Config, Namespace)
	if err != nil {
		return nil, fmt.Errorf("peering: %w", err)
	}
	return &peer.Pair{Consumer: consumer, Provider: provider}, nil
}

func runSteps(ctx context.Context, steps []admin.Step, progress Progress) error {
	for _, step := range steps {
		progress(step.Title)
		if err := step.Run(ctx, admin.Waiting(progress)); err != nil {
			return fmt.Errorf("%s: %w", step.Title, err)
		}
	}
	return nil
}

func namespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}
