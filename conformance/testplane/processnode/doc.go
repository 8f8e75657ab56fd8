// Package processnode is a virtual-kubelet node whose containers are local processes. It
// runs a chart's Deployments on loopback, without containers and without root, for the
// demo and for integration tests only.
//
// What a process gets differs from what a container gets in three points, all for want
// of a mount namespace:
//
//   - a volume is a folder of the pod, and wherever a path in an argument or an
//     environment value begins with a mount path, the folder takes its place. ConfigMaps
//     and Secrets are followed; the modes of files are not kept, they are private;
//   - where the API server mounts a service account, the process gets KUBECONFIG, which
//     names the files of that volume: the token (a real one, bound to the pod, renewed
//     before it ends) and the authority. So the process has the rights of its service
//     account and no others: a missing RBAC rule fails here. A pod that wants no token
//     (automountServiceAccountToken: false) gets no KUBECONFIG;
//   - the pod's address is a loopback address of its own, set before the process starts.
//     Processes must listen on it ($(POD_IP)), or pods get in each other's way.
//
// Nothing routes a ClusterIP on loopback, and the API server refuses loopback addresses in
// EndpointSlices. So the node plays kube-proxy for Services of type ExternalName whose
// name is a loopback address and that select pods: it listens there and passes each
// connection on to one of the node's pods that are ready, in turn (or to those that are
// leaving and still ready, when no other is). Connections stay when endpoints change.
// Without endpoints they are refused. One thing is kinder than kube-proxy: a pod that
// refuses a connection is passed over at once, before its status changes.
//
// What cannot be had this way (other volumes, exec probes, sidecars, lifecycle hooks, …)
// fails the pod with a message that names it: see unsupported. Limits on resources and
// security contexts have no effect.
//
// A process ends with its node, also when that is killed, and everything in its process
// group ends with the process. Only what left the group (setsid) and outlives a killed
// node is out of reach.
//
// The node itself works with the credential that its caller gives it, an administrator's:
// it stands for the kubelet and for the container runtime.
package processnode
