package contract

// ShadowPodAdmissionFacts are the facts of [ShadowPodAdmission], which the provider asks when
// a consumer creates a ShadowPod, and when it changes the spec of one.
//
// Object is the pod of the ShadowPod. A policy may write its spec, never its metadata. The
// host checks afterwards that the pod is not less isolated than before, and what it checks
// without policies: the tenant, the quota, the Pod Security level.
//
// Example:
//
//	{"object":{"metadata":{"name":"web-0","namespace":"shop-rome"},"spec":{"containers":[{"name":"web","image":"web:1"}]}},
//	 "tenant":{"clusterID":"rome"},"namespace":{"name":"shop-rome"},"request":{"user":"gpu-0123456789ab"},
//	 "quota":{"resources":{"cpu":"4","pods":"110"},"used":{"cpu":"500m","pods":"1"},"limitsEnforcement":"None"}}
type ShadowPodAdmissionFacts struct {
	// Object is the pod of the ShadowPod; its name and namespace are those in the provider.
	Object Pod `json:"object"`
	// Tenant is the consumer to which the namespace belongs.
	Tenant Tenant `json:"tenant"`
	// Namespace of the ShadowPod in the provider.
	Namespace Metadata `json:"namespace"`
	// Request has the user who creates or changes the ShadowPod: the virtual kubelet of the
	// consumer.
	Request AdmissionRequest `json:"request"`
	// Quota of the user; absent when the provider enforces none, and when the user has none.
	Quota *Quota `json:"quota,omitempty"`
}

// Tenant is a consumer, as the provider knows it.
//
// Example:
//
//	{"clusterID":"rome"}
type Tenant struct {
	// ClusterID of the consumer. The provider has verified it.
	ClusterID string `json:"clusterID"`
}

// Quota is what a user of a consumer may use. Amounts are quantities of Kubernetes.
//
// Example:
//
//	{"resources":{"cpu":"4","pods":"110"},"used":{"cpu":"500m","pods":"1"},"limitsEnforcement":"Hard"}
type Quota struct {
	// Resources that are granted.
	Resources map[string]string `json:"resources,omitempty"`
	// Used by the live ShadowPods of the user. It may be some seconds old: the host decides
	// after the policies whether the pod fits.
	Used map[string]string `json:"used,omitempty"`
	// LimitsEnforcement is None, Soft or Hard.
	LimitsEnforcement string `json:"limitsEnforcement,omitempty"`
}
