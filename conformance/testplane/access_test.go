package testplane_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// cutTimeout is how long a client waits for a server that is cut off.
const cutTimeout = 2 * time.Second

// startOwner runs this test binary as the owner of a cluster in dir, until the cluster
// serves.
func startOwner(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	executable, err := os.Executable()
	require.NoError(t, err)
	owner := exec.CommandContext(t.Context(), executable)
	owner.Env = append(os.Environ(), ownerEnvironment+"="+dir)
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return owner
}

// TestAccess holds what clients of one cluster rely on; they share it, for speed.
func TestAccess(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.log")
	c := planetest.ForTest(t, "access", func(o *testplane.Options) { o.AuditLog = audit })
	t.Run("an issued certificate is its user with its groups", func(t *testing.T) { testIssuedCertificate(t, c) })
	t.Run("a client behind the fault proxy is cut off and comes back", func(t *testing.T) { testFaultProxy(t, c) })
	t.Run("a webhook is called by ExternalName and by URL", func(t *testing.T) { testWebhooks(t, c) })
	t.Run("the audit log names users and verbs, each request once", func(t *testing.T) { testAudit(t, c, audit) })
	t.Run("the server reports its version", func(t *testing.T) {
		version, err := planetest.Client(t, c).Discovery().ServerVersion()
		require.NoError(t, err)
		assert.Equal(t, "v1.37.0", version.GitVersion)
	})
}

func clientOf(t *testing.T, kubeconfig []byte) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

func kubeconfigFor(t *testing.T, c *testplane.Cluster, server, cn string, orgs ...string) []byte {
	t.Helper()
	cert, key, err := c.IssueClientCert(cn, orgs)
	require.NoError(t, err)
	kubeconfig, err := c.KubeconfigFor(server, cert, key)
	require.NoError(t, err)
	return kubeconfig
}

func testIssuedCertificate(t *testing.T, c *testplane.Cluster) {
	t.Helper()
	client := clientOf(t, kubeconfigFor(t, c, "", "rome", "liqo.io", "tenants"))
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, "rome", review.Status.UserInfo.Username)
	assert.ElementsMatch(t, []string{"liqo.io", "tenants", "system:authenticated"}, review.Status.UserInfo.Groups)
	_, err = client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "RBAC is on: %v", err)

	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	require.NoError(t, err)
	admin, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = admin.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	assert.NoError(t, err)
}

func testFaultProxy(t *testing.T, c *testplane.Cluster) {
	t.Helper()
	proxy, err := faultproxy.Start(c.Endpoint())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	client := clientOf(t, kubeconfigFor(t, c, proxy.URL(), testplane.AdminUser, "system:masters"))
	ask := func() error {
		// client-go asks again for seconds when a connection is reset.
		ctx, cancel := context.WithTimeout(t.Context(), cutTimeout)
		defer cancel()
		return client.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	}
	answered := func() bool { return ask() == nil }
	require.Eventually(t, answered, podTimeout, poll)
	for _, fault := range []faultproxy.Fault{faultproxy.Reset, faultproxy.Blackhole} {
		proxy.Cut(fault)
		require.Error(t, ask())
		proxy.Heal()
		require.Eventually(t, answered, podTimeout, poll)
	}
}

// testWebhooks proves the two ways that the package comment names.
func testWebhooks(t *testing.T, c *testplane.Cluster) {
	t.Helper()
	cert, key, err := c.IssueServingCert("hook", nil, c.Address(), "hook.default.svc")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", net.JoinHostPort(c.Address(), "0"), &tls.Config{Certificates: []tls.Certificate{pair}})
	require.NoError(t, err)
	var calls atomic.Int64
	server := &http.Server{Handler: refuse(&calls)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	_, text, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	port, err := strconv.ParseInt(text, 10, 32)
	require.NoError(t, err)

	client := planetest.Client(t, c)
	_, err = client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: c.Address()},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for name, config := range map[string]admissionregistrationv1.WebhookClientConfig{
		"externalname": {Service: &admissionregistrationv1.ServiceReference{Namespace: metav1.NamespaceDefault, Name: "hook", Port: ptr.To(int32(port))}},
		"url":          {URL: ptr.To("https://" + listener.Addr().String() + "/")},
	} {
		config.CABundle = c.CAPEM()
		assertAsked(t, client, name, config)
	}
	assert.GreaterOrEqual(t, calls.Load(), int64(2))
}

// assertAsked registers a webhook for ConfigMaps and wants it to be asked.
func assertAsked(t *testing.T, client kubernetes.Interface, name string, config admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	webhooks := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := webhooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: name + ".longshore.dev", ClientConfig: config, AdmissionReviewVersions: []string{"v1"},
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			// Only this test's objects: the controller manager writes ConfigMaps as well.
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"asks": name}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "asked-", Labels: map[string]string{"asks": name}}}
	// The API server learns of the webhook through a watch; until then it creates.
	var refusal error
	require.Eventually(t, func() bool {
		_, refusal = client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), object, metav1.CreateOptions{})
		return refusal != nil
	}, podTimeout, poll, "the webhook %s is never asked", name)
	assert.ErrorContains(t, refusal, "the webhook was asked", name)
}

// refuse answers every admission review with no.
func refuse(calls *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var review admissionv1.AdmissionReview
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &review)
		}
		if err != nil || review.Request == nil {
			http.Error(w, "no admission review", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "the webhook was asked"}}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
}

func testAudit(t *testing.T, c *testplane.Cluster, path string) {
	t.Helper()
	client := clientOf(t, kubeconfigFor(t, c, "", "counted", "system:masters"))
	const requests = 5
	for range requests {
		_, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
	}
	type event struct {
		Stage, Verb, Level string
		User               struct{ Username string }
	}
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	users, counted := map[string]bool{}, 0
	for lines := json.NewDecoder(file); lines.More(); {
		var e event
		require.NoError(t, lines.Decode(&e))
		assert.NotEqual(t, "RequestReceived", e.Stage)
		assert.Equal(t, "Metadata", e.Level)
		users[e.User.Username] = true
		if e.User.Username == "counted" {
			assert.Equal(t, "list", e.Verb)
			counted++
		}
	}
	assert.Equal(t, requests, counted)
	assert.Contains(t, users, "system:kube-scheduler")
	assert.Contains(t, users, "system:serviceaccount:kube-system:node-controller", "controllers have their own names")
}
