// Package invariants checks what no policy may change in a pod that is created or offloaded.
// It compares the pod before and after the policies. A violation prevents the pod from being
// created or sent.
//
// The result must never be less isolated: for an offloaded pod, not less than the draft and
// not less than the local pod; for a pod that is created, not less than the owner's pod. An
// unset field counts as its default in Kubernetes. [Table] lists every field and its rule.
// docs/reference/invariants.md is generated from it, and a test fails if Kubernetes adds a
// field.
//
// All functions are pure and do not alter their arguments.
package invariants

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// Violation is a change that policies must not make.
type Violation struct {
	// Path of the field in the object, with names instead of indices:
	// "/spec/pod/containers[name=web]/securityContext/privileged".
	Path string
	// Problem describes the change.
	Problem string
	// Causes are the fields whose change can be the cause, as JSON pointers into the pod
	// that policies see ("/spec/hostNetwork").
	Causes []string
}

// Error lists all violations.
type Error struct{ Violations []Violation }

// Error implements error.
func (e *Error) Error() string {
	parts := make([]string, 0, len(e.Violations))
	for _, violation := range e.Violations {
		parts = append(parts, violation.Path+": "+violation.Problem)
	}
	return strings.Join(parts, "; ")
}

// Causes returns the causes of all violations, each once.
func (e *Error) Causes() []string {
	var all []string
	for _, violation := range e.Violations {
		all = append(all, violation.Causes...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// CheckPod compares a ShadowPod after the policies with its draft and with the local pod. The
// error is an [*Error].
func CheckPod(local *corev1.Pod, draft, after *offloadingv1beta1.ShadowPod) error {
	c := &check{root: "/spec/pod"}
	c.metadata(&draft.ObjectMeta, &after.ObjectMeta)
	c.offloaded(&draft.Spec.Pod, &after.Spec.Pod)
	c.unchanged(&draft.Spec.Pod, &after.Spec.Pod)
	c.credentials(&draft.Spec.Pod, &after.Spec.Pod)
	c.volumes(&draft.Spec.Pod, &after.Spec.Pod)
	for _, before := range []*corev1.PodSpec{&draft.Spec.Pod, &local.Spec} {
		c.pod(before, &after.Spec.Pod)
		c.containers(before, &after.Spec.Pod)
	}
	return c.err()
}

// CheckAdmission compares a pod that is created before and after the policies. The error is
// an [*Error].
func CheckAdmission(before, after *corev1.Pod) error {
	c := &check{root: "/spec"}
	c.metadata(&before.ObjectMeta, &after.ObjectMeta)
	c.admitted(&before.Spec, &after.Spec)
	c.unchanged(&before.Spec, &after.Spec)
	c.credentials(&before.Spec, &after.Spec)
	c.volumes(&before.Spec, &after.Spec)
	c.pod(&before.Spec, &after.Spec)
	c.containers(&before.Spec, &after.Spec)
	return c.err()
}

// check collects violations.
type check struct {
	// root is the path of the pod spec in the object.
	root       string
	violations []Violation
}

func (c *check) err() error {
	if len(c.violations) == 0 {
		return nil
	}
	slices.SortStableFunc(c.violations, func(a, b Violation) int { return strings.Compare(a.Path, b.Path) })
	return &Error{Violations: c.violations}
}

// add adds a violation at a path below the pod spec ("/hostNetwork") or in the metadata.
// Causes are fields below the pod spec; without any, the path is the cause.
func (c *check) add(path, problem string, causes ...string) {
	violation := Violation{Path: path, Problem: problem}
	if strings.HasPrefix(path, "/metadata/") {
		violation.Causes = []string{path}
	} else {
		violation.Path = c.root + path
		if len(causes) == 0 {
			causes = []string{path}
		}
		for _, cause := range causes {
			violation.Causes = append(violation.Causes, "/spec"+cause)
		}
	}
	c.addOnce(violation)
}

// addOnce adds a violation unless the same one is there.
func (c *check) addOnce(violation Violation) {
	isSame := func(v Violation) bool { return v.Path == violation.Path && v.Problem == violation.Problem }
	if !slices.ContainsFunc(c.violations, isSame) {
		c.violations = append(c.violations, violation)
	}
}

// forbid adds a violation if bad is true.
func (c *check) forbid(bad bool, path, problem string, causes ...string) {
	if bad {
		c.add(path, problem, causes...)
	}
}

func (c *check) metadata(before, after *metav1.ObjectMeta) {
	c.forbid(after.Name != before.Name, "/metadata/name", "changed")
	c.forbid(after.Namespace != before.Namespace, "/metadata/namespace", "changed")
	c.forbid(after.GenerateName != before.GenerateName, "/metadata/generateName", "changed")
	c.forbid(len(after.OwnerReferences) > len(before.OwnerReferences), "/metadata/ownerReferences", "added: the host sets the owners of objects that it sends")
	c.forbid(len(after.Finalizers) > len(before.Finalizers), "/metadata/finalizers", "added: no controller would remove them")
	c.reserved("labels", before.Labels, after.Labels)
	c.reserved("annotations", before.Annotations, after.Annotations)
	c.legacyProfiles(before.Annotations, after.Annotations)
}

// reserved checks the keys that are reserved for reflection. A removed key is allowed,
// because sealing restores it.
func (c *check) reserved(field string, before, after map[string]string) {
	for key, value := range after {
		if !remote.ReservedKey(key) {
			continue
		}
		was, had := before[key]
		c.forbid(!had, path("/metadata/"+field, key), "added: the key is reserved for reflection")
		c.forbid(had && was != value, path("/metadata/"+field, key), "changed: the key is reserved for reflection")
	}
}

// legacyProfiles checks annotations that older API servers and container runtimes read as
// security profiles and namespaces.
func (c *check) legacyProfiles(before, after map[string]string) {
	for _, side := range []map[string]string{before, after} {
		for key := range side {
			if before[key] != after[key] && isLegacyProfile(key) {
				c.add(path("/metadata/annotations", key), "changed: container runtimes read security profiles from it")
			}
		}
	}
}

func isLegacyProfile(annotation string) bool {
	for _, prefix := range []string{
		corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix,
		"seccomp.security.alpha.kubernetes.io/",
		"container.seccomp.security.alpha.kubernetes.io/",
		"io.kubernetes.cri-o.",
	} {
		if strings.HasPrefix(annotation, prefix) {
			return true
		}
	}
	return false
}

// offloaded checks the fields that protect the provider's nodes, whatever the local pod has.
func (c *check) offloaded(before, after *corev1.PodSpec) {
	const shared = "set to true: offloaded pods must not share a namespace with the provider's nodes"
	c.forbid(after.HostNetwork, "/hostNetwork", shared)
	c.forbid(after.HostPID, "/hostPID", shared)
	c.forbid(after.HostIPC, "/hostIPC", shared)
	c.forbid(after.NodeName != "", "/nodeName", "set: the provider's scheduler selects the node; use a node selector")
	c.forbid(len(after.EphemeralContainers) > len(before.EphemeralContainers), "/ephemeralContainers", "added: only the owner of the pod adds them")
}

// admitted checks the same fields of a pod that is created. The owner may set them, if the
// cluster's own admission allows it, but a policy may not.
func (c *check) admitted(before, after *corev1.PodSpec) {
	const shared = "set to true: the pod's owner did not set it"
	c.forbid(after.HostNetwork && !before.HostNetwork, "/hostNetwork", shared)
	c.forbid(after.HostPID && !before.HostPID, "/hostPID", shared)
	c.forbid(after.HostIPC && !before.HostIPC, "/hostIPC", shared)
	c.forbid(after.NodeName != before.NodeName, "/nodeName", "changed: the scheduler selects the node; use a node selector")
	c.forbid(len(after.EphemeralContainers) > len(before.EphemeralContainers), "/ephemeralContainers", "added: a pod cannot be created with them")
}

// unchanged checks the fields that no policy may change in any way.
func (c *check) unchanged(before, after *corev1.PodSpec) {
	c.forbid(after.ServiceAccountName != before.ServiceAccountName, "/serviceAccountName", "changed: policies must not choose the service account")
	c.forbid(after.DeprecatedServiceAccount != before.DeprecatedServiceAccount, "/serviceAccount", "changed: policies must not choose the service account")
	mountsToken := func(spec *corev1.PodSpec) bool {
		return spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken
	}
	c.forbid(mountsToken(after) && !mountsToken(before), "/automountServiceAccountToken", "no longer false: the pod would get a token of its service account")
	c.forbid(osOf(before) != osOf(after), "/os", "changed: it selects which security settings apply")
	isSystemClass := func(spec *corev1.PodSpec) bool { return strings.HasPrefix(spec.PriorityClassName, systemPriority) }
	c.forbid(isSystemClass(after) && after.PriorityClassName != before.PriorityClassName, "/priorityClassName",
		"set to a system class: the pod would preempt pods of the cluster itself")
}

// systemPriority is the prefix of priority classes that Kubernetes reserves for itself.
const systemPriority = "system-"

func osOf(spec *corev1.PodSpec) corev1.OSName {
	if spec.OS == nil {
		return ""
	}
	return spec.OS.Name
}

// named returns the path of a list item of the pod.
func named(list, name string) string { return "/" + list + "[name=" + name + "]" }

// path returns the path of a map key, escaped as in a JSON pointer.
func path(parent, key string) string { return parent + "/" + pointer.Replace(key) }

var pointer = strings.NewReplacer("~", "~0", "/", "~1")
