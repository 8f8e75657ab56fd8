// Package feedserver runs the feed of a provider behind the aggregator of its API server, for tests
// against real control planes.
package feedserver

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	wire "github.com/longshore-dev/longshore/host/kit/feed"
	"github.com/longshore-dev/longshore/host/kit/restore"
	"github.com/longshore-dev/longshore/host/peering/authentication"
	"github.com/longshore-dev/longshore/host/provider/feed"
)

const (
	name = "longshore-feed"
	// callers is the role of consumers that may use the feed. The chart adds its rule to that of
	// wire 6.5.
	callers   = "longshore-feed-callers"
	namespace = "default"
	// port is the feed's port on the address of the cluster.
	port = 9443

	soon = 2 * time.Minute
	tick = 25 * time.Millisecond
)

// Server is a feed that runs until the test ends.
type Server struct {
	// Address is where the feed listens, behind the API server.
	Address string

	admin client.Client
	stop  func()
	open  atomic.Int64
}

// Watches returns the number of open watches of the feed.
func (s *Server) Watches() int { return int(s.open.Load()) }

// Start starts the feed of a cluster for the consumers with the groups, and waits until the API
// server has it.
func Start(tb testing.TB, c *testplane.Cluster, groups ...string) *Server {
	tb.Helper()
	admin, err := client.New(c.RESTConfig(), client.Options{})
	require.NoError(tb, err)
	create(tb, admin, rights(groups)...)
	config := rest.AnonymousClientConfig(c.RESTConfig())
	config.CertData, config.KeyData, err = c.IssueClientCert(name, nil)
	require.NoError(tb, err)
	s := &Server{Address: net.JoinHostPort(c.Address(), strconv.Itoa(port)), admin: admin}
	consumers := feed.NewRights()
	handler, err := feed.New(config, consumers)
	require.NoError(tb, err)
	bindings, err := cache.New(config, cache.Options{NewInformer: restore.NewInformer, ByObject: map[client.Object]cache.ByObject{
		&rbacv1.ClusterRole{}: {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, authentication.NamespaceRole)},
	}})
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	require.NoError(tb, consumers.Watch(ctx, bindings))
	var group sync.WaitGroup
	group.Go(func() { assert.NoError(tb, bindings.Start(ctx)) })
	group.Go(func() { assert.NoError(tb, handler.Start(ctx)) })
	require.True(tb, bindings.WaitForCacheSync(ctx))
	cert, key, err := c.IssueServingCert(name, nil, c.Address(), name+"."+namespace+".svc")
	require.NoError(tb, err)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(tb, err)
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			s.open.Add(1)
			defer s.open.Add(-1)
		}
		handler.ServeHTTP(w, r)
	})
	server := webhook.NewServer(webhook.Options{
		Host: c.Address(), Port: port,
		TLSOpts: []func(*tls.Config){func(config *tls.Config) {
			config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
			config.ClientAuth = tls.RequestClientCert
		}},
	})
	server.Register(wire.Path, counted)
	server.Register(wire.Path+"/", counted)
	group.Go(func() { assert.NoError(tb, server.Start(ctx)) })
	s.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	tb.Cleanup(s.stop)
	s.register(tb, c)
	return s
}

// register creates the APIService and waits until the API server passes requests on.
func (s *Server) register(tb testing.TB, c *testplane.Cluster) {
	tb.Helper()
	create(tb, s.admin, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: c.Address()},
	}, apiService(map[string]any{
		"group": wire.Group, "version": wire.Version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(1),
		"service": map[string]any{"namespace": namespace, "name": name, "port": int64(port)},
	}))
	// The chart creates it without a CA bundle, which the webhook adds.
	bundle := []byte(`{"spec":{"caBundle":"` + base64.StdEncoding.EncodeToString(c.CAPEM()) + `"}}`)
	require.NoError(tb, s.admin.Patch(tb.Context(), apiService(nil), client.RawPatch(types.MergePatchType, bundle)))
	clients, err := kubernetes.NewForConfig(c.RESTConfig())
	require.NoError(tb, err)
	planetest.Until(tb, func(t planetest.T) bool {
		return clients.RESTClient().Get().AbsPath(wire.Path).Do(t.Context()).Error() == nil
	}, soon, tick, "the API server has the feed")
}

// Stop stops the feed, whose watches end.
func (s *Server) Stop() { s.stop() }

// Unregister deletes the APIService.
func (s *Server) Unregister(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, s.admin.Delete(tb.Context(), apiService(nil)))
}

func apiService(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": wire.Version + "." + wire.Group}, "spec": spec,
	}}
}

// rights are those of the feed, and of the consumers' groups to use it.
func rights(groups []string) []client.Object {
	role := func(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	}
	user := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
	objects := []client.Object{
		role(name,
			rbacv1.PolicyRule{APIGroups: []string{"", "networking.k8s.io", "offloading.liqo.io"}, Resources: wire.Resources(), Verbs: []string{"watch"}},
			rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"list", "watch"}},
			rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{authentication.NamespaceRole}, Verbs: []string{"list", "watch"}},
		),
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: user,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"}, Subjects: user,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader"},
		},
		role(callers, rbacv1.PolicyRule{APIGroups: []string{wire.Group}, Resources: wire.Resources(), Verbs: []string{"watch"}}),
	}
	for _, group := range groups {
		objects = append(objects, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "consumer-" + group},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: callers},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
		})
	}
	return objects
}

func create(tb testing.TB, c client.Client, objects ...client.Object) {
	tb.Helper()
	for _, object := range objects {
		require.NoError(tb, c.Create(tb.Context(), object), object.GetName())
	}
	planetest.AwaitRights(tb, c, objects...)
}
