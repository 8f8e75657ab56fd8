// Package network allocates the networks and addresses of a peering: the CIDRs
// of Networks, the addresses of IPs, and what the networks of a peer are remapped to in its
// Configuration. It keeps the IPs of the API server and of offloaded pods. It configures no gateway and no
// route.
//
// The state of the allocation are the Networks and IPs. An allocation ends with its object, so the
// objects need no finalizer, and nothing blocks an uninstallation. The reference has a server with a tree
// in its memory, which is compared with the objects every two minutes, and finalizers that release what an
// object had.
//
// One worker allocates for each kind. Before the first allocation it lists the objects from the API server,
// not from a cache, which may lack the writes of a previous leader. Afterwards it knows its own last
// writes, and drops each when the object is gone. A write that failed counts: it may have reached the API
// server, so its CIDR or address stays with the object, and the next attempt writes the same. Networks of
// the cluster itself are fixed before they have a status: a peer whose objects are reconciled first does
// not get the pod CIDR of this cluster.
//
// A Configuration is what translates, whichever component writes it: a fabric, an administrator or the
// manager (ipam.enabled). Readers trust it when its condition is true for its generation. A peer without
// Configuration uses the same addresses, and its ForeignCluster shows the networking module as disabled.
// Where Configurations are used, a fabric or an administrator also creates the Connection of the peer;
// without it, endpoints of the peer are not ready, and neither is the virtual node, unless it does not
// check the network.
//
// Translations are not stored: the provider reads the Configuration at every reconciliation, and a
// virtual kubelet holds the current pairs of CIDRs; a change decides all objects again. While a change is
// not complete, the previous translation stays. Before the first one, the addresses of pods are left out,
// since an address of another network may be that of a local pod. Only IPv4 is translated.
package network
