package v1beta1

// Keys of claims and volumes.
const (
	// StorageProvisioner is the provisioner of virtual storage classes: the volumes of such a
	// class are in the cluster of the first pod.
	StorageProvisioner = "liqo.io/storage"
	// RemoteStorageClassAnnotation on a claim names the class in the provider.
	RemoteStorageClassAnnotation = "liqo.io/remote-storage-class"
	// RemoteAccessModesAnnotation on a claim lists the access modes in the provider, separated by
	// commas.
	RemoteAccessModesAnnotation = "liqo.io/remote-access-modes"
	// StorageNamespaceLabel is "true" on the namespace of real claims.
	StorageNamespaceLabel = "liqo.io/storage-provisioner"
	// VirtualClaimNamespaceLabel and VirtualClaimNameLabel on a real claim identify the claim that
	// it has the volume of.
	VirtualClaimNamespaceLabel = "storage.liqo.io/virtual-pvc-namespace"
	VirtualClaimNameLabel      = "storage.liqo.io/virtual-pvc-name"
)

// Keys of Longshore's own with which the manager and the virtual kubelets of a provider agree
// about remote claims.
const (
	// StorageClusterLabel on a claim and on its volume is the ID of the provider that has the data.
	StorageClusterLabel = "storage.longshore.dev/cluster"
	// RemoteClaimLabel on a claim is the state of its remote claim.
	RemoteClaimLabel = "storage.longshore.dev/remote-claim"
	// ReclaimPolicyAnnotation on a claim and its remote claim is the reclaim policy of the local
	// volume.
	ReclaimPolicyAnnotation = "storage.longshore.dev/reclaim-policy"
	// ClaimUIDAnnotation on a remote claim is the UID of its local claim.
	ClaimUIDAnnotation = "storage.longshore.dev/claim-uid"
	// ClaimFinalizer is kept until the remote claim is deleted, or is to be retained.
	ClaimFinalizer = "storage.longshore.dev/remote-claim"
)

// The states of a remote claim, in their order. The manager sets Requested and Deleting, the virtual
// kubelet the others. A remote claim is Lost while the provider does not have one that was created.
const (
	RemoteClaimRequested = "Requested"
	RemoteClaimCreated   = "Created"
	RemoteClaimLost      = "Lost"
	RemoteClaimDeleting  = "Deleting"
	RemoteClaimDeleted   = "Deleted"
)
