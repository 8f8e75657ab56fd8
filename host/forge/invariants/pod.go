package invariants

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const securityContext = "/securityContext"

// pod compares the fields of the whole pod. Fields that containers inherit are compared per
// container, with their effective value.
func (c *check) pod(before, after *corev1.PodSpec) {
	c.forbid(isFalse(before.HostUsers) && !isFalse(after.HostUsers), "/hostUsers", "no longer false: the pod would leave its user namespace")
	c.forbid(!isTrue(before.ShareProcessNamespace) && isTrue(after.ShareProcessNamespace),
		"/shareProcessNamespace", "set to true: containers would see each other's processes")
	was, is := podContext(before), podContext(after)
	for _, group := range is.SupplementalGroups {
		if !slices.Contains(was.SupplementalGroups, group) {
			c.add(securityContext+"/supplementalGroups", "group "+strconv.FormatInt(group, 10)+" added")
		}
	}
	strict := corev1.SupplementalGroupsPolicyStrict
	c.forbid(equals(was.SupplementalGroupsPolicy, strict) && !equals(is.SupplementalGroupsPolicy, strict),
		securityContext+"/supplementalGroupsPolicy", "no longer Strict")
	c.forbid(equals(is.FSGroup, 0) && !equals(was.FSGroup, 0), securityContext+"/fsGroup", "set to the root group")
	for _, sysctl := range is.Sysctls {
		c.forbid(!slices.Contains(was.Sysctls, sysctl), securityContext+"/sysctls", sysctl.Name+" added or changed")
	}
}

// containers compares each container with the one of its name. A new container must not be
// less isolated than the weakest existing one of the same kind, so that the pod gets no
// further privileges.
func (c *check) containers(before, after *corev1.PodSpec) {
	if shared(before.Containers, after.Containers) && shared(before.InitContainers, after.InitContainers) &&
		len(before.EphemeralContainers)+len(after.EphemeralContainers) == 0 && before.SecurityContext == after.SecurityContext {
		return // no policy changed them
	}
	had, has := containersOf(before), containersOf(after)
	for i := range has {
		is := &has[i]
		if was := find(had, is); was != nil {
			c.container(is.path, before, was.Container, after, is.Container)
			continue
		}
		c.newContainer(before, comparableContainers(had, is), after, is)
	}
}

// shared reports whether two lists share their memory.
func shared(a, b []corev1.Container) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// container compares one container before and after.
func (c *check) container(path string, before *corev1.PodSpec, was *corev1.Container, after *corev1.PodSpec, is *corev1.Container) {
	c.context(path+securityContext, effective(before, was), effective(after, is))
	c.ports(path, was, is)
	c.mounts(path, was, is, hostPaths(after))
	c.handlers(path, was, is)
}

// newContainer compares a new container with the given existing ones, and adds the fewest
// violations of all comparisons.
func (c *check) newContainer(before *corev1.PodSpec, existing []container, after *corev1.PodSpec, is *container) {
	var closest *check
	for i := range existing {
		attempt := &check{root: c.root}
		attempt.context(is.path+securityContext, effective(before, existing[i].Container), effective(after, is.Container))
		if closest == nil || len(attempt.violations) < len(closest.violations) {
			closest = attempt
		}
	}
	if closest == nil {
		closest = &check{root: c.root}
	}
	empty := &corev1.Container{}
	closest.ports(is.path, empty, is.Container)
	closest.mounts(is.path, empty, is.Container, hostPaths(after))
	closest.handlers(is.path, empty, is.Container)
	list, _, _ := strings.Cut(is.path, "[")
	for _, violation := range closest.violations {
		// A policy that renames a container writes at its old name.
		violation.Causes = append(violation.Causes, "/spec"+list)
		c.addOnce(violation)
	}
}

// container is a container with its path.
type container struct {
	*corev1.Container
	path string
	// isLongRunning is false for init containers that are not sidecars.
	isLongRunning bool
}

func containersOf(spec *corev1.PodSpec) []container {
	all := make([]container, 0, len(spec.InitContainers)+len(spec.Containers))
	for i := range spec.InitContainers {
		each := &spec.InitContainers[i]
		all = append(all, container{each, named("initContainers", each.Name), equals(each.RestartPolicy, corev1.ContainerRestartPolicyAlways)})
	}
	for i := range spec.Containers {
		each := &spec.Containers[i]
		all = append(all, container{each, named("containers", each.Name), true})
	}
	for i := range spec.EphemeralContainers {
		each := (*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)
		all = append(all, container{each, named("ephemeralContainers", each.Name), false})
	}
	return all
}

// find returns the container of the same name and kind. An init container that became a
// sidecar counts as a new container.
func find(all []container, like *container) *container {
	for i := range all {
		if all[i].Name == like.Name && all[i].isLongRunning == like.isLongRunning {
			return &all[i]
		}
	}
	return nil
}

// comparableContainers returns the existing containers with which a new one is compared:
// those of the same kind, or all if there are none.
func comparableContainers(all []container, is *container) []container {
	var sameKind []container
	for i := range all {
		if all[i].isLongRunning == is.isLongRunning {
			sameKind = append(sameKind, all[i])
		}
	}
	if len(sameKind) == 0 {
		return all
	}
	return sameKind
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
			c.add(path+"/ports", "hostPort "+strconv.Itoa(int(port.HostPort))+" added or changed: it is a port of the node")
		}
	}
}

// handlers checks that probes and hooks address the pod only. The kubelet sends them from the
// network of the node.
func (c *check) handlers(path string, before, after *corev1.Container) {
	was := handlersOf(before)
	for i, is := range handlersOf(after) {
		c.handlerHost(path, is.name+"/httpGet/host", was[i].httpHost(), is.httpHost())
		c.handlerHost(path, is.name+"/tcpSocket/host", was[i].socketHost(), is.socketHost())
	}
}

func (c *check) handlerHost(path, field, before, after string) {
	if after != "" && after != before {
		c.add(path+field, "set to host "+after+": the kubelet would send requests there from the node's network")
	}
}

// handler is a request that the kubelet sends.
type handler struct {
	name   string
	get    *corev1.HTTPGetAction
	socket *corev1.TCPSocketAction
}

func (h *handler) httpHost() string {
	if h.get == nil {
		return ""
	}
	return h.get.Host
}

func (h *handler) socketHost() string {
	if h.socket == nil {
		return ""
	}
	return h.socket.Host
}

// handlersOf returns the requests of a container's probes and hooks.
func handlersOf(container *corev1.Container) [5]handler {
	all := [5]handler{
		{name: "/livenessProbe"}, {name: "/readinessProbe"}, {name: "/startupProbe"}, {name: "/lifecycle/postStart"}, {name: "/lifecycle/preStop"},
	}
	for i, probe := range [...]*corev1.Probe{container.LivenessProbe, container.ReadinessProbe, container.StartupProbe} {
		if probe != nil {
			all[i].get, all[i].socket = probe.HTTPGet, probe.TCPSocket
		}
	}
	if hooks := container.Lifecycle; hooks != nil {
		for i, hook := range [...]*corev1.LifecycleHandler{hooks.PostStart, hooks.PreStop} {
			if hook != nil {
				all[3+i].get, all[3+i].socket = hook.HTTPGet, hook.TCPSocket
			}
		}
	}
	return all
}

func podContext(spec *corev1.PodSpec) corev1.PodSecurityContext {
	if spec.SecurityContext == nil {
		return corev1.PodSecurityContext{}
	}
	return *spec.SecurityContext
}

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }

// equals reports whether a value is set to the given one.
func equals[T comparable](value *T, to T) bool { return value != nil && *value == to }
