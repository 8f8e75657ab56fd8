package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const (
	// clusterIDName is the value of app.kubernetes.io/name on the ConfigMap with the cluster
	// ID, and clusterIDKey its key (wire P2.1).
	clusterIDName = "clusterid-configmap"
	clusterIDKey  = "CLUSTER_ID"

	poll = 200 * time.Millisecond
)

// Side is one of the two clusters, reached as its administrator.
type Side struct {
	client.Client
	// ID of the cluster.
	ID liqocorev1beta1.ClusterID
	// Host is the URL of its API server.
	Host string
	// Namespace is Longshore's own there.
	Namespace string
	// Role in messages: "consumer" or "provider".
	Role string
}

// Connect reaches a cluster and reads its ID.
func Connect(ctx context.Context, role string, config *rest.Config, namespace string) (*Side, error) {
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), authv1beta1.AddToScheme(s), liqocorev1beta1.AddToScheme(s), offloadingv1beta1.AddToScheme(s)); err != nil {
		return nil, fmt.Errorf("registering types: %w", err)
	}
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("connecting to the %s: %w", role, err)
	}
	side := &Side{Client: c, Host: config.Host, Namespace: namespace, Role: role}
	if side.ID, err = side.readID(ctx); err != nil {
		return nil, err
	}
	return side, nil
}

func (s *Side) readID(ctx context.Context) (liqocorev1beta1.ClusterID, error) {
	list := &corev1.ConfigMapList{}
	if err := s.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{"app.kubernetes.io/name": clusterIDName}); err != nil {
		return "", fmt.Errorf("reading the cluster ID of the %s (%s): %w", s.Role, s.Host, err)
	}
	if len(list.Items) != 1 {
		return "", fmt.Errorf("namespace %q of the %s (%s) has %d ConfigMaps with the cluster ID, want 1: is Longshore installed in this namespace",
			s.Namespace, s.Role, s.Host, len(list.Items))
	}
	id := liqocorev1beta1.ClusterID(list.Items[0].Data[clusterIDKey])
	if err := id.Validate(); err != nil {
		return "", fmt.Errorf("reading the cluster ID of the %s (%s): %w", s.Role, s.Host, err)
	}
	return id, nil
}

// tenantNamespace returns the name of the namespace kept for a peer: the one with its labels,
// or a new one under the default name.
func (s *Side) tenantNamespace(ctx context.Context, peer liqocorev1beta1.ClusterID) (string, error) {
	name, err := s.findTenantNamespace(ctx, peer)
	if err != nil || name != "" {
		return name, err
	}
	namespace := authentication.TenantNamespace(peer)
	if err := s.Create(ctx, namespace); err != nil {
		return "", fmt.Errorf("creating the tenant namespace of cluster %q in the %s: %w", peer, s.Role, err)
	}
	return namespace.Name, nil
}

// findTenantNamespace returns the name of the namespace kept for a peer, or "".
func (s *Side) findTenantNamespace(ctx context.Context, peer liqocorev1beta1.ClusterID) (string, error) {
	list := &corev1.NamespaceList{}
	if err := s.List(ctx, list, client.MatchingLabels{liqocorev1beta1.RemoteClusterIDLabel: string(peer)}, client.HasLabels{liqocorev1beta1.TenantNamespaceLabel}); err != nil {
		return "", fmt.Errorf("listing the tenant namespaces of the %s: %w", s.Role, err)
	}
	switch len(list.Items) {
	case 0:
		return "", nil
	case 1:
		return list.Items[0].Name, nil
	default:
		return "", fmt.Errorf("the %s has %d tenant namespaces for cluster %q, want 1: delete the others", s.Role, len(list.Items), peer)
	}
}

// write creates an object, or changes the one that exists.
func (s *Side) write(ctx context.Context, object client.Object, change func() error) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		_, err := controllerutil.CreateOrUpdate(ctx, s.Client, object, change)
		return err //nolint:wrapcheck // Wrapped below.
	})
	if err != nil {
		return fmt.Errorf("writing %T %s in the %s: %w", object, client.ObjectKeyFromObject(object), s.Role, err)
	}
	return nil
}

// Waiting reports what a step waits for, as a phrase.
type Waiting func(string)

// until reads an object until it is as wanted. The condition returns what is missing, or "".
func (s *Side) until(ctx context.Context, object client.Object, waiting Waiting, condition func() string) error {
	missing := "it to exist"
	for {
		err := s.Get(ctx, client.ObjectKeyFromObject(object), object)
		switch {
		case err == nil:
			if missing = condition(); missing == "" {
				return nil
			}
		case meta.IsNoMatchError(err) || !apierrors.IsNotFound(err) && ctx.Err() == nil && !isTransient(err):
			return fmt.Errorf("reading %s in the %s: %w", describe(object), s.Role, err)
		}
		waiting(fmt.Sprintf("waiting for %s in the %s: %s", describe(object), s.Role, missing))
		if !pause(ctx) {
			return fmt.Errorf("waiting for %s in the %s (%s): %w", describe(object), s.Role, missing, context.Cause(ctx))
		}
	}
}

// untilGone reads an object until it does not exist. remains says why it still does.
func (s *Side) untilGone(ctx context.Context, object client.Object, waiting Waiting) error {
	for {
		err := s.Get(ctx, client.ObjectKeyFromObject(object), object)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil && ctx.Err() == nil && !isTransient(err):
			return fmt.Errorf("reading %s in the %s: %w", describe(object), s.Role, err)
		}
		waiting(fmt.Sprintf("waiting for %s to be gone from the %s; finalizers: %v", describe(object), s.Role, object.GetFinalizers()))
		if !pause(ctx) {
			return fmt.Errorf("waiting for %s to be gone from the %s (finalizers %v): %w", describe(object), s.Role, object.GetFinalizers(), context.Cause(ctx))
		}
	}
}

func isTransient(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}

func describe(object client.Object) string {
	kind := "object"
	switch object.(type) {
	case *corev1.Secret:
		kind = "Secret"
	case *corev1.Namespace:
		kind = "namespace"
	case *corev1.Node:
		kind = "node"
	case *authv1beta1.Tenant:
		kind = "Tenant"
	case *authv1beta1.Identity:
		kind = "Identity"
	case *authv1beta1.ResourceSlice:
		kind = "ResourceSlice"
	case *offloadingv1beta1.VirtualNode:
		kind = "VirtualNode"
	}
	if object.GetNamespace() == "" {
		return kind + " " + object.GetName()
	}
	return kind + " " + object.GetNamespace() + "/" + object.GetName()
}

func pause(ctx context.Context) bool {
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
