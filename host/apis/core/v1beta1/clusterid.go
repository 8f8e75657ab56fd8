package v1beta1

import (
	"fmt"
	"regexp"
)

// ClusterID identifies a cluster among its peers. It appears in names and label
// values, hence the pattern; the schema puts no limit on its length, as in the
// reference.
//
// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
type ClusterID string

// maxClusterIDLength is that of a label's value, in bytes: the ID is one on every
// object of a peering.
const maxClusterIDLength = 63

var clusterIDPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Validate says what is wrong with an ID that names a cluster, in words for whoever
// chose it.
func (id ClusterID) Validate() error {
	switch {
	case id == "":
		return fmt.Errorf("a cluster ID is required: it names the cluster to its peers")
	case !clusterIDPattern.MatchString(string(id)):
		return fmt.Errorf("cluster ID %q has other characters than lower-case letters, digits and dashes inside", id)
	case len(id) > maxClusterIDLength:
		return fmt.Errorf("cluster ID %q has more than %d characters: it must fit into a label", id, maxClusterIDLength)
	}
	return nil
}

const (
	// ClusterIDConfigMapLabelValue is the value of app.kubernetes.io/name on the
	// ConfigMap that holds this cluster's ID (wire P2.1).
	ClusterIDConfigMapLabelValue = "clusterid-configmap"
	// ClusterIDConfigMapKey is its key (wire P2.1).
	ClusterIDConfigMapKey = "CLUSTER_ID"
)

// Labels that tell which cluster an object concerns (wire 7.2).
const (
	// RemoteClusterIDLabel names the peer that an object is about: Node, VirtualNode,
	// NamespaceMap, namespace, Secret, binding.
	RemoteClusterIDLabel = "liqo.io/remote-cluster-id"
	// TenantNamespaceLabel is "true" on the namespace kept for a peer (wire P2.2).
	TenantNamespaceLabel = "liqo.io/tenant-namespace"
	// TenantNamespacePrefix begins the default name of a peer's tenant namespace; its
	// ClusterID follows. Look up by the labels, not by the name (wire P2.2).
	TenantNamespacePrefix = "liqo-tenant-"
)

// Labels of replication between clusters (wire 6.4, 7.2, P3).
const (
	// ReplicationLabel is "true" on an object to be replicated, "false" on its copy.
	ReplicationLabel = "liqo.io/replication"
	// ReplicatedLabel is "true" on a copy.
	ReplicatedLabel = "liqo.io/replicated"
	// OriginIDLabel names, on a copy, the cluster that it came from.
	OriginIDLabel = "liqo.io/originID"
	// RemoteIDLabel names the cluster that an object is replicated to.
	RemoteIDLabel = "liqo.io/remoteID"
	// OwnershipLabel tells which side owns the status; it does not travel.
	OwnershipLabel = "liqo.io/ownership"
)

// Finalizers of the replicator (wire P3).
const (
	// ReplicatorFinalizer stays on a replicated object until its copy is gone.
	ReplicatorFinalizer = "crdreplicator.liqo.io/resource"
	// ReplicatorSecretFinalizer stays on a control-plane kubeconfig Secret until the
	// reflection through it has ended.
	ReplicatorSecretFinalizer = "crdreplicator.liqo.io/operator"
)

// Markers on webhook configurations (wire 2.1, 2.6).
const (
	// WebhookLabel is "true" on webhook configurations whose CA bundle the webhook
	// server keeps, and on the Secret with its certificate.
	WebhookLabel = "liqo.io/webhook"
	// WebhookSkipLabel is "true" on objects that the webhooks leave alone.
	WebhookSkipLabel = "liqo.io/webhook-skip"
)

// ManagedByLabel and ManagedByValue mark the bindings made for a peer
// (wire P2.6): app.kubernetes.io/managed-by=liqo.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedByValue = "liqo"
)
