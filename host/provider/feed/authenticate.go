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

// FrontProxy authenticates callers by the headers of the API server's front proxy, which presents a
// certificate of the authority for front proxies. Other requests are refused.
type FrontProxy struct {
	authenticator.Request

	authority *dynamiccertificates.ConfigMapCAController
	headers   *headerrequest.RequestHeaderAuthRequestController
}

// NewFrontProxy returns a FrontProxy that reads the cluster's configuration when it runs.
func NewFrontProxy(clients kubernetes.Interface) (*FrontProxy, error) {
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
	return &FrontProxy{
		authority: authority, headers: headers,
		Request: headerrequest.NewDynamicVerifyOptionsSecure(authority.VerifyOptions, list(headers.AllowedClientNames),
			list(headers.UsernameHeaders), list(headers.UIDHeaders), list(headers.GroupHeaders), list(headers.ExtraHeaderPrefixes)),
	}, nil
}

// Start implements manager.Runnable: it follows the cluster's configuration until the context ends.
func (p *FrontProxy) Start(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { p.authority.Run(ctx, 1) })
	group.Go(func() { p.headers.Run(ctx, 1) })
	group.Wait()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves.
func (p *FrontProxy) NeedLeaderElection() bool { return false }
