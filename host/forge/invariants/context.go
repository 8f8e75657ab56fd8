package invariants

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// effective returns the security context of a container, including inherited fields.
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

// context compares two effective security contexts. The cause of an inherited field can be
// the pod's own context.
func (c *check) context(path string, was, is corev1.SecurityContext) {
	own := func(bad bool, field, problem string) {
		if bad {
			c.add(path+field, problem)
		}
	}
	inherited := func(bad bool, field, problem string) {
		if bad {
			c.add(path+field, problem, path+field, securityContext+field)
		}
	}
	own(isTrue(is.Privileged) && !isTrue(was.Privileged), "/privileged", "set to true")
	own(isFalse(was.AllowPrivilegeEscalation) && !isFalse(is.AllowPrivilegeEscalation), "/allowPrivilegeEscalation", "no longer false")
	own(isTrue(was.ReadOnlyRootFilesystem) && !isTrue(is.ReadOnlyRootFilesystem), "/readOnlyRootFilesystem", "no longer true")
	own(!isMasked(is.ProcMount) && isMasked(was.ProcMount), "/procMount", "no longer masked")
	c.capabilities(path, was.Capabilities, is.Capabilities)
	inherited(isTrue(was.RunAsNonRoot) && !isTrue(is.RunAsNonRoot), "/runAsNonRoot", "no longer true")
	inherited(mayBecomeRoot(was.RunAsUser, is.RunAsUser), "/runAsUser", "may be root now")
	inherited(mayBecomeRoot(was.RunAsGroup, is.RunAsGroup), "/runAsGroup", "may be the root group now")
	inherited(weakerSeccomp(was.SeccompProfile, is.SeccompProfile), "/seccompProfile", "weakened")
	inherited(weakerAppArmor(was.AppArmorProfile, is.AppArmorProfile), "/appArmorProfile", "weakened")
	inherited(!equality.Semantic.DeepEqual(was.SELinuxOptions, is.SELinuxOptions), "/seLinuxOptions", "changed")
	if is.WindowsOptions != was.WindowsOptions {
		c.windows(path+"/windowsOptions", windowsOptions(was), windowsOptions(is))
	}
}

// isMasked reports whether sensitive parts of /proc are hidden, which is the default.
func isMasked(mount *corev1.ProcMountType) bool {
	return mount == nil || *mount == corev1.DefaultProcMount || *mount == ""
}

func windowsOptions(of corev1.SecurityContext) corev1.WindowsSecurityContextOptions {
	if of.WindowsOptions == nil {
		return corev1.WindowsSecurityContextOptions{}
	}
	return *of.WindowsOptions
}

// administrator is the administrator of Windows containers.
const administrator = "ContainerAdministrator"

func (c *check) windows(path string, was, is corev1.WindowsSecurityContextOptions) {
	causes := []string{path, securityContext + "/windowsOptions"}
	text := func(value *string) string {
		if value == nil {
			return ""
		}
		return *value
	}
	c.forbid(isTrue(is.HostProcess) && !isTrue(was.HostProcess), path+"/hostProcess", "set to true", causes...)
	user, before := text(is.RunAsUserName), text(was.RunAsUserName)
	c.forbid(user != before && (user == "" || strings.EqualFold(user, administrator)), path+"/runAsUserName", "may be an administrator now", causes...)
	for field, changed := range map[string]bool{
		"/gmsaCredentialSpec":     text(is.GMSACredentialSpec) != "" && text(is.GMSACredentialSpec) != text(was.GMSACredentialSpec),
		"/gmsaCredentialSpecName": text(is.GMSACredentialSpecName) != "" && text(is.GMSACredentialSpecName) != text(was.GMSACredentialSpecName),
	} {
		c.forbid(changed, path+field, "added or changed: it is a domain account", causes...)
	}
}

// mayBecomeRoot reports whether an ID became 0, or unset, which leaves it to the image.
func mayBecomeRoot(was, is *int64) bool {
	if is == nil {
		return was != nil && *was != 0
	}
	return *is == 0 && !equals(was, 0)
}

// capabilities compares capabilities. path is that of the security context.
func (c *check) capabilities(path string, was, is *corev1.Capabilities) {
	if was == is {
		return
	}
	if was == nil {
		was = &corev1.Capabilities{}
	}
	if is == nil {
		is = &corev1.Capabilities{}
	}
	for _, capability := range is.Add {
		if !covers(was.Add, capability) {
			c.add(path+"/capabilities/add", string(capability)+" added")
		}
	}
	for _, capability := range was.Drop {
		if !covers(is.Drop, capability) {
			c.add(path+"/capabilities/drop", string(capability)+" no longer dropped")
		}
	}
}

// covers reports whether a list has a capability or ALL.
func covers(list []corev1.Capability, capability corev1.Capability) bool {
	return slices.ContainsFunc(list, func(have corev1.Capability) bool {
		return canonical(have) == "ALL" || canonical(have) == canonical(capability)
	})
}

func canonical(capability corev1.Capability) string {
	return strings.TrimPrefix(strings.ToUpper(string(capability)), "CAP_")
}

// weakerSeccomp reports whether a profile was removed or replaced, since profiles cannot be
// compared. An unset profile, which is the node's default, may become any profile but
// "Unconfined".
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

// weakerAppArmor is weakerSeccomp for AppArmor.
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
