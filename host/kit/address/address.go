// Package address translates addresses between the networks of two clusters: those of a
// peer by its Configuration, those of this cluster by IPs. Without a Configuration of the peer, the
// clusters use the same addresses.
package address

import (
	"errors"
	"fmt"
	"net/netip"

	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/ipam"
)

// ErrPending is the error of a translation while the Configuration of the peer is not complete.
var ErrPending = errors.New("not all networks of the peer have their CIDRs yet")

// ErrNoAddress is in the error of a translation by an IP that has no address so far.
var ErrNoAddress = errors.New("no address yet")

// UnreachableError reports an address that peers cannot reach without an IP.
type UnreachableError struct{ Address string }

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("peers do not reach address %[1]s, which is not in a pod CIDR of this cluster: create an IP with spec.ip %[1]s in the namespace", e.Address)
}

// Translator translates an address of one cluster into the address that another cluster uses.
// Implementations are safe for concurrent use. Callers do not store the result: a translation may
// change.
type Translator interface {
	Translate(address string) (string, error)
}

// Identity is the Translator of clusters that use the same addresses.
type Identity struct{}

// Translate implements Translator.
func (Identity) Translate(address string) (string, error) { return address, nil }

// pending is the Translator while a Configuration is not complete.
type pending struct{}

// Translate implements Translator.
func (pending) Translate(string) (string, error) { return "", ErrPending }

// pair is a network of a peer, and what it is in this cluster.
type pair struct{ original, remapped netip.Prefix }

// Peer translates addresses of a peer into those under which this cluster reaches them. Pod CIDRs
// come before external ones. An address of no network of the peer is not changed.
type Peer struct{ pairs []pair }

// Translate implements Translator.
func (p *Peer) Translate(address string) (string, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return "", fmt.Errorf("parsing address %q: %w", address, err)
	}
	for _, pair := range p.pairs {
		if remapped, ok := ipam.Remap(ip, pair.original, pair.remapped); ok {
			return remapped.String(), nil
		}
	}
	return address, nil
}

// Outgoing translates addresses of this cluster into those that peers get.
type Outgoing struct {
	// Pods are the pod CIDRs of this cluster, whose addresses peers remap themselves. Empty if they
	// are not known.
	Pods []netip.Prefix
	// IPOf returns the IP of an address, or nil.
	IPOf func(address string) *ipamv1alpha1.IP
}

// Translate implements Translator. An address outside the pod CIDRs needs an IP, because peers have
// no route to it.
func (o Outgoing) Translate(address string) (string, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return "", fmt.Errorf("parsing address %q: %w", address, err)
	}
	for _, pods := range o.Pods {
		if pods.Contains(ip) {
			return address, nil
		}
	}
	if !ip.Is4() {
		return address, nil
	}
	switch object := o.IPOf(address); {
	case object != nil && object.Status.IP == "":
		return "", fmt.Errorf("IP %s/%s has %w", object.Namespace, object.Name, ErrNoAddress)
	case object != nil:
		return string(object.Status.IP), nil
	case len(o.Pods) == 0:
		return address, nil
	}
	return "", &UnreachableError{Address: address}
}
