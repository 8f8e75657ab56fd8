// Package network allocates the networks and addresses of a peering (wire P5.2 and P5.3): the CIDRs
// of Networks, the addresses of IPs, and what the networks of a peer are remapped to in its
// Configuration. It keeps the IPs of the API server and of offloaded pods. It configures no gateway and no
// route.
//
// The state of the allocation are the Networks and IPs. An allocation ends with its object, so the
// objects need no finalizer.
package network
