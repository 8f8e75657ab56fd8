package address

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/ipam"
)

// NewPeer returns the Translator of a Configuration. It returns an error, [ErrPending] mostly,
// while the status is not that of the current generation.
func NewPeer(configuration *networkingv1beta1.Configuration) (*Peer, error) {
	condition := meta.FindStatusCondition(configuration.Status.Conditions, networkingv1beta1.NetworkCIDRsConfigured)
	remapped := configuration.Status.Remote
	if remapped == nil || condition == nil || condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != configuration.Generation {
		return nil, ErrPending
	}
	original := &configuration.Spec.Remote.CIDR
	pods, err := pairsOf(original.Pod, remapped.CIDR.Pod)
	if err != nil {
		return nil, err
	}
	external, err := pairsOf(original.External, remapped.CIDR.External)
	if err != nil {
		return nil, err
	}
	return &Peer{append(pods, external...)}, nil
}

// pairsOf returns the IPv4 networks: addresses of others are not translated.
func pairsOf(original, remapped []networkingv1beta1.CIDR) ([]pair, error) {
	if len(original) != len(remapped) {
		return nil, ErrPending
	}
	pairs := make([]pair, 0, len(original))
	for i := range original {
		if ipam.IsIPv6(string(original[i])) {
			continue
		}
		from, err := ipam.ParseCIDR(string(original[i]))
		if err != nil {
			return nil, err
		}
		to, err := ipam.ParseCIDR(string(remapped[i]))
		if err != nil {
			return nil, err
		}
		if from.Bits() != to.Bits() {
			return nil, fmt.Errorf("CIDR %s is remapped to %s, which has another length", from, to)
		}
		pairs = append(pairs, pair{from, to})
	}
	return pairs, nil
}

// Load returns the Translator of a peer's addresses: that of its Configuration, or Identity. It
// returns an error while the Configuration is not complete.
func Load(ctx context.Context, reader client.Reader, cluster liqocorev1beta1.ClusterID) (Translator, error) {
	if cluster == "" {
		return Identity{}, nil
	}
	list := &networkingv1beta1.ConfigurationList{}
	if err := reader.List(ctx, list, client.MatchingLabels{liqocorev1beta1.RemoteClusterIDLabel: string(cluster)}); err != nil {
		return nil, fmt.Errorf("listing the Configurations of cluster %q: %w", cluster, err)
	}
	if len(list.Items) == 0 {
		return Identity{}, nil
	}
	configuration := slices.MinFunc(list.Items, func(a, b networkingv1beta1.Configuration) int { return order(&a, &b) })
	peer, err := NewPeer(&configuration)
	if err != nil {
		return nil, fmt.Errorf("translating by Configuration %s/%s: %w", configuration.Namespace, configuration.Name, err)
	}
	return peer, nil
}

// order puts the oldest of several Configurations of a peer first.
func order(a, b metav1.Object) int {
	if byTime := a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time); byTime != 0 {
		return byTime
	}
	return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
}

// Table holds the Translators of the Configurations that a watch reports. While a change of a
// Configuration is not complete, its previous translation stays. The zero value is usable, and it is
// safe for concurrent use.
type Table struct {
	mu      sync.RWMutex
	entries map[client.ObjectKey]*entry
}

type entry struct {
	cluster   string
	meta      metav1.ObjectMeta
	peer      *Peer // nil: pending
	localPods []netip.Prefix
}

// Set records a Configuration, and reports whether a translation has changed.
func (t *Table) Set(configuration *networkingv1beta1.Configuration) bool {
	next := &entry{
		cluster: configuration.Labels[liqocorev1beta1.RemoteClusterIDLabel],
		meta: metav1.ObjectMeta{
			Namespace: configuration.Namespace, Name: configuration.Name, UID: configuration.UID, CreationTimestamp: configuration.CreationTimestamp,
		},
	}
	if local := configuration.Spec.Local; local != nil {
		for _, cidr := range local.CIDR.Pod {
			// An invalid CIDR has no addresses.
			if prefix, err := ipam.ParseCIDR(string(cidr)); err == nil {
				next.localPods = append(next.localPods, prefix)
			}
		}
	}
	peer, err := NewPeer(configuration)
	key := client.ObjectKeyFromObject(configuration)
	t.mu.Lock()
	defer t.mu.Unlock()
	previous := t.entries[key]
	switch {
	case err == nil:
		next.peer = peer
	case previous != nil && previous.meta.UID == next.meta.UID && previous.cluster == next.cluster:
		next.peer = previous.peer
	}
	if t.entries == nil {
		t.entries = map[client.ObjectKey]*entry{}
	}
	t.entries[key] = next
	return previous == nil || !previous.equals(next)
}

func (e *entry) equals(other *entry) bool {
	if (e.peer == nil) != (other.peer == nil) || e.peer != nil && !slices.Equal(e.peer.pairs, other.peer.pairs) {
		return false
	}
	return e.cluster == other.cluster && e.meta.UID == other.meta.UID && slices.Equal(e.localPods, other.localPods)
}

// Remove forgets a Configuration, and reports whether it was known.
func (t *Table) Remove(key client.ObjectKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, isKnown := t.entries[key]
	delete(t.entries, key)
	return isKnown
}

// Of returns the Translator of a peer's addresses: Identity if the peer has no Configuration. Its
// error is [ErrPending] before the Configuration was complete.
func (t *Table) Of(cluster liqocorev1beta1.ClusterID) Translator {
	switch found := t.find(cluster); {
	case found == nil:
		return Identity{}
	case found.peer == nil:
		return pending{}
	default:
		return found.peer
	}
}

// LocalPods returns the pod CIDRs of this cluster by the Configuration of a peer, and whether the
// peer has one.
func (t *Table) LocalPods(cluster liqocorev1beta1.ClusterID) ([]netip.Prefix, bool) {
	found := t.find(cluster)
	if found == nil {
		return nil, false
	}
	return found.localPods, true
}

// find returns the entry of a peer, or nil. Entries are not changed.
func (t *Table) find(cluster liqocorev1beta1.ClusterID) *entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var first *entry
	for _, candidate := range t.entries {
		if candidate.cluster == string(cluster) && (first == nil || order(&candidate.meta, &first.meta) < 0) {
			first = candidate
		}
	}
	return first
}
