// Package address translates addresses between the networks of two clusters.
package address

import liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"

// Translator translates an address of a cluster into the address under which this cluster
// reaches it. Implementations are safe for concurrent use. Callers do not store the result: a
// translation may change (T41).
type Translator interface {
	Translate(cluster liqocorev1beta1.ClusterID, address string) (string, error)
}

// Identity is the Translator of clusters that use the same addresses.
type Identity struct{}

// Translate implements Translator.
func (Identity) Translate(_ liqocorev1beta1.ClusterID, address string) (string, error) {
	return address, nil
}
