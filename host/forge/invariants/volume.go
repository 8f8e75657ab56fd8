package invariants

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// isFreeSource reports whether policies may add or change a volume source: its content comes
// from the pod's own namespace or is empty. All other sources give access to the node or to
// systems outside of the cluster.
func isFreeSource(name string) bool {
	switch name {
	case "ConfigMap", "DownwardAPI", "EmptyDir", "Ephemeral", "Image", "PersistentVolumeClaim":
		return true
	case "Projected", "Secret": // checked by credentials
		return true
	default:
		return false
	}
}

// volumes checks that no volume gives further access to the node or to outside systems.
func (c *check) volumes(before, after *corev1.PodSpec) {
	for i := range after.Volumes {
		was := volume(before, after.Volumes[i].Name)
		if was != nil && was.VolumeSource == after.Volumes[i].VolumeSource {
			continue // no policy changed it
		}
		is := reflect.ValueOf(after.Volumes[i].VolumeSource)
		for field := range is.NumField() {
			if is.Field(field).IsNil() || isFreeSource(is.Type().Field(field).Name) {
				continue
			}
			same := was != nil && equality.Semantic.DeepEqual(reflect.ValueOf(was.VolumeSource).Field(field).Interface(), is.Field(field).Interface())
			c.forbid(!same, named("volumes", after.Volumes[i].Name)+"/"+jsonName(is.Type().Field(field)),
				"added or changed: it gives access to the node, or to a system outside of the cluster")
		}
	}
}

func volume(spec *corev1.PodSpec, name string) *corev1.Volume {
	for i := range spec.Volumes {
		if spec.Volumes[i].Name == name {
			return &spec.Volumes[i]
		}
	}
	return nil
}

// credentials checks that the pod gets no further credentials: tokens, certificates, or
// Secrets of its namespace.
func (c *check) credentials(before, after *corev1.PodSpec) {
	for i := range after.Volumes {
		is := &after.Volumes[i]
		if is.Projected == nil {
			continue
		}
		var had []corev1.VolumeProjection
		if was := volume(before, is.Name); was != nil && was.Projected != nil {
			had = was.Projected.Sources
		}
		for _, source := range is.Projected.Sources {
			if source.ServiceAccountToken == nil && source.PodCertificate == nil {
				continue
			}
			same := func(other corev1.VolumeProjection) bool { return equality.Semantic.DeepEqual(other, source) }
			c.forbid(!slices.ContainsFunc(had, same), named("volumes", is.Name)+"/projected", "a credential of the pod's service account was added or changed")
		}
	}
	var known []secret
	for i, each := range secrets(after) {
		if i == 0 {
			known = secrets(before)
		}
		if !slices.ContainsFunc(known, func(other secret) bool { return other.name == each.name }) {
			c.add(named(each.list, each.item)+"/"+each.field, "names Secret "+each.name+", which the pod does not use: policies must not add Secrets")
		}
	}
}

// secret is a Secret that a container can read, and the place in the pod that names it.
type secret struct{ name, list, item, field string }

func secrets(spec *corev1.PodSpec) []secret {
	var found []secret
	for i := range spec.Volumes {
		each := &spec.Volumes[i]
		if each.Secret != nil {
			found = append(found, secret{each.Secret.SecretName, "volumes", each.Name, "secret"})
		}
		if each.Projected == nil {
			continue
		}
		for _, source := range each.Projected.Sources {
			if source.Secret != nil {
				found = append(found, secret{source.Secret.Name, "volumes", each.Name, "projected"})
			}
		}
	}
	for i := range spec.InitContainers {
		found = environment(found, "initContainers", &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		found = environment(found, "containers", &spec.Containers[i])
	}
	return found
}

func environment(found []secret, list string, container *corev1.Container) []secret {
	for i := range container.Env {
		if from := container.Env[i].ValueFrom; from != nil && from.SecretKeyRef != nil {
			found = append(found, secret{from.SecretKeyRef.Name, list, container.Name, "env"})
		}
	}
	for i := range container.EnvFrom {
		if from := container.EnvFrom[i].SecretRef; from != nil {
			found = append(found, secret{from.Name, list, container.Name, "envFrom"})
		}
	}
	return found
}

// hostPaths returns the names of the hostPath volumes.
func hostPaths(spec *corev1.PodSpec) map[string]bool {
	var found map[string]bool
	for i := range spec.Volumes {
		if spec.Volumes[i].HostPath != nil {
			if found == nil {
				found = map[string]bool{}
			}
			found[spec.Volumes[i].Name] = true
		}
	}
	return found
}

func (c *check) mounts(path string, before, after *corev1.Container, hostPaths map[string]bool) {
	for i := range after.VolumeMounts {
		is := &after.VolumeMounts[i]
		problem := func(bad bool, field, text string, causes ...string) {
			if bad {
				c.add(path+"/volumeMounts[mountPath="+is.MountPath+"]"+field, text, append(causes, path+"/volumeMounts")...)
			}
		}
		was := mount(before, is)
		if was == nil {
			problem(hostPaths[is.Name], "", "added: it gives access to the node", named("volumes", is.Name))
			problem(!is.ReadOnly && isMountedReadOnly(before, is.Name), "/readOnly", "a read-only volume is mounted for writing")
			was = &corev1.VolumeMount{BindMountOptions: is.BindMountOptions, SubPath: is.SubPath, SubPathExpr: is.SubPathExpr}
		}
		problem(was.ReadOnly && !is.ReadOnly, "/readOnly", "no longer true")
		problem(recursion(is.RecursiveReadOnly) < recursion(was.RecursiveReadOnly), "/recursiveReadOnly", "weakened")
		problem(propagation(is.MountPropagation) > propagation(was.MountPropagation), "/mountPropagation", "extended: it shares mounts between pod and node")
		problem(hostPaths[is.Name] && (is.SubPath != was.SubPath || is.SubPathExpr != was.SubPathExpr), "/subPath", "changed: it gives access to another directory of the node")
		for _, option := range was.BindMountOptions {
			problem(!slices.Contains(is.BindMountOptions, option), "/bindMountOptions", option+" no longer set")
		}
	}
}

// mount returns the mount of the same volume at the same path.
func mount(container *corev1.Container, like *corev1.VolumeMount) *corev1.VolumeMount {
	for i := range container.VolumeMounts {
		if container.VolumeMounts[i].MountPath == like.MountPath && container.VolumeMounts[i].Name == like.Name {
			return &container.VolumeMounts[i]
		}
	}
	return nil
}

// isMountedReadOnly reports whether the container has only read-only mounts of the volume.
func isMountedReadOnly(container *corev1.Container, name string) bool {
	mounted := false
	for i := range container.VolumeMounts {
		if container.VolumeMounts[i].Name != name {
			continue
		}
		if !container.VolumeMounts[i].ReadOnly {
			return false
		}
		mounted = true
	}
	return mounted
}

// recursion and propagation order their values. An unknown value counts as the least
// isolating one.
func recursion(mode *corev1.RecursiveReadOnlyMode) int {
	switch {
	case equals(mode, corev1.RecursiveReadOnlyEnabled):
		return 2
	case equals(mode, corev1.RecursiveReadOnlyIfPossible):
		return 1
	default:
		return 0
	}
}

func propagation(mode *corev1.MountPropagationMode) int {
	switch {
	case mode == nil || *mode == corev1.MountPropagationNone:
		return 0
	case *mode == corev1.MountPropagationHostToContainer:
		return 1
	default:
		return 2
	}
}
