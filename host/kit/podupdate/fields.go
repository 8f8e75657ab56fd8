// Package podupdate compares the fields of a pod that Kubernetes lets change while the pod runs,
// and computes the patches that bring them from one pod spec to another.
//
// Annotations record a digest of each field that was sent or applied, and only fields whose digest has
// changed are compared: policies and the admission of the provider change other fields. The digest of
// resources ends with a cryptographic hash. Annotations of earlier versions have no hash, and are
// compared without it; the provider adds the hash when it reconciles the ShadowPod.
//
// Both sides use it: the consumer for the spec of a ShadowPod, the provider for its pod. All
// functions are pure.
package podupdate

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Annotations that record field digests.
const (
	// SentAnnotation on a ShadowPod has the digests of the local pod's fields that the ShadowPod
	// was made from. A ShadowPod without it is never updated.
	SentAnnotation = "longshore.dev/local-pod-fields"
	// AppliedAnnotation on a remote pod has the digests of the ShadowPod's fields that the pod
	// was made from. A pod without it is never updated.
	AppliedAnnotation = "longshore.dev/applied-fields"
	// OptOutAnnotation with the value "false" on a local pod keeps the remote pod as it was
	// created.
	OptOutAnnotation = "longshore.dev/live-updates"
)

// Names of fields. Those of a container have its name after a slash.
const (
	fieldImage     = "image/"
	fieldResources = "resources/"
	fieldEphemeral = "ephemeral/"

	fieldPodResources = "resources"
	fieldDeadline     = "activeDeadlineSeconds"
	fieldTolerations  = "tolerations"
)

// hashSeparator is between the digest of resources and their hash.
const hashSeparator = "."

// Fields are the fields of a pod that may change, by name, with a digest of each value. Fields
// without a value are absent.
type Fields map[string]string

// FieldsOf returns the fields of a pod spec.
func FieldsOf(spec *corev1.PodSpec) Fields {
	fields := Fields{}
	set := func(name string, present bool, value any) {
		if present {
			fields[name] = digest(value)
		}
	}
	resources := func(name string, value *corev1.ResourceRequirements) {
		if value != nil && len(value.Requests)+len(value.Limits) > 0 {
			fields[name] = digest(value) + hashSeparator + hash(value)
		}
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			container := &containers[i]
			set(fieldImage+container.Name, container.Image != "", container.Image)
			resources(fieldResources+container.Name, &container.Resources)
		}
	}
	for i := range spec.EphemeralContainers {
		set(fieldEphemeral+spec.EphemeralContainers[i].Name, true, spec.EphemeralContainers[i].Name)
	}
	resources(fieldPodResources, spec.Resources)
	set(fieldDeadline, spec.ActiveDeadlineSeconds != nil, spec.ActiveDeadlineSeconds)
	set(fieldTolerations, len(spec.Tolerations) > 0, spec.Tolerations)
	return fields
}

// AtCreation returns the fields that a new pod has. A pod cannot be created with ephemeral
// containers: they are added afterwards.
func (f Fields) AtCreation() Fields {
	created := maps.Clone(f)
	maps.DeleteFunc(created, func(name, _ string) bool { return strings.HasPrefix(name, fieldEphemeral) })
	return created
}

// Changed returns the names of the fields that differ, in order.
func (f Fields) Changed(other Fields) []string {
	var names []string
	for name, value := range f {
		if !isSame(other[name], value) {
			names = append(names, name)
		}
	}
	for name := range other {
		if _, ok := f[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Take sets the named fields to those of other.
func (f Fields) Take(other Fields, names []string) {
	for _, name := range names {
		if value, ok := other[name]; ok {
			f[name] = value
		} else {
			delete(f, name)
		}
	}
}

// Encode returns the text of an annotation.
func (f Fields) Encode() string {
	parts := make([]string, 0, len(f))
	for _, name := range slices.Sorted(maps.Keys(f)) {
		parts = append(parts, name+"="+f[name])
	}
	return strings.Join(parts, ",")
}

// Decode is the inverse of Encode. Parts that are not valid are skipped.
func Decode(text string) Fields {
	fields := Fields{}
	for part := range strings.SplitSeq(text, ",") {
		if name, value, ok := strings.Cut(part, "="); ok {
			fields[name] = value
		}
	}
	return fields
}

// IsRecorded reports whether the text of an annotation has the fields of a pod spec.
func IsRecorded(spec *corev1.PodSpec, text string) bool {
	return len(FieldsOf(spec).Changed(Decode(text))) == 0
}

// Complete adds the hashes of other to the digests without one of the same values.
func (f Fields) Complete(other Fields) {
	for name, value := range other {
		if isSame(f[name], value) {
			f[name] = value
		}
	}
}

// isSame reports whether two digests are those of the same value. Earlier versions recorded no hash.
func isSame(a, b string) bool {
	digestA, hashA, _ := strings.Cut(a, hashSeparator)
	digestB, hashB, _ := strings.Cut(b, hashSeparator)
	return digestA == digestB && (hashA == hashB || hashA == "" || hashB == "")
}

// hash returns a hash for which no consumer finds a second value: its pod would keep resources that its
// Quota does not count any more.
func hash(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

func digest(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	h := fnv.New32a()
	h.Write(raw)
	return strconv.FormatUint(uint64(h.Sum32()), 36)
}
