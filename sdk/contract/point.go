package contract

// Point names an extension point: a decision that the host requests from policies.
type Point string

// The extension points. The first four are core: their default policies are
// bound even when no OffloadingPolicy exists.
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

// CorePoints lists the extension points of offloading that have an implicit default
// binding, in the order in which a pod meets them. [ResourceSliceAdmission] has one, too.
func CorePoints() []Point {
	return []Point{MetadataFilter, OffloadingPatch, AntiAffinityPreset, PodMutation}
}

// Points lists all extension points of this contract version, the core ones first.
func Points() []Point {
	return append(CorePoints(), ResourceMutation, ShadowPodAdmission, ResourceSliceAdmission)
}

// Export returns the name of the wasm export that answers the point, or "" for a
// point that this contract version does not know.
//
// Example: PodMutation.Export() is "pod_mutation".
func (p Point) Export() string {
	switch p {
	case PodMutation:
		return "pod_mutation"
	case OffloadingPatch:
		return "offloading_patch"
	case AntiAffinityPreset:
		return "anti_affinity_preset"
	case MetadataFilter:
		return "metadata_filter"
	case ResourceMutation:
		return "resource_mutation"
	case ShadowPodAdmission:
		return "shadow_pod_admission"
	case ResourceSliceAdmission:
		return "resource_slice_admission"
	default:
		return ""
	}
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
