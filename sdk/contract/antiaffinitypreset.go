package contract

// AntiAffinityPresetFacts are the facts of [AntiAffinityPreset].
//
// Example:
//
//	{"object":{"metadata":{"labels":{"app":"web","offloading.liqo.io/nodename":"milan"}}},
//	 "local":{"metadata":{"annotations":{"liqo.io/anti-affinity-preset":"soft"}}}}
type AntiAffinityPresetFacts struct {
	// Object is the remote draft so far. Its metadata.labels are those after the
	// metadata filter, so they contain the node name label and lack origin and
	// destination.
	Object Pod `json:"object"`
	// Local is the local pod, unfiltered.
	Local Pod `json:"local"`
}
