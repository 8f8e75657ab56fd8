package feed

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

const (
	configNamespace = "kube-system"
	configName      = "extension-apiserver-authentication"
)

// frontProxy authenticates callers by the headers of the API server's front proxy, which presents a
// certificate of the authority for front proxies. Other requests are refused.
type frontProxy struct {
	authenticator.Request

	authority *dynamiccertificates.ConfigMapCAController
	headers   *headerrequest.RequestHeaderAuthRequestController
}

// newFrontProxy returns a frontProxy that reads the cluster's configuration when it runs.
func newFrontProxy(clients kubernetes.Interface) (*frontProxy, error) {
	authority, err := dynamiccertificates.NewDynamicCAFromConfigMapController("front-proxy", configNamespace, configName,
		"requestheader-client-ca-file", clients)
	if err != nil {
		return nil, fmt.Errorf("reading the authority of the front proxy: %w", err)
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(configName, configNamespace, clients,
		"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", "requestheader-allowed-names")
	list := func(values func() []string) headerrequest.StringSliceProvider {
		return headerrequest.StringSliceProviderFunc(values)
	}
	return &frontProxy{
		authority: authority, headers: headers,
		Request: headerrequest.NewDynamicVerifyOptionsSecure(authority.VerifyOptions, list(headers.AllowedClientNames),
			list(headers.UsernameHeaders), list(headers.UIDHeaders), list(headers.GroupHeaders), list(headers.ExtraHeaderPrefixes)),
	}, nil
}

// run follows the cluster's configuration until the context ends.
func (p *frontProxy) run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { p.authority.Run(ctx, 1) })
	group.Go(func() { p.headers.Run(ctx, 1) })
	group.Wait()
}
