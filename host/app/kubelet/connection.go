package kubelet

import (
	"net/http"
	"net/url"
	"reflect"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// sameConnection tells whether two configurations that were read from kubeconfigs lead to
// the same server, in the same way, as the same user.
func sameConnection(a, b *rest.Config) bool {
	return reflect.DeepEqual(connectionOf(a), connectionOf(b))
}

// connection is all that clientcmd takes from a kubeconfig. Files and programs, which
// package remotecluster refuses today, are part of it.
type connection struct {
	host, proxy, username, password, token, tokenFile string
	uncompressed                                      bool
	impersonate                                       rest.ImpersonationConfig
	provider                                          *clientcmdapi.AuthProviderConfig
	program                                           *clientcmdapi.ExecConfig
	tls                                               rest.TLSClientConfig
}

func connectionOf(c *rest.Config) connection {
	return connection{
		host: c.Host, proxy: proxyOf(c), username: c.Username, password: c.Password, token: c.BearerToken, tokenFile: c.BearerTokenFile,
		uncompressed: c.DisableCompression, impersonate: c.Impersonate, provider: c.AuthProvider, program: c.ExecProvider, tls: c.TLSClientConfig,
	}
}

// proxyOf is the proxy-url of the kubeconfig, empty when it has none.
func proxyOf(c *rest.Config) string {
	if c.Proxy == nil {
		return ""
	}
	proxy, err := c.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: "server"}})
	if err != nil || proxy == nil {
		return ""
	}
	return proxy.String()
}
