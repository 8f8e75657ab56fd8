// Package chartrights gives components of a test the rights that the chart grants them. Tests that
// run a component as administrator do not find a right that is missing in the chart.
package chartrights

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/charts"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/peering/tenantnamespace"
)

const (
	// Namespace is Longshore's own namespace in the chart's rights.
	Namespace = "longshore"
	// Manager is the ServiceAccount of the manager in Namespace.
	Manager = "longshore-manager"
	// Webhook is the ServiceAccount of the webhook in Namespace.
	Webhook = "longshore-webhook"

	// deniedMark begins a line in the log of a process with a request that was denied.
	deniedMark = "denied by the rights of the chart: "
	// rendered is the chart with its default values, as its tests hold it.
	rendered = "hack/demo/chart/testdata/default.golden.yaml"
	// aggregation is how long the controller manager may take to fill in aggregated ClusterRoles.
	aggregation = 2 * time.Minute
	poll        = 25 * time.Millisecond
)

// kinds are those of the rendered objects that grant rights, and what they need.
var kinds = []string{"Namespace", "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}

// Install creates the roles, bindings and ServiceAccounts of the chart with its default values, and
// waits until they are in effect. The manager gets the rules of each optional
// part of the chart that is named, a file below files/rbac without its extension, in addition.
func Install(tb testing.TB, admin *rest.Config, optional ...string) {
	tb.Helper()
	admin = rest.CopyConfig(admin)
	admin.QPS = -1
	c, err := client.New(admin, client.Options{})
	require.NoError(tb, err)
	create := func(object client.Object) {
		tb.Helper()
		err := c.Create(tb.Context(), object)
		require.NoError(tb, client.IgnoreAlreadyExists(err), "creating %T %s", object, object.GetName())
	}
	for _, name := range []string{Namespace, corev1.NamespaceNodeLease} {
		create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	var aggregated []string
	var bindings []client.Object
	for _, object := range granting(tb) {
		create(object)
		bindings = append(bindings, object)
		if object.Object["aggregationRule"] != nil {
			aggregated = append(aggregated, object.GetName())
		}
	}
	for _, part := range optional {
		create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: Manager + "-" + part}, Rules: RulesOf(tb, part)})
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: Manager + "-" + part},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: Manager + "-" + part},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: Manager}},
		}
		create(binding)
		bindings = append(bindings, binding)
	}
	for _, name := range aggregated {
		awaitRules(tb, c, name)
	}
	planetest.AwaitRights(tb, c, bindings...)
}

// awaitRules waits until an aggregated ClusterRole has rules: the controller manager fills them in.
func awaitRules(tb testing.TB, c client.Client, name string) {
	tb.Helper()
	planetest.Until(tb, func(t planetest.T) bool {
		role := &rbacv1.ClusterRole{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: name}, role))
		return len(role.Rules) > 0
	}, aggregation, poll, "ClusterRole %s has its rules", name)
}

// granting returns the objects of the rendered chart that grant rights.
func granting(tb testing.TB) []*unstructured.Unstructured {
	tb.Helper()
	raw, err := os.ReadFile(inRepository(tb, rendered))
	require.NoError(tb, err)
	var objects []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(tb, err)
		if slices.Contains(kinds, object.GetKind()) {
			objects = append(objects, object)
		}
	}
}

// RulesOf returns the rules of a part of the chart, a file below files/rbac without its extension.
func RulesOf(tb testing.TB, part string) []rbacv1.PolicyRule {
	tb.Helper()
	raw, err := charts.Longshore.ReadFile("longshore/files/rbac/" + part + ".yaml")
	require.NoError(tb, err)
	role := &rbacv1.ClusterRole{}
	require.NoError(tb, yaml.Unmarshal(raw, role))
	return role.Rules
}

// inRepository returns the path of a file of the repository. Tests run in the folder of their package.
func inRepository(tb testing.TB, file string) string {
	tb.Helper()
	dir, err := os.Getwd()
	require.NoError(tb, err)
	for {
		path := filepath.Join(dir, filepath.FromSlash(file))
		if _, err := os.Stat(path); err == nil {
			return path
		}
		require.NotEqual(tb, filepath.Dir(dir), dir, "%s is in no folder above the test", file)
		dir = filepath.Dir(dir)
	}
}

// As returns the configuration of a ServiceAccount. A request that its rights do not permit fails
// the test when it ends, with the verb and the resource.
func As(tb testing.TB, admin *rest.Config, namespace, account string) *rest.Config {
	tb.Helper()
	return AsWhile(tb, admin, namespace, account, func() bool { return true })
}

// AsWhile is As for an account whose rights end: a denied request fails the test only if isGranted
// reports true after it.
func AsWhile(tb testing.TB, admin *rest.Config, namespace, account string, isGranted func() bool) *rest.Config {
	tb.Helper()
	var mu sync.Mutex
	var denied []string
	tb.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		assert.Empty(tb, denied, "requests of ServiceAccount %s/%s that the chart's rights deny", namespace, account)
	})
	return impersonate(admin, namespace, account, func(message string) {
		if !isGranted() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(denied, message) {
			denied = append(denied, message)
		}
	})
}

// ImpersonateAndLog returns the configuration of a ServiceAccount for a process of its own, and
// writes a line for each request that the rights of the account deny. See AssertNoneDenied.
func ImpersonateAndLog(admin *rest.Config, namespace, account string, log io.Writer) *rest.Config {
	return impersonate(admin, namespace, account, func(message string) { _, _ = fmt.Fprintf(log, "%s%s\n", deniedMark, message) })
}

// AssertNoneDenied fails the test for each line of ImpersonateAndLog in a log.
func AssertNoneDenied(tb testing.TB, log []byte) {
	tb.Helper()
	for line := range strings.Lines(string(log)) {
		_, message, isDenied := strings.Cut(line, deniedMark)
		assert.False(tb, isDenied, "the rights of the chart deny a request: %s", message)
	}
}

// impersonate calls report, concurrently, with the API server's message of each denied request.
func impersonate(admin *rest.Config, namespace, account string, report func(message string)) *rest.Config {
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:%s", namespace, account)}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recorder{next, report} })
	return config
}

// recorder reports denied requests.
type recorder struct {
	next   http.RoundTripper
	report func(message string)
}

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusForbidden {
		return response, err //nolint:wrapcheck // an http.RoundTripper returns the error of the next
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if message := denial(body); message != "" {
		r.report(message)
	}
	return response, nil
}

// denial returns the message of an answer by which RBAC denies a request, or "". Admission, and a
// namespace that is being deleted, forbid requests with other messages.
func denial(body []byte) string {
	status := &metav1.Status{}
	message := string(body)
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, status); err == nil {
		message = status.Message
	}
	// A virtual kubelet tries to create its Node, and waits until the manager has created it.
	if strings.Contains(message, `cannot create resource "nodes"`) {
		return ""
	}
	isDenied := strings.Contains(message, `User "`) && strings.Contains(message, "cannot ") ||
		strings.Contains(message, "is attempting to grant RBAC permissions not currently held")
	if !isDenied {
		return ""
	}
	return message
}

// GrantVirtualKubelet creates what the manager creates for the virtual kubelet of a VirtualNode
// before that starts: its rights, and the Node, which a virtual kubelet may not create. It waits until the rights are in effect.
func GrantVirtualKubelet(tb testing.TB, admin client.Client, vn *offloadingv1beta1.VirtualNode) {
	tb.Helper()
	var rights []client.Object
	for _, right := range virtualkubelet.Rights(vn) {
		rights = append(rights, right)
	}
	grant(tb, admin, rights)
	if vn.Spec.CreateNode == nil || *vn.Spec.CreateNode {
		ensure(tb, admin, []client.Object{local.InitialNode(vn)})
	}
}

// GrantTenantNamespace gives the manager its rights in a tenant namespace, as a manager does that
// runs, and waits until it has them.
func GrantTenantNamespace(tb testing.TB, admin client.Client, namespace string) {
	tb.Helper()
	grant(tb, admin, []client.Object{&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: tenantnamespace.Role, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: tenantnamespace.Role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: Manager}},
	}})
}

// GrantAccess creates the access to offloaded namespaces of the virtual kubelet of a VirtualNode, and
// waits until it has it.
func GrantAccess(tb testing.TB, admin client.Client, vn *offloadingv1beta1.VirtualNode, namespaces ...string) {
	tb.Helper()
	var bindings []client.Object
	for _, namespace := range namespaces {
		binding := virtualkubelet.NamespaceBinding(vn, namespace)
		binding.Finalizers = nil // No controller removes them.
		bindings = append(bindings, binding)
	}
	grant(tb, admin, bindings)
}

// grant creates roles and bindings, and waits until they are in effect.
func grant(tb testing.TB, admin client.Client, rights []client.Object) {
	tb.Helper()
	ensure(tb, admin, rights)
	planetest.AwaitRights(tb, admin, rights...)
}

func ensure(tb testing.TB, admin client.Client, objects []client.Object) {
	tb.Helper()
	for _, object := range objects {
		object.SetOwnerReferences(nil) // The garbage collector deletes objects whose owner does not exist.
		require.NoError(tb, client.IgnoreAlreadyExists(admin.Create(tb.Context(), object)), "creating %T %s", object, object.GetName())
	}
}
