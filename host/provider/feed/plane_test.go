package feed_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/internal/testkit/feedserver"
	wire "github.com/longshore-dev/longshore/host/kit/feed"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const soon = 2 * time.Minute

// rig is a provider with the consumers rome and oslo, and a group that is not a consumer.
type rig struct {
	cluster *testplane.Cluster
	admin   *kubernetes.Clientset
	server  *feedserver.Server
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{cluster: planetest.ForTest(t, "milan")}
	planetest.InstallCRDs(t, r.cluster.RESTConfig(), "shadowpods", "shadowendpointslices")
	r.admin = planetest.Client(t, r.cluster)
	_, err := r.admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: authentication.NamespaceRole},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, consumer := range []string{"rome", "oslo"} {
		r.namespace(t, "web-"+consumer, consumer)
	}
	r.server = feedserver.Start(t, r.cluster, "rome", "oslo", "others")
	return r
}

// namespace creates a namespace of a consumer.
func (r *rig) namespace(t *testing.T, name, consumer string) {
	t.Helper()
	_, err := r.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	r.bind(t, name, consumer)
}

func (r *rig) bind(t *testing.T, namespace, consumer string) {
	t.Helper()
	_, err := r.admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: consumer},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: authentication.NamespaceRole},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: consumer}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// configMap creates a ConfigMap and returns the resource version before it.
func (r *rig) configMap(t *testing.T, namespace, name string) (before string) {
	t.Helper()
	list, err := r.admin.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	_, err = r.admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return list.ResourceVersion
}

// as returns the configuration of a virtual kubelet of a consumer.
func (r *rig) as(t *testing.T, consumer string) *rest.Config {
	t.Helper()
	config := rest.AnonymousClientConfig(r.cluster.RESTConfig())
	var err error
	config.CertData, config.KeyData, err = r.cluster.IssueClientCert("node-of-"+consumer, []string{consumer})
	require.NoError(t, err)
	return config
}

// get requests a path of the feed and returns the response.
func get(t *testing.T, config *rest.Config, server, path string, headers map[string]string) *http.Response {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+wire.Path+path, http.NoBody)
	require.NoError(t, err)
	for key, value := range headers {
		request.Header.Set(key, value)
	}
	response, err := httpClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { response.Body.Close() })
	return response
}

type seen struct {
	Type   watch.EventType
	Object struct {
		metav1.TypeMeta
		Metadata metav1.ObjectMeta
	}
}

// follow watches ConfigMaps in the feed from a resource version, those of rome in Protocol Buffers.
func (r *rig) follow(t *testing.T, consumer, version string) <-chan seen {
	t.Helper()
	encoding := wire.JSON
	if consumer == "rome" {
		encoding = wire.Protobuf
	}
	return r.watch(t, consumer, encoding, "resourceVersion="+version)
}

// watch watches ConfigMaps in the feed.
func (r *rig) watch(t *testing.T, consumer string, encoding wire.Encoding, query string) <-chan seen {
	t.Helper()
	response := get(t, r.as(t, consumer), r.cluster.Server(), "/configmaps?watch=true&"+query, map[string]string{"Accept": encoding.ContentType()})
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, encoding.ContentType(), response.Header.Get("Content-Type"))
	events := make(chan seen)
	go func() {
		defer close(events)
		for read := encoding.Events(response.Body); read.Scan(); {
			select {
			case events <- decode(t, encoding, read.Bytes()):
			case <-t.Context().Done():
				return
			}
		}
	}()
	return events
}

func decode(t *testing.T, encoding wire.Encoding, raw []byte) (e seen) {
	t.Helper()
	if encoding == wire.JSON {
		assert.NoError(t, json.Unmarshal(raw, &e))
		return e
	}
	var event metav1.WatchEvent
	if err := event.Unmarshal(raw); err != nil {
		t.Error(err)
		return e
	}
	object, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(event.Object.Raw, nil, nil)
	if assert.NoError(t, err) {
		e.Type, e.Object.Metadata = watch.EventType(event.Type), object.(*corev1.ConfigMap).ObjectMeta
	}
	return e
}

// next returns the next event that is not a plain bookmark, as text.
func next(t *testing.T, events <-chan seen) string {
	t.Helper()
	timeout := time.After(soon)
	for {
		select {
		case e, ok := <-events:
			namespaces, isAnnounced := wire.Namespaces(&e.Object.Metadata)
			switch {
			case !ok:
				return "end"
			case isAnnounced:
				return "NAMESPACES " + strings.Join(namespaces, ",")
			case e.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] != "":
				return "END"
			case e.Type != watch.Bookmark:
				return string(e.Type) + " " + e.Object.Metadata.Namespace + "/" + e.Object.Metadata.Name
			}
		case <-timeout:
			require.Fail(t, "the feed sends nothing")
		}
	}
}

func TestAWatchShowsTheNamespacesOfItsCaller(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := r.configMap(t, "web-oslo", "first-of-oslo")
	r.configMap(t, "default", "of-the-provider")
	r.configMap(t, "web-rome", "first-of-rome")
	rome, oslo := r.follow(t, "rome", before), r.follow(t, "oslo", before)
	assert.Equal(t, "NAMESPACES web-rome", next(t, rome))
	assert.Equal(t, "ADDED web-rome/first-of-rome", next(t, rome))
	assert.Equal(t, "NAMESPACES web-oslo", next(t, oslo))
	assert.Equal(t, "ADDED web-oslo/first-of-oslo", next(t, oslo))

	r.namespace(t, "shop-rome", "rome")
	require.Equal(t, "NAMESPACES shop-rome,web-rome", next(t, rome))
	r.configMap(t, "shop-rome", "second-of-rome")
	assert.NotEmpty(t, r.configMap(t, "web-oslo", "second-of-oslo"))
	for event := ""; event != "ADDED shop-rome/second-of-rome"; {
		// The root certificates of a new namespace arrive first.
		event = next(t, rome)
		require.True(t, strings.HasPrefix(event, "ADDED shop-rome/"), event)
	}
	assert.Equal(t, "ADDED web-oslo/second-of-oslo", next(t, oslo))

	// A consumer that loses a namespace sees nothing of it, and one without any namespace is
	// disconnected.
	require.NoError(t, r.admin.RbacV1().RoleBindings("shop-rome").Delete(t.Context(), "rome", metav1.DeleteOptions{}))
	require.Equal(t, "NAMESPACES web-rome", next(t, rome))
	r.configMap(t, "shop-rome", "third-of-rome")
	r.configMap(t, "web-rome", "fourth-of-rome")
	assert.Equal(t, "ADDED web-rome/fourth-of-rome", next(t, rome))
	require.NoError(t, r.admin.RbacV1().RoleBindings("web-rome").Delete(t.Context(), "rome", metav1.DeleteOptions{}))
	assert.Equal(t, "end", next(t, rome))
	assert.Equal(t, http.StatusForbidden, get(t, r.as(t, "rome"), r.cluster.Server(), "/configmaps?watch=true&resourceVersion="+before, nil).StatusCode)
}

// The API server itself sends the initial events and their end.
func TestInitialEventsAreThoseOfTheCallersNamespaces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, consumer := range []string{"oslo", "rome"} {
		r.configMap(t, "web-"+consumer, "first-of-"+consumer)
	}
	events := r.watch(t, "rome", wire.Protobuf, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	require.Equal(t, "NAMESPACES web-rome", next(t, events))
	seen := map[string]bool{}
	for event := ""; event != "END"; {
		event = next(t, events)
		require.True(t, event == "END" || strings.HasPrefix(event, "ADDED web-rome/"), event)
		seen[event] = true
	}
	assert.True(t, seen["ADDED web-rome/first-of-rome"])
	r.configMap(t, "web-rome", "second-of-rome")
	assert.Equal(t, "ADDED web-rome/second-of-rome", next(t, events))
}

func TestTheFeedShowsNothingThatADirectWatchRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	version := r.configMap(t, "web-rome", "settings")
	watchOf := func(resource string) string { return "/" + resource + "?watch=true&resourceVersion=" + version }
	for name, test := range map[string]struct {
		path string
		as   *rest.Config
		want int
	}{
		"a kind that the role in the namespace does not have": {watchOf("secrets"), r.as(t, "rome"), http.StatusForbidden},
		"a kind that the feed does not have":                  {watchOf("roles"), r.as(t, "rome"), http.StatusForbidden},
		"a user without the role for the feed":                {watchOf("configmaps"), r.as(t, "mallory"), http.StatusForbidden},
		"a group with the role and without a namespace":       {watchOf("configmaps"), r.as(t, "others"), http.StatusForbidden},
		"a list":     {"/configmaps", r.as(t, "rome"), http.StatusForbidden},
		"no version": {"/configmaps?watch=true", r.as(t, "rome"), http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, get(t, test.as, r.cluster.Server(), test.path, nil).StatusCode)
		})
	}
}

func TestOnlyTheFrontProxyOfTheAPIServerNamesCallers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	version := r.configMap(t, "web-rome", "settings")
	path := "/configmaps?watch=true&resourceVersion=" + version
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(r.cluster.CAPEM()))
	forged := map[string]string{"X-Remote-User": "node-of-rome", "X-Remote-Group": "rome"}
	for name, config := range map[string]*rest.Config{
		"no certificate":                            rest.AnonymousClientConfig(r.cluster.RESTConfig()),
		"a certificate of a consumer":               r.as(t, "oslo"),
		"the certificate of the administrator":      r.cluster.RESTConfig(),
		"a certificate with the front proxy's name": named(t, r.cluster, "front-proxy-client"),
	} {
		t.Run(name, func(t *testing.T) {
			response := get(t, config, "https://"+r.server.Address, path, forged)
			assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
		})
	}
	t.Run("headers that a consumer sends to the API server are dropped", func(t *testing.T) {
		response := get(t, r.as(t, "oslo"), r.cluster.Server(), path, forged)
		require.Equal(t, http.StatusOK, response.StatusCode)
		var first seen
		require.NoError(t, json.NewDecoder(response.Body).Decode(&first))
		namespaces, _ := wire.Namespaces(&first.Object.Metadata)
		assert.Equal(t, []string{"web-oslo"}, namespaces)
	})
	t.Run("the real front proxy is accepted", func(t *testing.T) {
		dir := strings.TrimSuffix(r.cluster.FrontProxyCAFile(), "front-proxy-ca.crt")
		pair, err := tls.LoadX509KeyPair(dir+"front-proxy-client.crt", dir+"front-proxy-client.key")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.server.Address+wire.Path+path, http.NoBody)
		require.NoError(t, err)
		for key, value := range forged {
			request.Header.Set(key, value)
		}
		proxy := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}
		response, err := proxy.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		assert.Equal(t, http.StatusOK, response.StatusCode)
	})
	t.Run("an anonymous request is refused", func(t *testing.T) {
		anonymous, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(r.cluster.RESTConfig()))
		require.NoError(t, err)
		err = anonymous.RESTClient().Get().AbsPath(wire.Path+"/configmaps").Param("watch", "true").Param("resourceVersion", version).Do(t.Context()).Error()
		assert.True(t, apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err), "%v", err)
	})
}

// named returns a configuration with a certificate that the API server's own authority signed.
func named(t *testing.T, c *testplane.Cluster, name string) *rest.Config {
	t.Helper()
	config := rest.AnonymousClientConfig(c.RESTConfig())
	var err error
	config.CertData, config.KeyData, err = c.IssueClientCert(name, nil)
	require.NoError(t, err)
	return config
}
