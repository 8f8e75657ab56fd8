package contract

// ResourceSliceAdmissionFacts are the facts of [ResourceSliceAdmission], which the provider
// asks about each ResourceSlice of its own class, again after every change of the slice and
// of the policies.
//
// Object is the slice. What is in /status/resources after the policies is granted; it is
// empty before them. The default policy, with order 0, fills in what the slice asks for, so
// a policy with a higher order changes that, and one with a lower order may deny.
//
// Example:
//
//	{"object":{"metadata":{"name":"gpu","namespace":"liqo-tenant-rome"},"spec":{"resources":{"cpu":"64"}},
//	  "status":{"resources":{"cpu":"64","memory":"8Gi"}}},
//	 "tenant":{"clusterID":"rome"},"namespace":{"name":"liqo-tenant-rome"},"defaults":{"cpu":"4","memory":"8Gi"}}
type ResourceSliceAdmissionFacts struct {
	// Object is the slice.
	Object ResourceSlice `json:"object"`
	// Tenant is the consumer that asks.
	Tenant Tenant `json:"tenant"`
	// Namespace is the tenant's, in the provider.
	Namespace Metadata `json:"namespace"`
	// Defaults are granted by the default policy of resources that the slice does not name:
	// quantities of Kubernetes, as the provider is configured.
	Defaults map[string]string `json:"defaults,omitempty"`
}

// ResourceSlice is the view of a ResourceSlice.
//
// Example:
//
//	{"metadata":{"name":"gpu"},"spec":{"class":"default","resources":{"cpu":"64"}},"status":{"resources":{"cpu":"64"}}}
type ResourceSlice struct {
	// Metadata of the slice. The consumer writes its labels and annotations.
	Metadata Metadata `json:"metadata"`
	// Spec is what the consumer asks for.
	Spec ResourceSliceSpec `json:"spec"`
	// Status is what is granted.
	Status ResourceSliceStatus `json:"status"`
}

// ResourceSliceSpec is what a consumer asks for.
//
// Example:
//
//	{"class":"default","resources":{"cpu":"64","nvidia.com/gpu":"2"}}
type ResourceSliceSpec struct {
	// Class of the slice; empty means default.
	Class string `json:"class,omitempty"`
	// Resources that are requested: quantities of Kubernetes.
	Resources map[string]string `json:"resources,omitempty"`
}

// ResourceSliceStatus is what a provider grants.
//
// Example:
//
//	{"resources":{"cpu":"64","memory":"8Gi"}}
type ResourceSliceStatus struct {
	// Resources that are granted: quantities of Kubernetes.
	Resources map[string]string `json:"resources,omitempty"`
}
