// Package admin works on a cluster with the rights of its administrator: it reads the ID of
// the cluster, writes objects, and waits for what controllers make of them. Its steps and
// flags are those of every command that changes a cluster.
package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// requestTimeout bounds each request, also to a server that accepts connections and does not
// answer.
const requestTimeout = 30 * time.Second

// Cluster is a cluster that its administrator works on.
type Cluster struct {
	client.Client
	// ID of the cluster; empty if it was not read.
	ID liqocorev1beta1.ClusterID
	// Host is the URL of its API server.
	Host string
	// CA is the PEM bundle of its API server; empty for the system's.
	CA []byte
	// Namespace is Longshore's own there.
	Namespace string
	// Role in messages: "consumer", "provider" or "cluster".
	Role string
	// config of the client; nil for one that is not made of a kubeconfig.
	config *rest.Config
}

// Connect reaches a cluster and reads its ID.
func Connect(ctx context.Context, role string, config *rest.Config, namespace string) (*Cluster, error) {
	c, err := Open(role, config, namespace)
	if err != nil {
		return nil, err
	}
	return c, c.ReadID(ctx)
}

// Open returns a client of a cluster. Its ID is not read.
func Open(role string, config *rest.Config, namespace string) (*Cluster, error) {
	if errTypes != nil {
		return nil, fmt.Errorf("registering types: %w", errTypes)
	}
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	config.Timeout = requestTimeout
	c, err := client.New(config, client.Options{Scheme: types})
	if err != nil {
		return nil, fmt.Errorf("connecting to the %s: %w", role, err)
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("reading the certificates of the kubeconfig of the %s: %w", role, err)
	}
	return &Cluster{Client: c, Host: config.Host, CA: config.CAData, Namespace: namespace, Role: role, config: config}, nil
}

// ReadID sets the ID of the cluster.
func (c *Cluster) ReadID(ctx context.Context) error {
	list := &corev1.ConfigMapList{}
	if err := c.List(ctx, list, client.InNamespace(c.Namespace), client.MatchingLabels{"app.kubernetes.io/name": liqocorev1beta1.ClusterIDConfigMapLabelValue}); err != nil {
		return c.explain(err)
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("namespace %q of the %s (%s) has %d ConfigMaps with the cluster ID, want 1: is Longshore installed in this namespace",
			c.Namespace, c.Role, c.Host, len(list.Items))
	}
	id := liqocorev1beta1.ClusterID(list.Items[0].Data[liqocorev1beta1.ClusterIDConfigMapKey])
	if err := id.Validate(); err != nil {
		return fmt.Errorf("reading the cluster ID of the %s (%s): %w", c.Role, c.Host, err)
	}
	c.ID = id
	return nil
}

// explain says what the user can do about an error of the first request.
func (c *Cluster) explain(err error) error {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the %s at %s refuses the credentials of the kubeconfig: log in again, or renew them: %w", c.Role, c.Host, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the user of the kubeconfig has no right to read the cluster ID of the %s (%s): %w", c.Role, c.Host, err)
	case !errors.As(err, &status):
		return fmt.Errorf("the %s at %s does not answer: %w", c.Role, c.Host, err)
	default:
		return fmt.Errorf("reading the cluster ID of the %s (%s): %w", c.Role, c.Host, err)
	}
}

// EnsureTenantNamespace returns the name of the namespace kept for a peer: the one with its
// labels, or a new one under the default name.
func (c *Cluster) EnsureTenantNamespace(ctx context.Context, peer liqocorev1beta1.ClusterID) (string, error) {
	name, err := c.FindTenantNamespace(ctx, peer)
	if err != nil || name != "" {
		return name, err
	}
	if err := peer.ValidateNew(); err != nil {
		return "", fmt.Errorf("peering the %s with cluster %q: %w", c.Role, peer, err)
	}
	namespace := authentication.TenantNamespace(peer)
	if err := c.Create(ctx, namespace); err != nil {
		return "", fmt.Errorf("creating the tenant namespace of cluster %q in the %s: %w", peer, c.Role, err)
	}
	return namespace.Name, nil
}

// FindTenantNamespace returns the name of the namespace kept for a peer, or "".
func (c *Cluster) FindTenantNamespace(ctx context.Context, peer liqocorev1beta1.ClusterID) (string, error) {
	list := &corev1.NamespaceList{}
	err := c.List(ctx, list, client.MatchingLabels{liqocorev1beta1.RemoteClusterIDLabel: string(peer)}, client.HasLabels{liqocorev1beta1.TenantNamespaceLabel})
	if apierrors.IsForbidden(err) {
		return c.defaultTenantNamespace(ctx, peer)
	}
	if err != nil {
		return "", fmt.Errorf("listing the tenant namespaces of the %s: %w", c.Role, err)
	}
	switch len(list.Items) {
	case 0:
		return "", nil
	case 1:
		return list.Items[0].Name, nil
	default:
		return "", fmt.Errorf("the %s has %d tenant namespaces for cluster %q, want 1: delete the others", c.Role, len(list.Items), peer)
	}
}

// defaultTenantNamespace returns the default name if the namespace is that of a peer, or "". A
// peering user may not list namespaces.
func (c *Cluster) defaultTenantNamespace(ctx context.Context, peer liqocorev1beta1.ClusterID) (string, error) {
	namespace := &corev1.Namespace{}
	err := c.Get(ctx, client.ObjectKey{Name: authentication.TenantNamespace(peer).Name}, namespace)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the tenant namespace of cluster %q in the %s: %w", peer, c.Role, err)
	case authentication.TenantNamespaceProblem(namespace, peer) != "":
		return "", errors.New(authentication.TenantNamespaceProblem(namespace, peer))
	default:
		return namespace.Name, nil
	}
}

// RequireTenantNamespace returns the name of the namespace kept for a peer. It is an error when
// there is none.
func (c *Cluster) RequireTenantNamespace(ctx context.Context, peer liqocorev1beta1.ClusterID) (string, error) {
	name, err := c.FindTenantNamespace(ctx, peer)
	if err == nil && name == "" {
		err = fmt.Errorf("the cluster at %s has no tenant namespace for cluster %q: is it the right cluster, and is it peered (longshorectl peer)", c.Host, peer)
	}
	return name, err
}

// Write creates an object, or changes the one that exists.
func (c *Cluster) Write(ctx context.Context, object client.Object, change func() error) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		_, err := controllerutil.CreateOrUpdate(ctx, c.Client, object, change)
		return err //nolint:wrapcheck // Wrapped below.
	})
	if err != nil {
		return fmt.Errorf("writing %s in the %s: %w", Describe(object), c.Role, err)
	}
	return nil
}

// SetLabels adds the labels of an object that is wanted.
func SetLabels(object, want client.Object) {
	labels := maps.Clone(object.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, want.GetLabels())
	object.SetLabels(labels)
}

// types are the kinds that the commands work on.
var types, errTypes = scheme.New()

// Describe returns the kind, the namespace and the name of an object.
func Describe(object client.Object) string {
	kind := "object"
	if known, _, err := types.ObjectKinds(object); err == nil && len(known) > 0 {
		kind = known[0].Kind
	}
	if object.GetNamespace() == "" {
		return kind + " " + object.GetName()
	}
	return kind + " " + object.GetNamespace() + "/" + object.GetName()
}
