package contract

// Point names an extension point: a decision that the host requests from policies.
type Point string

// The extension points. The first four are core: their default policies are
// bound even when no OffloadingPolicy exists. What else the contract says about each is in
// its [PointRules].
const (
	// PodMutation decides about a pod, when it is created in an offloaded namespace
	// ([MomentAdmission]) and as the last step of forging ([MomentOffload]).
	PodMutation Point = "PodMutation"
	// OffloadingPatch applies the VirtualNode's offloadingPatch to the remote draft
	// and decides the runtime class.
	OffloadingPatch Point = "OffloadingPatch"
	// AntiAffinityPreset turns the anti-affinity annotations of the local pod into a
	// podAntiAffinity of the remote draft.
	AntiAffinityPreset Point = "AntiAffinityPreset"
	// MetadataFilter decides which labels and annotations of an object are reflected.
	MetadataFilter Point = "MetadataFilter"
	// ResourceMutation has the last word about every reflected object: keep it, skip it
	// or change it. Nothing is bound to it by default.
	ResourceMutation Point = "ResourceMutation"
	// ShadowPodAdmission decides in the provider about the pods of consumers: it denies or
	// changes a ShadowPod before its resources are reserved. Nothing is bound to it by default.
	ShadowPodAdmission Point = "ShadowPodAdmission"
	// ResourceSliceAdmission decides in the provider what a consumer's ResourceSlice is
	// granted. Its default policy grants all that the slice asks for.
	ResourceSliceAdmission Point = "ResourceSliceAdmission"
)

// PointRules are what the contract says about an extension point.
type PointRules struct {
	Point Point
	// Export is the name of the wasm export that answers the point.
	Export string
	// Facts are the members that the facts object may have, those of the type of the point's facts.
	Facts []string
	// Writes are the fields of facts.object that a manifest may declare to write, with every verb.
	Writes []string
	// Denies and Skips report whether policies may deny or skip the object.
	Denies, Skips bool
	// Default is the name of the default policy, "" if nothing is bound by default.
	Default string
}

// rules is the table of the extension points: those of offloading in the order in which a pod
// meets them, then those of other objects, then those of the provider.
//   - MetadataFilter is first, because the anti-affinity preset selects by the labels of the
//     remote pods.
//   - The VirtualNode's patch comes before the preset, which adds to its affinity.
//   - The operator's own policies get the complete pod.
var rules = [...]PointRules{
	{
		Point: MetadataFilter, Export: "metadata_filter", Default: "default-metadatafilter",
		Facts:  []string{"object", "notReflected", "virtualNode"},
		Writes: []string{"/metadata/labels", "/metadata/annotations"},
	},
	{
		Point: OffloadingPatch, Export: "offloading_patch", Default: "default-offloadingpatch",
		Facts:  []string{"object", "local", "patch", "virtualNode"},
		Writes: []string{"/spec/nodeSelector", "/spec/tolerations", "/spec/affinity", "/spec/runtimeClassName"},
	},
	{
		Point: AntiAffinityPreset, Export: "anti_affinity_preset", Default: "default-antiaffinity",
		Facts:  []string{"object", "local"},
		Writes: []string{"/spec/affinity/podAntiAffinity"},
	},
	{
		Point: PodMutation, Export: "pod_mutation", Default: "default-podplacement", Denies: true,
		Facts:  []string{"object", "local", "offloading", "namespace", "request", "virtualNode", "runtimeClassName"},
		Writes: []string{"/metadata/labels", "/metadata/annotations", "/spec"},
	},
	{
		// The host narrows the writes for each kind. Identity, ownership and status are never writable.
		Point: ResourceMutation, Export: "resource_mutation", Skips: true,
		Facts:  []string{"object", "local", "virtualNode"},
		Writes: []string{"/metadata/labels", "/metadata/annotations", "/spec", "/data", "/binaryData"},
	},
	{
		// Metadata is not writable: the consumer owns it and keeps it up to date.
		Point: ShadowPodAdmission, Export: "shadow_pod_admission", Denies: true,
		Facts:  []string{"object", "tenant", "namespace", "request", "quota"},
		Writes: []string{"/spec"},
	},
	{
		Point: ResourceSliceAdmission, Export: "resource_slice_admission", Default: "default-resourceslice", Denies: true,
		Facts:  []string{"object", "tenant", "namespace", "defaults"},
		Writes: []string{"/status/resources"},
	},
}

// CorePoints lists the extension points of offloading that have an implicit default
// binding, in the order in which a pod meets them. [ResourceSliceAdmission] has one, too.
func CorePoints() []Point {
	return []Point{MetadataFilter, OffloadingPatch, AntiAffinityPreset, PodMutation}
}

// Points lists all extension points of this contract version, the core ones first.
func Points() []Point {
	points := make([]Point, len(rules))
	for i := range rules {
		points[i] = rules[i].Point
	}
	return points
}

// Rules returns what the contract says about the point, nil for a point that this contract
// version does not know. The caller must not alter it.
func (p Point) Rules() *PointRules {
	for i := range rules {
		if rules[i].Point == p {
			return &rules[i]
		}
	}
	return nil
}

// Export returns the name of the wasm export that answers the point, or "" for a
// point that this contract version does not know.
//
// Example: PodMutation.Export() is "pod_mutation".
func (p Point) Export() string {
	if known := p.Rules(); known != nil {
		return known.Export
	}
	return ""
}

// Exports every module has beside its points.
const (
	// ExportDescribe returns the module's [Manifest]; its input is empty.
	ExportDescribe = "describe"
	// ExportValidateSettings is optional: input a [SettingsRequest], output a [SettingsResponse].
	ExportValidateSettings = "validate_settings"
)

// Moment is the occasion of a request to a point that has several.
type Moment string

// The moments of PodMutation. The other points have none.
const (
	// MomentAdmission is the creation of a pod in an offloaded namespace.
	MomentAdmission Moment = "Admission"
	// MomentOffload is the forging of the remote pod.
	MomentOffload Moment = "Offload"
)
