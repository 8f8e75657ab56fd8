// Package host is the Go side of Longshore: everything that runs in a cluster.
//
// The host gathers facts and enforces invariants. Policies are pure functions from
// facts to operations. One typed contract connects the two (sdk/contract).
//
// # The life of an offloaded pod
//
// The comment of each package named here
// begins with its stage.
//
//	1 Admit     a pod is created in an offloaded namespace; toleration and node affinity are
//	            added by strategy            host/consumer/admission/podplacement   PodMutation (Admission)
//	2 Schedule  kube-scheduler picks the virtual node; ours is only the node's shape: capacity,
//	            labels, taints, lease        host/consumer/node
//	3 Accept    the virtual kubelet sees the pod bound to its node
//	                                         host/consumer/kubelet
//	4 Forge     the ShadowPod is built from the pod, patched by the policy chain, checked against
//	            the invariants               host/forge/remote, host/policy/chain   MetadataFilter →
//	                                         OffloadingPatch → AntiAffinityPreset → PodMutation (Offload)
//	                                                                                → ResourceMutation
//	5 Send      the ShadowPod is created in the provider cluster, and what the pod needs with it
//	                                         host/consumer/reflection/{pod,mirror}
//	                                                                                MetadataFilter, ResourceMutation
//	6 Run       the provider checks the ShadowPod and turns it into a pod
//	                                         host/provider/admission/shadowpod      ShadowPodAdmission
//	                                         host/provider/shadowpod, host/forge/provider
//	7 Report    the remote pod's status becomes the local pod's status
//	                                         host/consumer/reflection/pod, host/forge/local;
//	            while its node is not ready  host/consumer/podstatus
//	8 Withdraw  delete, evict, or lose the provider: the order in which the two sides let go
//	                                         host/consumer/reflection/pod
//
// # Two words for the two sides
//
// Consumer and provider name a cluster's role; local and remote name the two ends
// of one reflected object, seen from the consumer. Packages below consumer and
// provider never import each other: they meet on the wire.
//
// # Where the rest is
//
// host/apis holds the custom resources; host/forge the pure builders; host/policy
// the sandbox and the chain; host/policysource loads policies from the cluster;
// host/peering copies objects between clusters (replication) and builds the objects of
// a peering, with a handshake (authentication) and without (manual); host/app composes
// the processes that cmd/longshore starts.
package host
