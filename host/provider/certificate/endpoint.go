package certificate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// apiServerPort is assumed on the addresses of control-plane nodes.
const apiServerPort = 6443

// ErrNoEndpoint is returned when no address of the API server is known that peers could use.
var ErrNoEndpoint = errors.New("no address of the API server is known: set the chart's value apiServer.address")

// Endpoint finds how consumers reach this cluster's API server.
//
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list
type Endpoint struct {
	// Override is the address that the administrator chose, with or without https://.
	Override string
	// CA is the PEM bundle that verifies the API server; empty for the system's trust store.
	CA []byte
	// Client reads Nodes from the cache.
	Client client.Reader
	// APIReader lists the EndpointSlices of the API server, which the cache does not have.
	APIReader client.Reader
}

// AuthParams returns what a consumer needs to reach this cluster with a certificate.
func (e *Endpoint) AuthParams(ctx context.Context, certificate []byte, proxyURL *string) (*authv1beta1.AuthParams, error) {
	url, err := e.url(ctx)
	if err != nil {
		return nil, err
	}
	return &authv1beta1.AuthParams{CA: e.CA, SignedCRT: certificate, APIServer: url, ProxyURL: proxyURL}, nil
}

// url returns the override, or the address of a control-plane node, or, where the control
// plane has no nodes, the address at which the API server announces itself.
func (e *Endpoint) url(ctx context.Context) (string, error) {
	if e.Override != "" {
		return overrideURL(e.Override), nil
	}
	nodes := &corev1.NodeList{}
	if err := e.Client.List(ctx, nodes); err != nil {
		return "", fmt.Errorf("listing nodes: %w", err)
	}
	if address := controlPlaneAddress(nodes.Items); address != "" {
		return "https://" + net.JoinHostPort(address, strconv.Itoa(apiServerPort)), nil
	}
	endpoints := &discoveryv1.EndpointSliceList{}
	if err := e.APIReader.List(ctx, endpoints, client.InNamespace(corev1.NamespaceDefault), client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"}); err != nil {
		return "", fmt.Errorf("listing the endpoints of the API server: %w", err)
	}
	if address := announcedAddress(endpoints.Items); address != "" {
		return "https://" + address, nil
	}
	return "", ErrNoEndpoint
}

func overrideURL(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	return "https://" + address
}

// controlPlaneAddress returns the address of the first control-plane node, by name. A provider chooses the
// labels of its virtual node.
func controlPlaneAddress(nodes []corev1.Node) string {
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range nodes {
		if nodes[i].Labels[offloadingv1beta1.NodeTypeLabel] == offloadingv1beta1.NodeTypeVirtual {
			continue
		}
		for _, label := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/controlplane"} {
			if _, ok := nodes[i].Labels[label]; !ok {
				continue
			}
			for _, address := range nodes[i].Status.Addresses {
				if address.Type == corev1.NodeInternalIP {
					return address.Address
				}
			}
		}
	}
	return ""
}

// announcedAddress returns the first address of the API server's own EndpointSlices.
func announcedAddress(endpoints []discoveryv1.EndpointSlice) string {
	for i := range endpoints {
		for _, endpoint := range endpoints[i].Endpoints {
			for _, port := range endpoints[i].Ports {
				if len(endpoint.Addresses) > 0 && port.Port != nil {
					return net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(ptr.Deref(port.Port, 0))))
				}
			}
		}
	}
	return ""
}
