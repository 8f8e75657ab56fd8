package remotecluster

import (
	"net/http"
	"net/url"
	"reflect"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// SameConnection reports whether two configurations that were read from kubeconfigs lead to
// the same server, in the same way, as the same user.
func SameConnection(a, b *rest.Config) bool {
	return reflect.DeepEqual(connectionOf(a), connectionOf(b))
}

// connection is all that clientcmd takes from a kubeconfig, also what [Config] refuses.
type connection struct {
	host, proxy, username, password, token, tokenFile string
	disableCompression                                bool
	impersonate                                       rest.ImpersonationConfig
	authProvider                                      *clientcmdapi.AuthProviderConfig
	exec                                              *clientcmdapi.ExecConfig
	tls                                               rest.TLSClientConfig
}

func connectionOf(c *rest.Config) connection {
	return connection{
		host: c.Host, proxy: proxyURL(c), username: c.Username, password: c.Password, token: c.BearerToken, tokenFile: c.BearerTokenFile,
		disableCompression: c.DisableCompression, impersonate: c.Impersonate, authProvider: c.AuthProvider, exec: c.ExecProvider, tls: c.TLSClientConfig,
	}
}

// proxyURL returns the proxy-url of the kubeconfig; empty if it has none.
func proxyURL(c *rest.Config) string {
	if c.Proxy == nil {
		return ""
	}
	proxy, err := c.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: "server"}})
	if err != nil || proxy == nil {
		return ""
	}
	return proxy.String()
}
