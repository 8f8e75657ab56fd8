// Package invariants holds what no policy may change on a pod that is offloaded. It is
// asked after the chain, with the pod as the host drafted it and as the policies left
// it; a policy that breaks an invariant keeps the pod from being sent.
//
// The rule: the outcome is never less isolated than the draft, nor than the local pod.
// Kubernetes' defaults count: what is unset is as weak as its default. Everything here
// is a pure function of its arguments, which are never altered.
package invariants

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// Violation is one thing that the policies must not do.
type Violation struct {
	// Path is where, as a path into the ShadowPod with names in place of indices, for
	// example "/spec/pod/containers[name=web]/securityContext/privileged".
	Path string
	// Problem says what was done there.
	Problem string
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

// CheckPod compares the outcome of a policy chain with the draft and with the local pod.
// The error is an [*Error].
func CheckPod(local *corev1.Pod, draft, after *offloadingv1beta1.ShadowPod) error {
	c := &check{}
	c.identity(draft, after)
	c.reserved("labels", draft.Labels, after.Labels)
	c.reserved("annotations", draft.Annotations, after.Annotations)
	c.legacyProfiles(draft.Annotations, after.Annotations)
	c.placement(&draft.Spec.Pod, &after.Spec.Pod)
	c.tokens(&draft.Spec.Pod, &after.Spec.Pod)
	for _, before := range []*corev1.PodSpec{&draft.Spec.Pod, &local.Spec} {
		c.pod(before, &after.Spec.Pod)
		c.volumes(before, &after.Spec.Pod)
		c.containers(before, &after.Spec.Pod)
	}
	if len(c.violations) == 0 {
		return nil
	}
	return &Error{Violations: c.violations}
}

// check collects violations.
type check struct{ violations []Violation }

func (c *check) add(path, format string, args ...any) {
	violation := Violation{Path: path, Problem: fmt.Sprintf(format, args...)}
	if !slices.Contains(c.violations, violation) {
		c.violations = append(c.violations, violation)
	}
}

// forbid adds a violation if something is the case.
func (c *check) forbid(bad bool, path, problem string) {
	if bad {
		c.add(path, "%s", problem)
	}
}

func (c *check) identity(draft, after *offloadingv1beta1.ShadowPod) {
	c.forbid(after.Name != draft.Name, "/metadata/name", "changed")
	c.forbid(after.Namespace != draft.Namespace, "/metadata/namespace", "changed")
	c.forbid(after.GenerateName != draft.GenerateName, "/metadata/generateName", "changed")
	c.forbid(len(after.OwnerReferences) > len(draft.OwnerReferences), "/metadata/ownerReferences", "added: the host decides who owns what it sends")
	c.forbid(len(after.Finalizers) > len(draft.Finalizers), "/metadata/finalizers", "added: nobody would remove them")
}

// reserved holds the keys that are reflection's own (T40). One that is gone is no harm:
// the seal puts it back.
func (c *check) reserved(field string, draft, after map[string]string) {
	for key, value := range after {
		if !remote.ReservedKey(key) {
			continue
		}
		before, had := draft[key]
		c.forbid(!had, path("/metadata/"+field, key), "added: the key is reserved for reflection")
		c.forbid(had && before != value, path("/metadata/"+field, key), "changed: the key is reserved for reflection")
	}
}

// legacyProfiles are annotations that older API servers turn into AppArmor profiles.
func (c *check) legacyProfiles(draft, after map[string]string) {
	for _, side := range []map[string]string{draft, after} {
		for key := range side {
			if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) && draft[key] != after[key] {
				c.add(path("/metadata/annotations", key), "changed: it selects an AppArmor profile")
			}
		}
	}
}

// placement holds what the provider's nodes and the provider's own accounts are guarded by.
func (c *check) placement(draft, after *corev1.PodSpec) {
	c.forbid(after.HostNetwork, "/spec/pod/hostNetwork", "set to true: offloaded pods share no namespace with the provider's nodes")
	c.forbid(after.HostPID, "/spec/pod/hostPID", "set to true: offloaded pods share no namespace with the provider's nodes")
	c.forbid(after.HostIPC, "/spec/pod/hostIPC", "set to true: offloaded pods share no namespace with the provider's nodes")
	c.forbid(after.NodeName != "", "/spec/pod/nodeName", "set: the provider's scheduler picks the node; use a node selector")
	c.forbid(after.ServiceAccountName != draft.ServiceAccountName, "/spec/pod/serviceAccountName", "changed: the host decides which account the pod has")
	c.forbid(after.DeprecatedServiceAccount != draft.DeprecatedServiceAccount, "/spec/pod/serviceAccount", "changed: the host decides which account the pod has")
	mounted := after.AutomountServiceAccountToken == nil || *after.AutomountServiceAccountToken
	drafted := draft.AutomountServiceAccountToken == nil || *draft.AutomountServiceAccountToken
	c.forbid(mounted && !drafted, "/spec/pod/automountServiceAccountToken", "no longer false: the pod would hold a token of the provider")
	c.forbid(len(after.EphemeralContainers) > 0, "/spec/pod/ephemeralContainers", "added: a pod cannot be created with them")
}

// tokens holds that no credential of the provider is projected into the pod beyond what
// the draft has.
func (c *check) tokens(draft, after *corev1.PodSpec) {
	had := map[string]int{}
	for i := range draft.Volumes {
		had[draft.Volumes[i].Name] = credentials(&draft.Volumes[i])
	}
	for i := range after.Volumes {
		volume := &after.Volumes[i]
		c.forbid(credentials(volume) > had[volume.Name], named("volumes", volume.Name)+"/projected", "a service account's credential was added")
	}
}

func credentials(volume *corev1.Volume) int {
	n := 0
	if volume.Projected == nil {
		return 0
	}
	for i := range volume.Projected.Sources {
		source := &volume.Projected.Sources[i]
		if source.ServiceAccountToken != nil || source.PodCertificate != nil {
			n++
		}
	}
	return n
}

// named is the path of a list item of the pod.
func named(list, name string) string { return "/spec/pod/" + list + "[name=" + name + "]" }

// path is a map key below a path, escaped as in a JSON pointer.
func path(parent, key string) string {
	return parent + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
