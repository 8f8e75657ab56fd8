package v1beta1

import (
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterID identifies a cluster among its peers. It is a part of names and label values.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
type ClusterID string

const (
	// maxClusterIDLength is the maximum length of a label value in bytes.
	maxClusterIDLength = 63
	// maxNewClusterIDLength is what the name of a namespace has room for behind [TenantNamespacePrefix].
	maxNewClusterIDLength = maxClusterIDLength - len(TenantNamespacePrefix)
)

var clusterIDPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Validate returns an error if the ID is not a label value that matches the pattern.
func (id ClusterID) Validate() error {
	switch {
	case id == "":
		return fmt.Errorf("a cluster ID is required")
	case !clusterIDPattern.MatchString(string(id)):
		return fmt.Errorf("invalid cluster ID %q: it consists of lower-case letters, digits and dashes, and neither begins nor ends with a dash", id)
	case len(id) > maxClusterIDLength:
		return fmt.Errorf("invalid cluster ID %q: it has more than %d characters", id, maxClusterIDLength)
	}
	return nil
}

// ValidateNew returns an error also if the ID is too long for the tenant namespace of a new peering. One that
// has a tenant namespace keeps it, whatever its name is.
func (id ClusterID) ValidateNew() error {
	if err := id.Validate(); err != nil {
		return err
	}
	if len(id) > maxNewClusterIDLength {
		return fmt.Errorf("invalid cluster ID %q: it has more than %d characters, so that no peer can have the namespace %s%s: install that cluster with a shorter clusterID",
			id, maxNewClusterIDLength, TenantNamespacePrefix, id)
	}
	return nil
}

const (
	// ClusterIDConfigMapLabelValue is the value of app.kubernetes.io/name on the
	// ConfigMap that holds this cluster's ID.
	ClusterIDConfigMapLabelValue = "clusterid-configmap"
	// ClusterIDConfigMapKey is the key of the ID in this ConfigMap.
	ClusterIDConfigMapKey = "CLUSTER_ID"
)

// Labels with a cluster ID, and of tenant namespaces.
const (
	// RemoteClusterIDLabel is the ID of the peer on Nodes, VirtualNodes, NamespaceMaps,
	// namespaces, Secrets and bindings.
	RemoteClusterIDLabel = "liqo.io/remote-cluster-id"
	// TenantNamespaceLabel is "true" on the namespace kept for a peer.
	TenantNamespaceLabel = "liqo.io/tenant-namespace"
	// TenantNamespacePrefix is the prefix of the default name of a tenant namespace, followed
	// by the ID of the peer. Namespaces are looked up by labels, not by name.
	TenantNamespacePrefix = "liqo-tenant-"
)

// HasTenantLabel reports whether labels are those of a tenant namespace: its label may have any value
// but "false".
func HasTenantLabel(labels map[string]string) bool {
	value, ok := labels[TenantNamespaceLabel]
	return ok && value != "false"
}

// IsTenantNamespace reports whether a namespace has the labels of the tenant namespace of a
// peer.
func IsTenantNamespace(namespace metav1.Object, peer ClusterID) bool {
	return HasTenantLabel(namespace.GetLabels()) && peer != "" && namespace.GetLabels()[RemoteClusterIDLabel] == string(peer)
}

// IsOwn reports whether an object of a tenant namespace is this cluster's own request to the peer, and not
// the copy of a request of the peer. The API server lets peers write copies only.
func IsOwn(object metav1.Object) bool {
	labels := object.GetLabels()
	return labels[ReplicationLabel] == "true" && labels[ReplicatedLabel] != "true"
}

// Labels of replication between clusters.
const (
	// ReplicationLabel is "true" on an object to be replicated, "false" on its copy.
	ReplicationLabel = "liqo.io/replication"
	// ReplicatedLabel is "true" on a copy.
	ReplicatedLabel = "liqo.io/replicated"
	// OriginIDLabel is the ID of the source cluster on a copy.
	OriginIDLabel = "liqo.io/originID"
	// RemoteIDLabel is the ID of the cluster to which an object is replicated.
	RemoteIDLabel = "liqo.io/remoteID"
	// OwnershipLabel is the side that owns the status. It is not replicated.
	OwnershipLabel = "liqo.io/ownership"
)

// Finalizers of the replicator.
const (
	// ReplicatorFinalizer stays on a replicated object until its copy is gone.
	ReplicatorFinalizer = "crdreplicator.liqo.io/resource"
	// ReplicatorSecretFinalizer stays on a control-plane kubeconfig Secret until the
	// reflection through it has ended.
	ReplicatorSecretFinalizer = "crdreplicator.liqo.io/operator"
)

// Markers on webhook configurations.
const (
	// WebhookLabel is "true" on webhook configurations whose CA bundle the webhook
	// server keeps, and on the Secret with its certificate.
	WebhookLabel = "liqo.io/webhook"
	// WebhookSkipLabel is "true" on objects that the webhooks ignore.
	WebhookSkipLabel = "liqo.io/webhook-skip"
)

// ManagedByLabel and ManagedByValue mark the bindings of a peer:
// app.kubernetes.io/managed-by=liqo.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedByValue = "liqo"
)
