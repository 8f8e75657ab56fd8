// Package rig installs Longshore on running clusters, peers them by hand, offloads an
// application and looks at the outcome. The demo, the end-to-end test and the benchmark
// are built on it; it needs nothing but the administrator's credentials.
package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/app/scheme"
)

const (
	// fieldManager owns what the rig applies.
	fieldManager = "longshore-demo"
	poll         = 50 * time.Millisecond
)

// Cluster is a running cluster, reached as its administrator.
type Cluster struct {
	Name   string
	Config *rest.Config
	client.Client
}

// Connect reads a kubeconfig file.
func Connect(name, kubeconfig string) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %q: %w", name, err)
	}
	return New(name, config)
}

// New wraps a client configuration.
func New(name string, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	s, err := scheme.New()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("connecting to cluster %q: %w", name, err)
	}
	return &Cluster{Name: name, Config: config, Client: c}, nil
}

// Apply applies objects in their order by server-side apply. An object whose kind was
// applied just before waits until the API server serves it.
func (c *Cluster) Apply(ctx context.Context, objects ...client.Object) error {
	for _, obj := range objects {
		u, err := toUnstructured(obj)
		if err != nil {
			return err
		}
		err = c.eventually(ctx, func(ctx context.Context) (bool, error) {
			applied := u.DeepCopy()
			err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(fieldManager), client.ForceOwnership)
			if unserved(err) {
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			return fmt.Errorf("applying %s %s in cluster %q: %w", u.GetKind(), client.ObjectKeyFromObject(u), c.Name, err)
		}
	}
	return nil
}

// unserved reports whether the API server may accept the same request later.
func unserved(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
}

func toUnstructured(obj client.Object) (*unstructured.Unstructured, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.DeepCopy(), nil
	}
	encoded, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(encoded, &u.Object); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", obj, err)
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "status")
	return u, nil
}

// eventually polls until ask returns true or an error, or the context ends.
func (c *Cluster) eventually(ctx context.Context, ask func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextCancel(ctx, poll, true, ask)
	if wait.Interrupted(err) && ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return err
}
