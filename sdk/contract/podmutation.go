package contract

// PodMutationFacts are the facts of [PodMutation].
//
// At MomentAdmission Object is the pod being created and Offloading, Namespace,
// RuntimeClassName and Request are set. At MomentOffload Object is the remote
// draft, Local the local pod and VirtualNode is set.
type PodMutationFacts struct {
	Object      Pod                  `json:"object"`
	Local       *Pod                 `json:"local,omitempty"`
	Offloading  *NamespaceOffloading `json:"offloading,omitempty"`
	Namespace   *Metadata            `json:"namespace,omitempty"`
	Request     *AdmissionRequest    `json:"request,omitempty"`
	VirtualNode *VirtualNode         `json:"virtualNode,omitempty"`
	// RuntimeClassName is the name of the cluster's Liqo runtime class, "liqo" by default.
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
}

// NamespaceOffloading is the spec of the NamespaceOffloading of the pod's namespace.
type NamespaceOffloading struct {
	// PodOffloadingStrategy is Local, Remote or LocalAndRemote.
	PodOffloadingStrategy string       `json:"podOffloadingStrategy"`
	ClusterSelector       NodeSelector `json:"clusterSelector"`
}

// AdmissionRequest says who creates the pod.
type AdmissionRequest struct {
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	DryRun bool     `json:"dryRun,omitempty"`
}

// VirtualNode is what is known of the virtual node that a pod is bound to.
type VirtualNode struct {
	Name              string            `json:"name"`
	ProviderClusterID string            `json:"providerClusterID"`
	ConsumerClusterID string            `json:"consumerClusterID"`
	Labels            map[string]string `json:"labels,omitempty"`
}
