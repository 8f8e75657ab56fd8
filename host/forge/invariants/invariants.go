// Package invariants holds what no policy may change on a pod: on one that is offloaded,
// and on one that is being created. It is asked after the chain, with the pod as it was
// before and as the policies left it; a policy that breaks an invariant keeps the pod
// from being sent, or from being created.
//
// The order is "never less isolated than": the outcome of an offload is not less isolated
// than the draft, nor than the local pod; that of an admission, not less than the pod that
// its owner wrote. Kubernetes' defaults count: what is unset is as weak as its default.
// [Table] lists every field and its rule; docs/reference/invariants.md is made from it,
// and a test fails when Kubernetes adds a field that is not in it.
//
// Everything here is a pure function of its arguments, which are never altered.
package invariants

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// Violation is one thing that the policies must not do.
type Violation struct {
	// Path is where, as a path into the object with names in place of indices, for
	// example "/spec/pod/containers[name=web]/securityContext/privileged".
	Path string
	// Problem says what was done there.
	Problem string
	// Causes are the fields whose change can be the cause, as JSON pointers into the pod
	// that policies see ("/spec/hostNetwork"): who wrote one of them is to blame.
	Causes []string
}

// Error lists everything that is wrong with the outcome of a policy chain.
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

// CheckPod compares the outcome of a policy chain with the draft and with the local pod.
// The error is an [*Error].
func CheckPod(local *corev1.Pod, draft, after *offloadingv1beta1.ShadowPod) error {
	c := &check{root: "/spec/pod"}
	c.metadata(&draft.ObjectMeta, &after.ObjectMeta)
	c.offloaded(&after.Spec.Pod)
	c.same(&draft.Spec.Pod, &after.Spec.Pod)
	c.credentials(&draft.Spec.Pod, &after.Spec.Pod)
	c.volumes(&draft.Spec.Pod, &after.Spec.Pod)
	for _, before := range []*corev1.PodSpec{&draft.Spec.Pod, &local.Spec} {
		c.pod(before, &after.Spec.Pod)
		c.containers(before, &after.Spec.Pod)
	}
	return c.err()
}

// CheckAdmission compares a pod that is being created, as its owner wrote it, with what
// the policies made of it. The error is an [*Error].
func CheckAdmission(before, after *corev1.Pod) error {
	c := &check{root: "/spec"}
	c.metadata(&before.ObjectMeta, &after.ObjectMeta)
	c.admitted(&before.Spec, &after.Spec)
	c.same(&before.Spec, &after.Spec)
	c.credentials(&before.Spec, &after.Spec)
	c.volumes(&before.Spec, &after.Spec)
	c.pod(&before.Spec, &after.Spec)
	c.containers(&before.Spec, &after.Spec)
	return c.err()
}

// check collects violations.
type check struct {
	// root is the path of the pod's spec in the object.
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

// add takes a path below the pod's spec ("/hostNetwork") or one of the metadata, and the
// fields below the spec that can be the cause, when that is not the path alone.
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
	c.keep(violation)
}

// keep adds a violation once.
func (c *check) keep(violation Violation) {
	known := func(v Violation) bool { return v.Path == violation.Path && v.Problem == violation.Problem }
	if !slices.ContainsFunc(c.violations, known) {
		c.violations = append(c.violations, violation)
	}
}

// forbid adds a violation if something is the case.
func (c *check) forbid(bad bool, path, problem string, causes ...string) {
	if bad {
		c.add(path, problem, causes...)
	}
}

func (c *check) metadata(before, after *metav1.ObjectMeta) {
	c.forbid(after.Name != before.Name, "/metadata/name", "changed")
	c.forbid(after.Namespace != before.Namespace, "/metadata/namespace", "changed")
	c.forbid(after.GenerateName != before.GenerateName, "/metadata/generateName", "changed")
	c.forbid(len(after.OwnerReferences) > len(before.OwnerReferences), "/metadata/ownerReferences", "added: the host decides who owns what it sends")
	c.forbid(len(after.Finalizers) > len(before.Finalizers), "/metadata/finalizers", "added: nobody would remove them")
	c.reserved("labels", before.Labels, after.Labels)
	c.reserved("annotations", before.Annotations, after.Annotations)
	c.legacyProfiles(before.Annotations, after.Annotations)
}

// reserved holds the keys that are reflection's own (T40). One that is gone is no harm:
// the seal puts it back.
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

// legacyProfiles are annotations that older API servers and container runtimes turn into
// profiles and namespaces.
func (c *check) legacyProfiles(before, after map[string]string) {
	for _, side := range []map[string]string{before, after} {
		for key := range side {
			if before[key] != after[key] && confines(key) {
				c.add(path("/metadata/annotations", key), "changed: container runtimes take their confinement from it")
			}
		}
	}
}

func confines(annotation string) bool {
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

// offloaded holds what the provider's nodes and the provider's own accounts are guarded
// by, whatever the local pod has.
func (c *check) offloaded(after *corev1.PodSpec) {
	const shared = "set to true: offloaded pods share no namespace with the provider's nodes"
	c.forbid(after.HostNetwork, "/hostNetwork", shared)
	c.forbid(after.HostPID, "/hostPID", shared)
	c.forbid(after.HostIPC, "/hostIPC", shared)
	c.forbid(after.NodeName != "", "/nodeName", "set: the provider's scheduler picks the node; use a node selector")
	c.forbid(len(after.EphemeralContainers) > 0, "/ephemeralContainers", "added: a pod cannot be created with them")
}

// admitted is the same for a pod that is being created: its owner may have asked for
// it, and the cluster's own admission may allow it to the owner, but not to a policy.
func (c *check) admitted(before, after *corev1.PodSpec) {
	const shared = "set to true: its owner did not ask for it"
	c.forbid(after.HostNetwork && !before.HostNetwork, "/hostNetwork", shared)
	c.forbid(after.HostPID && !before.HostPID, "/hostPID", shared)
	c.forbid(after.HostIPC && !before.HostIPC, "/hostIPC", shared)
	c.forbid(after.NodeName != before.NodeName, "/nodeName", "changed: the scheduler picks the node; use a node selector")
	c.forbid(len(after.EphemeralContainers) > len(before.EphemeralContainers), "/ephemeralContainers", "added: a pod cannot be created with them")
}

// same holds what is not the policies' to decide at all.
func (c *check) same(before, after *corev1.PodSpec) {
	c.forbid(after.ServiceAccountName != before.ServiceAccountName, "/serviceAccountName", "changed: it is not for a policy to say which account the pod has")
	c.forbid(after.DeprecatedServiceAccount != before.DeprecatedServiceAccount, "/serviceAccount", "changed: it is not for a policy to say which account the pod has")
	mounted := func(spec *corev1.PodSpec) bool {
		return spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken
	}
	c.forbid(mounted(after) && !mounted(before), "/automountServiceAccountToken", "no longer false: the pod would hold a token of its account")
	c.forbid(osOf(before) != osOf(after), "/os", "changed: it says which security settings count")
	system := func(spec *corev1.PodSpec) bool { return strings.HasPrefix(spec.PriorityClassName, systemPriority) }
	c.forbid(system(after) && after.PriorityClassName != before.PriorityClassName, "/priorityClassName",
		"set to a class of the system: the pod would push the cluster's own from the nodes")
}

// systemPriority begins the names of the classes that Kubernetes reserves for itself.
const systemPriority = "system-"

func osOf(spec *corev1.PodSpec) corev1.OSName {
	if spec.OS == nil {
		return ""
	}
	return spec.OS.Name
}

// named is the path of a list item of the pod.
func named(list, name string) string { return "/" + list + "[name=" + name + "]" }

// path is a map key below a path, escaped as in a JSON pointer.
func path(parent, key string) string {
	return parent + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
