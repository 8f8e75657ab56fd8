package contract

// PodMutationFacts are the facts of [PodMutation].
//
// At MomentAdmission Object is the pod being created and Offloading, Namespace,
// RuntimeClassName and Request are set. At MomentOffload Object is the remote
// draft, Local the local pod and VirtualNode is set.
//
// Example:
//
//	{"object":{"metadata":{"name":"web-0"}},"offloading":{"podOffloadingStrategy":"Remote",
//	 "clusterSelector":{"nodeSelectorTerms":[]}},"namespace":{"name":"shop"},"request":{"user":"ada"},"runtimeClassName":"liqo"}
type PodMutationFacts struct {
	// Object is the pod being created, or the remote draft.
	Object Pod `json:"object"`
	// Local is the local pod; set at MomentOffload.
	Local *Pod `json:"local,omitempty"`
	// Offloading is the spec of the namespace's NamespaceOffloading; set at MomentAdmission.
	Offloading *NamespaceOffloading `json:"offloading,omitempty"`
	// Namespace of the pod; set at MomentAdmission.
	Namespace *Metadata `json:"namespace,omitempty"`
	// Request has the user who creates the pod; set at MomentAdmission.
	Request *AdmissionRequest `json:"request,omitempty"`
	// VirtualNode that the pod is bound to; set at MomentOffload.
	VirtualNode *VirtualNode `json:"virtualNode,omitempty"`
	// RuntimeClassName is the name of the cluster's Liqo runtime class, "liqo" by default.
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
}

// NamespaceOffloading is the spec of the NamespaceOffloading of the pod's namespace.
//
// Example:
//
//	{"podOffloadingStrategy":"LocalAndRemote","clusterSelector":{"nodeSelectorTerms":
//	 [{"matchExpressions":[{"key":"region","operator":"In","values":["eu"]}]}]}}
type NamespaceOffloading struct {
	// PodOffloadingStrategy is Local, Remote or LocalAndRemote.
	PodOffloadingStrategy string `json:"podOffloadingStrategy"`
	// ClusterSelector selects the virtual nodes that the pods may go to; no term selects all.
	ClusterSelector NodeSelector `json:"clusterSelector"`
}

// AdmissionRequest describes the request that creates the pod.
//
// Example:
//
//	{"user":"ada","groups":["system:authenticated"],"dryRun":true}
type AdmissionRequest struct {
	// User is the name of the user who creates the pod.
	User string `json:"user"`
	// Groups of the user.
	Groups []string `json:"groups,omitempty"`
	// DryRun is set when the pod will not be stored.
	DryRun bool `json:"dryRun,omitempty"`
}

// VirtualNode is what is known of the virtual node that a pod is bound to.
//
// Example:
//
//	{"name":"milan","providerClusterID":"milan","consumerClusterID":"rome","labels":{"region":"eu"}}
type VirtualNode struct {
	// Name of the virtual node, and of its Node.
	Name string `json:"name"`
	// ProviderClusterID is the cluster that runs the pods.
	ProviderClusterID string `json:"providerClusterID"`
	// ConsumerClusterID is the cluster that owns them.
	ConsumerClusterID string `json:"consumerClusterID"`
	// Labels of the VirtualNode's spec, which its Node has.
	Labels map[string]string `json:"labels,omitempty"`
}
