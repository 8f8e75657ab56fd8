package invariants

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// effective returns the security context of a container with what it inherits from its
// pod filled in.
func effective(pod *corev1.PodSpec, container *corev1.Container) corev1.SecurityContext {
	inherited := podContext(pod)
	var context corev1.SecurityContext
	if container.SecurityContext != nil {
		context = *container.SecurityContext
	}
	inherit(&context.RunAsUser, inherited.RunAsUser)
	inherit(&context.RunAsGroup, inherited.RunAsGroup)
	inherit(&context.RunAsNonRoot, inherited.RunAsNonRoot)
	inherit(&context.SeccompProfile, inherited.SeccompProfile)
	inherit(&context.AppArmorProfile, inherited.AppArmorProfile)
	inherit(&context.SELinuxOptions, inherited.SELinuxOptions)
	inherit(&context.WindowsOptions, inherited.WindowsOptions)
	return context
}

func inherit[T any](own **T, pods *T) {
	if *own == nil {
		*own = pods
	}
}

// context compares two effective security contexts, field by field.
func (c *check) context(path string, was, is corev1.SecurityContext) {
	c.forbid(isTrue(is.Privileged) && !isTrue(was.Privileged), path+"/privileged", "set to true")
	c.forbid(isFalse(was.AllowPrivilegeEscalation) && !isFalse(is.AllowPrivilegeEscalation), path+"/allowPrivilegeEscalation", "no longer false")
	c.forbid(isTrue(was.RunAsNonRoot) && !isTrue(is.RunAsNonRoot), path+"/runAsNonRoot", "no longer true")
	c.forbid(isTrue(was.ReadOnlyRootFilesystem) && !isTrue(is.ReadOnlyRootFilesystem), path+"/readOnlyRootFilesystem", "no longer true")
	c.forbid(towardsRoot(was.RunAsUser, is.RunAsUser), path+"/runAsUser", "may be root now")
	c.forbid(towardsRoot(was.RunAsGroup, is.RunAsGroup), path+"/runAsGroup", "may be the root group now")
	unmasked := corev1.UnmaskedProcMount
	c.forbid(equals(is.ProcMount, unmasked) && !equals(was.ProcMount, unmasked), path+"/procMount", "set to Unmasked")
	c.capabilities(path+"/capabilities", was.Capabilities, is.Capabilities)
	c.forbid(weakerSeccomp(was.SeccompProfile, is.SeccompProfile), path+"/seccompProfile", "weakened")
	c.forbid(weakerAppArmor(was.AppArmorProfile, is.AppArmorProfile), path+"/appArmorProfile", "weakened")
	c.forbid(!equality.Semantic.DeepEqual(was.SELinuxOptions, is.SELinuxOptions), path+"/seLinuxOptions", "changed")
	hostProcess := func(o *corev1.WindowsSecurityContextOptions) bool { return o != nil && isTrue(o.HostProcess) }
	c.forbid(hostProcess(is.WindowsOptions) && !hostProcess(was.WindowsOptions), path+"/windowsOptions/hostProcess", "set to true")
}

// towardsRoot reports whether an ID became 0, or became the image's choice, which may
// be 0.
func towardsRoot(was, is *int64) bool {
	if is == nil {
		return was != nil && *was != 0
	}
	return *is == 0 && !equals(was, 0)
}

func (c *check) capabilities(path string, was, is *corev1.Capabilities) {
	if was == nil {
		was = &corev1.Capabilities{}
	}
	if is == nil {
		is = &corev1.Capabilities{}
	}
	for _, capability := range is.Add {
		if !covers(was.Add, capability) {
			c.add(path+"/add", "%s added", capability)
		}
	}
	for _, capability := range was.Drop {
		if !covers(is.Drop, capability) {
			c.add(path+"/drop", "%s no longer dropped", capability)
		}
	}
}

// covers reports whether a list has a capability, or all of them.
func covers(list []corev1.Capability, capability corev1.Capability) bool {
	return slices.ContainsFunc(list, func(have corev1.Capability) bool {
		return canonical(have) == "ALL" || canonical(have) == canonical(capability)
	})
}

func canonical(capability corev1.Capability) string {
	return strings.TrimPrefix(strings.ToUpper(string(capability)), "CAP_")
}

// weakerSeccomp reports whether a profile was taken away or replaced by one that cannot
// be compared. Unset is the node's default; a profile may take its place, "Unconfined"
// may not.
func weakerSeccomp(was, is *corev1.SeccompProfile) bool {
	switch {
	case equality.Semantic.DeepEqual(was, is):
		return false
	case was == nil:
		return is.Type == corev1.SeccompProfileTypeUnconfined
	default:
		return was.Type != corev1.SeccompProfileTypeUnconfined
	}
}

// weakerAppArmor is the same for AppArmor.
func weakerAppArmor(was, is *corev1.AppArmorProfile) bool {
	switch {
	case equality.Semantic.DeepEqual(was, is):
		return false
	case was == nil:
		return is.Type == corev1.AppArmorProfileTypeUnconfined
	default:
		return was.Type != corev1.AppArmorProfileTypeUnconfined
	}
}
