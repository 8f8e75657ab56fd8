package invariants

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

const securityContextPath = "/spec/pod/securityContext"

// pod compares what concerns the pod as a whole. What containers inherit from the pod is
// compared per container, as it is in effect there.
func (c *check) pod(before, after *corev1.PodSpec) {
	c.forbid(isFalse(before.HostUsers) && !isFalse(after.HostUsers), "/spec/pod/hostUsers", "no longer false: the pod would leave its user namespace")
	c.forbid(!isTrue(before.ShareProcessNamespace) && isTrue(after.ShareProcessNamespace),
		"/spec/pod/shareProcessNamespace", "set to true: containers would see each other's processes")
	was, is := podContext(before), podContext(after)
	for _, group := range is.SupplementalGroups {
		if !slices.Contains(was.SupplementalGroups, group) {
			c.add(securityContextPath+"/supplementalGroups", "group %d added", group)
		}
	}
	strict := corev1.SupplementalGroupsPolicyStrict
	c.forbid(equals(was.SupplementalGroupsPolicy, strict) && !equals(is.SupplementalGroupsPolicy, strict),
		securityContextPath+"/supplementalGroupsPolicy", "no longer Strict")
	c.forbid(equals(is.FSGroup, 0) && !equals(was.FSGroup, 0), securityContextPath+"/fsGroup", "set to the root group")
	for _, sysctl := range is.Sysctls {
		c.forbid(!slices.Contains(was.Sysctls, sysctl), securityContextPath+"/sysctls[name="+sysctl.Name+"]", "added or changed")
	}
}

// volumes holds that nothing of the provider's nodes is mounted that was not before.
func (c *check) volumes(before, after *corev1.PodSpec) {
	for i := range after.Volumes {
		volume := &after.Volumes[i]
		if volume.HostPath == nil {
			continue
		}
		same := slices.ContainsFunc(before.Volumes, func(was corev1.Volume) bool {
			return was.Name == volume.Name && equality.Semantic.DeepEqual(was.HostPath, volume.HostPath)
		})
		c.forbid(!same, named("volumes", volume.Name)+"/hostPath", "added or changed: it opens the provider's node")
	}
}

func (c *check) containers(before, after *corev1.PodSpec) {
	hostPaths := map[string]bool{}
	for i := range after.Volumes {
		hostPaths[after.Volumes[i].Name] = after.Volumes[i].HostPath != nil
	}
	for _, list := range []struct {
		name          string
		before, after []corev1.Container
	}{
		{"initContainers", before.InitContainers, after.InitContainers},
		{"containers", before.Containers, after.Containers},
	} {
		for i := range list.after {
			container := &list.after[i]
			// A container that a policy adds is held against one that asks for nothing.
			was := &corev1.Container{}
			for j := range list.before {
				if list.before[j].Name == container.Name {
					was = &list.before[j]
				}
			}
			path := named(list.name, container.Name)
			c.context(path+"/securityContext", effective(before, was), effective(after, container))
			c.ports(path, was, container)
			c.mounts(path, was, container, hostPaths)
		}
	}
}

func (c *check) ports(path string, before, after *corev1.Container) {
	for i := range after.Ports {
		port := &after.Ports[i]
		if port.HostPort == 0 {
			continue
		}
		same := slices.ContainsFunc(before.Ports, func(was corev1.ContainerPort) bool {
			return was.HostPort == port.HostPort && was.HostIP == port.HostIP && was.Protocol == port.Protocol
		})
		if !same {
			c.add(path+"/ports", "hostPort %d added: it opens a port of the provider's node", port.HostPort)
		}
	}
}

func (c *check) mounts(path string, before, after *corev1.Container, hostPaths map[string]bool) {
	for i := range after.VolumeMounts {
		mount := &after.VolumeMounts[i]
		var was *corev1.VolumeMount
		for j := range before.VolumeMounts {
			if before.VolumeMounts[j].MountPath == mount.MountPath && before.VolumeMounts[j].Name == mount.Name {
				was = &before.VolumeMounts[j]
			}
		}
		where := path + "/volumeMounts[mountPath=" + mount.MountPath + "]"
		c.forbid(was == nil && hostPaths[mount.Name], where, "added: it opens the provider's node")
		c.forbid(was != nil && was.ReadOnly && !mount.ReadOnly, where+"/readOnly", "no longer true")
		bidirectional := corev1.MountPropagationBidirectional
		c.forbid(equals(mount.MountPropagation, bidirectional) && (was == nil || !equals(was.MountPropagation, bidirectional)),
			where+"/mountPropagation", "set to Bidirectional: it reaches the provider's node")
	}
}

func podContext(spec *corev1.PodSpec) corev1.PodSecurityContext {
	if spec.SecurityContext == nil {
		return corev1.PodSecurityContext{}
	}
	return *spec.SecurityContext
}

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }

// equals reports whether a value is set, and to this.
func equals[T comparable](value *T, to T) bool { return value != nil && *value == to }
