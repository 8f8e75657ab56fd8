// Package storage provisions the volumes of claims with a virtual storage class, one whose
// provisioner is liqo.io/storage: in this cluster or in a provider, wherever the first pod of a
// claim is scheduled. The volume has node affinity to its cluster, so that later
// pods of the claim follow the data.
//
// The volume of a claim whose pod is on a virtual node is a placeholder. The data is that of a
// remote claim, which the virtual kubelets of the provider create and delete
// (host/consumer/reflection/persistentvolumeclaim) as the labels of the claim request. The
// volume of another claim is a copy of the volume of a real claim in the storage namespace.
//
// The manager and the virtual kubelets agree by the labels of the claim. StorageClusterLabel is the
// provider, and RemoteClaimLabel the state of the remote claim:
//
//	Requested  set by the manager         the virtual kubelet of the selected node creates it
//	Created    set by the virtual kubelet the manager creates the local volume, which Kubernetes binds
//	Lost       set by the virtual kubelet the provider deleted it, and the claim waits for its user
//	Deleting   set by the manager         a virtual kubelet of the provider deletes it
//	Deleted    set by the virtual kubelet the manager removes the finalizer ClaimFinalizer
//
// A remote claim is sent once. Afterwards only the annotations change that say what becomes of its
// data: the reclaim policy of the local volume among them, which the provider gives to its volume
// before it deletes the namespace (host/provider/retention). A claim in a namespace that is not
// offloaded has no finalizer, since no virtual kubelet sees it, and the provider deletes the remote
// namespace.
//
// Data is deleted only while the claim, or its released volume, exists and the reclaim policy
// of the volume, which is read from the API server, is Delete.
//
// The package does not use sigs.k8s.io/sig-storage-lib-external-provisioner. The library calls
// one function that provisions, in one process, and has informers, queues and leases of its
// own. Here each volume waits for an object that another process writes, and the virtual
// kubelets, which would have to create volumes, must not: a volume can name any path of any node.
package storage
