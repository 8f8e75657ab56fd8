// Package processnode is a virtual-kubelet node whose containers are local processes. It
// runs a chart's Deployments on loopback, without containers and without root, for the
// demo and for integration tests only.
//
// What a process gets differs from what a container gets in three points, all for want
// of a mount namespace:
//
//   - a volume is a folder of the pod, and wherever an argument or an environment value
//     begins with a mount path, that path is replaced by the folder;
//   - the service account arrives as a kubeconfig in KUBECONFIG, whose token is a real
//     one, bound to the pod and renewed before it ends. So the process has the rights of
//     its service account and no others: a missing RBAC rule fails here;
//   - the pod's address is a loopback address of its own, set before the process starts.
//     Processes must listen on it ($(POD_IP)), or pods get in each other's way.
//
// The node itself works with the credential that its caller gives it, an administrator's:
// it stands for the kubelet and for the container runtime.
package processnode
