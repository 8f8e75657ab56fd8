// Package cluster connects longshorectl to a cluster, with the flags and the kubeconfig
// files of kubectl. It is read-only.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// Flags select a cluster, as those of kubectl do.
type Flags struct {
	// Kubeconfig file; kubectl's, from KUBECONFIG or the home folder, when empty.
	Kubeconfig string
	// Context in it; the current one when empty.
	Context string
	// Namespace; the context's when empty.
	Namespace string
	// Cluster and User in the file; those of the context when empty.
	Cluster, User string
	// Verbose prints each request on the standard error.
	Verbose bool

	// prefix of the names of the flags.
	prefix string
}

// AddTo adds --kubeconfig and --context.
func (f *Flags) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster; kubectl's when absent")
	flags.StringVar(&f.Context, "context", "", "context in the kubeconfig; the current one when absent")
}

// AddAllTo adds these, --cluster, --user and --verbose.
func (f *Flags) AddAllTo(flags *pflag.FlagSet) {
	f.AddTo(flags)
	flags.StringVar(&f.Cluster, "cluster", "", "cluster in the kubeconfig; that of the context when absent")
	flags.StringVar(&f.User, "user", "", "user in the kubeconfig; that of the context when absent")
	flags.BoolVarP(&f.Verbose, "verbose", "v", false, "print the requests to API servers on the standard error")
}

// AddRemoteTo adds the same with the prefix remote-, for commands on two clusters. The requests to
// both are printed, or none.
func (f *Flags) AddRemoteTo(flags *pflag.FlagSet) {
	f.prefix = "remote-"
	flags.StringVar(&f.Kubeconfig, "remote-kubeconfig", "", "kubeconfig file of the remote cluster; that of the local cluster when absent")
	flags.StringVar(&f.Context, "remote-context", "", "context of the remote cluster")
	flags.StringVar(&f.Cluster, "remote-cluster", "", "cluster of the remote cluster in its kubeconfig; that of the context when absent")
	flags.StringVar(&f.User, "remote-user", "", "user of the remote cluster in its kubeconfig; that of the context when absent")
}

// AddNamespaceTo adds --namespace.
func (f *Flags) AddNamespaceTo(flags *pflag.FlagSet) {
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "namespace; that of the context when absent")
}

// Exists reports whether flags or KUBECONFIG name a kubeconfig, or kubectl's exists in the home folder.
func (f *Flags) Exists() bool {
	if f.Kubeconfig != "" || f.Context != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return true
	}
	_, err := os.Stat(clientcmd.RecommendedHomeFile)
	return err == nil
}

// Cluster reads objects of a cluster.
type Cluster struct {
	// Namespace is the default namespace.
	Namespace string

	config  *rest.Config
	objects dynamic.Interface
}

// Connect reads the kubeconfig; no request is sent yet.
func (f *Flags) Connect() (*Cluster, error) {
	config, namespace, err := f.Config()
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return &Cluster{Namespace: namespace, config: config, objects: objects}, nil
}

// Config returns the client configuration of the cluster, and the namespace to use when a
// command names none. A context that does not exist is an error of the command line; a
// kubeconfig that is missing or invalid is not.
func (f *Flags) Config() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.Context}
	overrides.Context.Namespace, overrides.Context.Cluster, overrides.Context.AuthInfo = f.Namespace, f.Cluster, f.User
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	raw, err := loaded.RawConfig()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig (set --%skubeconfig or KUBECONFIG): %w", f.prefix, err)
	}
	// The loader reports a missing context like an invalid file, and takes a missing user for none.
	if err := f.checkContext(&raw); err != nil {
		return nil, "", err
	}
	config, err := loaded.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("no kubeconfig names a cluster: set --%skubeconfig or KUBECONFIG", f.prefix)
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", f.file(), err)
	}
	if err := checkCredentials(config, time.Now()); err != nil {
		return nil, "", fmt.Errorf("%s: %w", f.file(), err)
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	types, err := scheme.New()
	if err != nil {
		return nil, "", err
	}
	// The other cluster may be hostile, and the commands do not know which of two it is.
	if config, err = remotecluster.Guard(config, remotecluster.Limits{Values: remotecluster.AnyNumber, Types: types}); err != nil {
		return nil, "", fmt.Errorf("%s: %w", f.file(), err)
	}
	if f.Verbose {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &printer{next: next, out: os.Stderr} })
	}
	return config, namespace, nil
}

// Config returns the client configuration.
func (c *Cluster) Config() *rest.Config { return c.config }

// Get reads an object into a typed one; the namespace is empty for kinds that have none.
func (c *Cluster) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, into any) error {
	object, err := c.of(resource, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return c.explain(err, resource, namespace, name)
	}
	return decode(object, into)
}

// List reads the objects of all namespaces and calls each for every one.
func List[T any](ctx context.Context, c *Cluster, resource schema.GroupVersionResource, each func(*T)) error {
	return Select(ctx, c, resource, "", metav1.ListOptions{}, each)
}

// Select reads the objects of a namespace, or of all when it is empty, that options select, and calls
// each for every one.
func Select[T any](ctx context.Context, c *Cluster, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions, each func(*T)) error {
	list, err := c.of(resource, namespace).List(ctx, options)
	if err != nil {
		return c.explain(err, resource, namespace, "")
	}
	for i := range list.Items {
		var typed T
		if err := decode(&list.Items[i], &typed); err != nil {
			return err
		}
		each(&typed)
	}
	return nil
}

// Metadata reads the metadata of an object only, so that the data of Secrets is never
// transferred.
func (c *Cluster) Metadata(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	object, err := client.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, c.explain(err, resource, namespace, name)
	}
	return object, nil
}

func (c *Cluster) of(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.objects.Resource(resource)
	}
	return c.objects.Resource(resource).Namespace(namespace)
}

func decode(object *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return fmt.Errorf("reading %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// AbsentError is returned for an object that does not exist, of a kind that the server
// serves.
type AbsentError struct{ what, host string }

// Error implements error.
func (e *AbsentError) Error() string { return e.what + " does not exist at " + e.host }

// explain adds what the user can do to an error of the API server.
func (c *Cluster) explain(err error, resource schema.GroupVersionResource, namespace, name string) error {
	what := resource.Resource
	if name != "" {
		what += "/" + name
	}
	if namespace != "" {
		what += " in namespace " + namespace
	}
	var status apierrors.APIStatus
	fromServer := errors.As(err, &status)
	switch {
	case apierrors.IsNotFound(err) && (status.Status().Details == nil || status.Status().Details.Name == ""):
		return fmt.Errorf("reading %s: %s does not know this kind: is Longshore installed there, and is this the right cluster: %w", what, c.config.Host, err)
	case apierrors.IsNotFound(err):
		return &AbsentError{what: what, host: c.config.Host}
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return fmt.Errorf("reading %s: an administrator of %s must allow it: %w", what, c.config.Host, err)
	case !fromServer:
		return fmt.Errorf("reading %s: %s did not answer: %w", what, c.config.Host, err)
	default:
		return fmt.Errorf("reading %s from %s: %w", what, c.config.Host, err)
	}
}
