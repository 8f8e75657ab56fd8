package invariants

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const securityContext = "/securityContext"

// pod compares what concerns the pod as a whole. What containers inherit from the pod is
// compared per container, as it is in effect there.
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

// containers compares each container with the one of its name, and one that is new with
// those that are of its sort: it may be no less isolated than the weakest of them, so
// that what the pod can do at most does not grow.
func (c *check) containers(before, after *corev1.PodSpec) {
	if shared(before.Containers, after.Containers) && shared(before.InitContainers, after.InitContainers) && before.SecurityContext == after.SecurityContext {
		return // the very same ones: nobody has touched them
	}
	had, has := containersOf(before), containersOf(after)
	for i := range has {
		is := &has[i]
		if was := find(had, is); was != nil {
			c.container(is.path, before, was.Container, after, is.Container)
			continue
		}
		c.stranger(before, likened(had, is), after, is)
	}
}

// shared reports whether two lists are one and the same in memory.
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

// stranger compares a container that the pod did not have with those that it may be
// likened to, and tells of the one that it comes closest to.
func (c *check) stranger(before *corev1.PodSpec, like []container, after *corev1.PodSpec, is *container) {
	var closest *check
	for i := range like {
		attempt := &check{root: c.root}
		attempt.context(is.path+securityContext, effective(before, like[i].Container), effective(after, is.Container))
		if closest == nil || len(attempt.violations) < len(closest.violations) {
			closest = attempt
		}
	}
	if closest == nil {
		closest = &check{root: c.root}
	}
	nothing := &corev1.Container{}
	closest.ports(is.path, nothing, is.Container)
	closest.mounts(is.path, nothing, is.Container, hostPaths(after))
	closest.handlers(is.path, nothing, is.Container)
	list, _, _ := strings.Cut(is.path, "[")
	for _, violation := range closest.violations {
		// Whoever renamed a container wrote it under its old name.
		violation.Causes = append(violation.Causes, "/spec"+list)
		c.keep(violation)
	}
}

// container is one with its path.
type container struct {
	*corev1.Container
	path string
	// lasts tells that it runs as long as the pod: it is no init container, or a sidecar.
	lasts bool
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
	return all
}

// find returns the container of the same name, if it is of the same sort: an init
// container that now runs as long as the pod is another one.
func find(all []container, like *container) *container {
	for i := range all {
		if all[i].Name == like.Name && all[i].lasts == like.lasts {
			return &all[i]
		}
	}
	return nil
}

// likened returns the containers that a new one may be held against: those that run as
// long as it does, else all.
func likened(all []container, is *container) []container {
	var like []container
	for i := range all {
		if all[i].lasts == is.lasts {
			like = append(like, all[i])
		}
	}
	if len(like) == 0 {
		return all
	}
	return like
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
			c.add(path+"/ports", "hostPort "+strconv.Itoa(int(port.HostPort))+" added or opened wider: it is a port of the node")
		}
	}
}

// handlers holds that probes and hooks reach no other host than the pod: the kubelet
// sends them, from the network of the node.
func (c *check) handlers(path string, before, after *corev1.Container) {
	was := handlersOf(before)
	for i, is := range handlersOf(after) {
		c.reaches(path, is.name+"/httpGet/host", was[i].httpHost(), is.httpHost())
		c.reaches(path, is.name+"/tcpSocket/host", was[i].socketHost(), is.socketHost())
	}
}

func (c *check) reaches(path, field, before, after string) {
	if after != "" && after != before {
		c.add(path+field, "sent to host "+after+": the kubelet would reach it from the node's network")
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

// handlersOf returns the requests of a container's probes and hooks that are there.
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

// equals reports whether a value is set, and to this.
func equals[T comparable](value *T, to T) bool { return value != nil && *value == to }
