package remotecluster_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// hostile returns the configuration of a kubeconfig Secret for a server that answers as it likes.
func hostile(t *testing.T, limits remotecluster.Limits, answer http.HandlerFunc) *rest.Config {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	raw := kubeconfig(t, func(c *clientcmdapi.Config) {
		c.Clusters["milan"] = &clientcmdapi.Cluster{
			Server:                   server.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}
	})
	config, err := remotecluster.Config(secret(map[string][]byte{"kubeconfig": raw}), limits)
	require.NoError(t, err)
	return config
}

// verbs are all that Longshore asks another cluster for.
var verbs = map[string]func(*testing.T, *rest.Config) error{
	"get": func(t *testing.T, c *rest.Config) error {
		_, err := clients(t, c).CoreV1().Pods("n").Get(t.Context(), "p", metav1.GetOptions{})
		return err
	},
	"list": func(t *testing.T, c *rest.Config) error {
		_, err := clients(t, c).CoreV1().Pods("n").List(t.Context(), metav1.ListOptions{})
		return err
	},
	"list of the replicator": func(t *testing.T, c *rest.Config) error {
		d, err := dynamic.NewForConfig(c)
		require.NoError(t, err)
		_, err = d.Resource(corev1.SchemeGroupVersion.WithResource("pods")).List(t.Context(), metav1.ListOptions{})
		return err
	},
	"watch": func(t *testing.T, c *rest.Config) error {
		_, err := clients(t, c).CoreV1().Pods("n").Watch(t.Context(), metav1.ListOptions{})
		return err
	},
	"create": func(t *testing.T, c *rest.Config) error {
		_, err := clients(t, c).CoreV1().Secrets("n").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
		return err
	},
	"update": func(t *testing.T, c *rest.Config) error {
		_, err := clients(t, c).CoreV1().Secrets("n").Update(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.UpdateOptions{})
		return err
	},
	"patch": func(t *testing.T, c *rest.Config) error {
		_, err := clients(t, c).CoreV1().Secrets("n").Patch(t.Context(), "s", "application/merge-patch+json", []byte("{}"), metav1.PatchOptions{})
		return err
	},
	"delete": func(t *testing.T, c *rest.Config) error {
		return clients(t, c).CoreV1().Secrets("n").Delete(t.Context(), "s", metav1.DeleteOptions{})
	},
	"log": func(t *testing.T, c *rest.Config) error {
		stream, err := clients(t, c).CoreV1().Pods("n").GetLogs("p", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
		if err == nil {
			_, err = io.ReadAll(stream)
		}
		return err
	},
	"exec": func(t *testing.T, c *rest.Config) error { return exec(t, c, remotecluster.Executor) },
	"exec by web socket": func(t *testing.T, c *rest.Config) error {
		return exec(t, c, func(c *rest.Config, u *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(c, http.MethodGet, u.String())
		})
	},
	"exec with client-go's own connection": func(t *testing.T, c *rest.Config) error {
		return exec(t, c, func(c *rest.Config, u *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewSPDYExecutor(c, http.MethodPost, u)
		})
	},
	"port-forward": func(t *testing.T, c *rest.Config) error {
		_, err := remotecluster.Dial(t.Context(), c, clients(t, c).CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/n/pods/p/portforward").URL(), "portforward.k8s.io")
		return err
	},
}

func clients(t *testing.T, c *rest.Config) *kubernetes.Clientset {
	t.Helper()
	set, err := kubernetes.NewForConfig(c)
	require.NoError(t, err)
	return set
}

func exec(t *testing.T, c *rest.Config, by func(*rest.Config, *url.URL) (remotecommand.Executor, error)) error {
	t.Helper()
	executor, err := by(c, clients(t, c).CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/n/pods/p/exec").URL())
	require.NoError(t, err)
	return executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
}

func TestNoRequestFollowsARedirection(t *testing.T) {
	for name, send := range verbs {
		for _, status := range []int{301, 302, 303, 307, 308, 300} {
			t.Run(name+" "+http.StatusText(status), func(t *testing.T) {
				var reached atomic.Int64
				internal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					reached.Add(1)
					_, _ = io.WriteString(w, "the secret of an internal server")
				}))
				t.Cleanup(internal.Close)
				config := hostile(t, remotecluster.Limits{}, func(w http.ResponseWriter, r *http.Request) {
					// The query of its own keeps what the client asked for, as a hostile server would.
					w.Header().Set("Location", internal.URL+r.URL.RequestURI())
					w.WriteHeader(status)
				})
				err := send(t, config)
				require.Error(t, err)
				assert.Zero(t, reached.Load(), "the internal server got a request: %v", err)
				assert.NotContains(t, err.Error(), "the secret")
				if name == "exec by web socket" {
					return // its library follows no redirection, and has an error of its own
				}
				refused := &remotecluster.OtherServerError{Server: config.Host, Other: internal.URL, Status: status}
				assert.ErrorContains(t, err, refused.Error())
			})
		}
	}
}

func TestTheErrorOfARedirectionSaysWhatWasRefused(t *testing.T) {
	assert.EqualError(t, &remotecluster.OtherServerError{Server: "https://milan:6443", Other: "http://10.0.0.1", Status: 302},
		`refused a redirection (302) from "https://milan:6443" to "http://10.0.0.1": an API server sends none. `+
			`Let the kubeconfig name the API server itself; if it does, ask the operator of that cluster what answers at its address`)
	config := hostile(t, remotecluster.Limits{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://user:password@"+strings.Repeat("x", 5000)+"/path?query")
		w.WriteHeader(http.StatusFound)
	})
	err := verbs["get"](t, config)
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 1000, "what another cluster writes is cut")
	assert.NotContains(t, err.Error(), "password")
}

func TestRequestsStayAtTheirServer(t *testing.T) {
	config := hostile(t, remotecluster.Limits{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") })
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	for name, tc := range map[string]struct{ url, want string }{
		"the server":            {config.Host + "/livez", ""},
		"another scheme":        {strings.Replace(config.Host, "https", "http", 1), "refused a request to"},
		"another host":          {"https://milan", `refused a request to "https://milan": the kubeconfig is for "https://127.0.0.1`},
		"another port":          {config.Host + "1", "refused a request to"},
		"the metadata of nodes": {"http://169.254.169.254/latest", `refused a request to "http://169.254.169.254"`},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := client.Get(tc.url)
			if tc.want == "" {
				require.NoError(t, err)
				assert.NoError(t, response.Body.Close())
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// A server could fill the log, and the memory, by headers: Go takes 10 MiB of them.
func TestHeadersAreLimitedAndWarningsAreNotLogged(t *testing.T) {
	for name, serve := range map[string]func(http.Handler) *httptest.Server{
		"TLS": httptest.NewTLSServer, "plain": httptest.NewServer,
		"HTTP/2": func(h http.Handler) *httptest.Server {
			server := httptest.NewUnstartedServer(h)
			server.EnableHTTP2 = true
			server.StartTLS()
			return server
		},
	} {
		t.Run(name, func(t *testing.T) {
			count := 1
			server := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for range count {
					w.Header().Add("Warning", `299 - "`+strings.Repeat("x", 1000)+`"`)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Pod"}`)
			}))
			t.Cleanup(server.Close)
			cluster := &clientcmdapi.Cluster{Server: server.URL}
			if server.TLS != nil {
				cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			}
			raw := kubeconfig(t, func(c *clientcmdapi.Config) {
				c.Clusters["milan"] = cluster
				if server.TLS == nil {
					c.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: "t"}
				}
			})
			config, err := remotecluster.Config(secret(map[string][]byte{"kubeconfig": raw}), remotecluster.Limits{})
			require.NoError(t, err)
			assert.Equal(t, rest.NoWarnings{}, config.WarningHandler)
			require.NoError(t, verbs["get"](t, config))
			count = 100
			assert.Error(t, verbs["get"](t, config))
			assert.Zero(t, http.DefaultTransport.(*http.Transport).MaxResponseHeaderBytes, "of the other clients of the process")
		})
	}
}

func TestAnswersToUpgradesAreLimited(t *testing.T) {
	write := func(t *testing.T, w http.ResponseWriter, text string) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			defer connection.Close()
			if _, err = io.WriteString(connection, text); err == nil {
				for err == nil {
					_, err = io.WriteString(connection, strings.Repeat("x: "+strings.Repeat("y", 1000)+"\r\n", 100))
				}
			}
		}
	}
	for name, beginning := range map[string]string{
		"headers without end":  "HTTP/1.1 101 Switching Protocols\r\n",
		"a line without end":   "HTTP/1.1 101 ",
		"an error without end": "HTTP/1.1 500 Internal Server Error\r\n\r\n",
	} {
		for _, verb := range []string{"exec", "port-forward"} {
			t.Run(verb+": "+name, func(t *testing.T) {
				err := verbs[verb](t, hostile(t, remotecluster.Limits{}, func(w http.ResponseWriter, _ *http.Request) { write(t, w, beginning) }))
				assert.ErrorContains(t, err, "the answer is larger than 64 KiB")
			})
		}
	}
}

// A connection that was switched belongs to its client: no limit and no deadline would end what comes then.
func TestAProtocolIsSwitchedOnlyIfTheRequestAsks(t *testing.T) {
	for name, content := range map[string]string{"silence": "", "a body without end": strings.Repeat("x", 1<<10)} {
		for verb, request := range verbs {
			if strings.HasPrefix(verb, "exec") || verb == "port-forward" {
				continue // They ask. TestAnswersToUpgradesAreLimited has what is answered.
			}
			t.Run(verb+": "+name, func(t *testing.T) {
				closed := make(chan struct{})
				config := hostile(t, remotecluster.Limits{Response: 1 << 20}, func(w http.ResponseWriter, _ *http.Request) {
					connection, _, err := http.NewResponseController(w).Hijack()
					if !assert.NoError(t, err) {
						return
					}
					defer connection.Close()
					_, err = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"+content)
					for err == nil && content != "" {
						_, err = io.WriteString(connection, content)
					}
					_, _ = io.Copy(io.Discard, connection)
					close(closed)
				})
				require.ErrorContains(t, request(t, config), "switches the protocol of a request that did not ask for it")
				<-closed
			})
		}
	}
}

func TestSlowAnswersEnd(t *testing.T) {
	config := hostile(t, remotecluster.Limits{Timeout: 200 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		// A byte now and then, without end.
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(10 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
	})
	assert.ErrorContains(t, verbs["list"](t, config), "no answer within 200ms")
}
