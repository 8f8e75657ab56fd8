package contract

// Request is a request of the host to a policy.
//
// Facts is a JSON object that holds only what the module's manifest declares in
// reads: a field that was not declared is absent, whatever the object holds. Lists
// keep their length under projection. The typed form of Facts for each point is
// [PodMutationFacts], [OffloadingPatchFacts], [AntiAffinityPresetFacts],
// [MetadataFilterFacts], [ResourceMutationFacts], [ShadowPodAdmissionFacts] and
// [ResourceSliceAdmissionFacts].
//
// Example:
//
//	{"version":"v1alpha1","point":"PodMutation","moment":"Offload","settings":{"mirror":"mirror.example"},
//	 "facts":{"object":{"spec":{"containers":[{"name":"web","image":"web:1"}]}}}}
type Request struct {
	// Version is the negotiated contract version.
	Version string `json:"version"`
	// Point is the extension point of the request.
	Point Point `json:"point"`
	// Moment is set for PodMutation only.
	Moment Moment `json:"moment,omitempty"`
	// Settings is the binding's spec.settings, absent when it has none.
	Settings RawMessage `json:"settings,omitempty"`
	// Facts is the projected facts object of the point.
	Facts RawMessage `json:"facts"`
}

// Response is the answer of a policy. An empty list of operations changes nothing. The
// host refuses unknown fields.
//
// Example:
//
//	{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/containers[name=web]/image","value":"mirror.example/web:1"}]}
type Response struct {
	// Version must equal the request's version.
	Version string `json:"version"`
	// Operations change facts.object, in order. Every operation must lie inside the
	// writes declared by the manifest.
	Operations []Operation `json:"operations,omitempty"`
	// Deny refuses the object. Operations are then ignored. Only PodMutation,
	// ShadowPodAdmission and ResourceSliceAdmission may deny.
	Deny *Denial `json:"deny,omitempty"`
	// Skip keeps the object from being reflected. Operations are then ignored. Only ResourceMutation
	// may skip.
	Skip *Skip `json:"skip,omitempty"`
	// Warnings are shown to the user who made the request, at most [MaxWarnings].
	Warnings []string `json:"warnings,omitempty"`
}

// Denial is the reason why a policy refuses an object.
//
// Example:
//
//	{"reason":"TooExpensive","message":"pods with GPUs stay at home"}
type Denial struct {
	// Reason is a CamelCase word for machines.
	Reason string `json:"reason"`
	// Message is a sentence for the person who created the object.
	Message string `json:"message"`
}

// SettingsRequest is the input of validate_settings.
//
// Example:
//
//	{"version":"v1alpha1","points":["PodMutation"],"settings":{"rewrites":[]}}
type SettingsRequest struct {
	// Version is the negotiated contract version.
	Version string `json:"version"`
	// Points are the extension points at which the settings are to be used; none means
	// all that the module answers.
	Points []Point `json:"points,omitempty"`
	// Settings is the binding's spec.settings, null when it has none.
	Settings RawMessage `json:"settings"`
}

// SettingsResponse is the output of validate_settings.
//
// Example:
//
//	{"version":"v1alpha1","valid":false,"message":"spec.settings.rewrites is empty"}
type SettingsResponse struct {
	// Version must equal the request's version.
	Version string `json:"version"`
	// Valid is set when the module accepts the settings.
	Valid bool `json:"valid"`
	// Message names the problem and the field; required when Valid is false.
	Message string `json:"message,omitempty"`
}
