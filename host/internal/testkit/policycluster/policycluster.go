// Package policycluster starts an API server with the CRDs of policies, for tests of components
// that call policies.
package policycluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// Namespace is Longshore's own namespace, which has the modules.
const Namespace = "longshore"

// Cluster is a running API server.
type Cluster struct {
	// API reaches it without a limit of requests.
	API *rest.Config
	// Kubeconfig is the path of a file that reaches it.
	Kubeconfig string
	// Admin has all rights. Its scheme has the kinds of policies, CRDs and Kubernetes.
	Admin client.Client
}

// Start starts an API server with the CRDs and the namespace. It runs until the test ends.
func Start(tb testing.TB) *Cluster {
	tb.Helper()
	plane := planetest.ForTest(tb, "rome")
	c := &Cluster{API: rest.CopyConfig(plane.RESTConfig()), Kubeconfig: plane.Kubeconfig()}
	c.API.QPS = -1
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, policyv1alpha1.AddToScheme} {
		require.NoError(tb, add(kinds))
	}
	var err error
	c.Admin, err = client.New(c.API, client.Options{Scheme: kinds})
	require.NoError(tb, err)
	require.NoError(tb, c.Admin.Create(tb.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}))
	return c
}

// Options returns options for the manager of a component. Several managers may run in one
// process.
func (c *Cluster) Options() ctrl.Options {
	skip := true
	return ctrl.Options{
		Scheme: c.Admin.Scheme(), Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: &skip},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{Namespace: {}}},
		}},
	}
}
