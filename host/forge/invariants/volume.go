package invariants

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// freeSource reports whether a source of volumes may be added or changed by a policy:
// what it holds comes from the pod's own namespace, or from nowhere. All others open the
// node or something outside of the cluster.
func freeSource(name string) bool {
	switch name {
	case "ConfigMap", "DownwardAPI", "EmptyDir", "Ephemeral", "Image", "PersistentVolumeClaim":
		return true
	case "Projected", "Secret": // their parts and names are checked
		return true
	default:
		return false
	}
}

// volumes holds that no volume opens what was not open before.
func (c *check) volumes(before, after *corev1.PodSpec) {
	for i := range after.Volumes {
		is := reflect.ValueOf(after.Volumes[i].VolumeSource)
		for field := range is.NumField() {
			name := is.Type().Field(field).Name
			if is.Field(field).IsNil() || freeSource(name) {
				continue
			}
			was := volume(before, after.Volumes[i].Name)
			same := was != nil && equality.Semantic.DeepEqual(reflect.ValueOf(was.VolumeSource).Field(field).Interface(), is.Field(field).Interface())
			c.forbid(!same, named("volumes", after.Volumes[i].Name)+"/"+jsonName(is.Type().Field(field)),
				"added or changed: it opens the node, or something outside of the cluster")
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

// credentials holds that the pod is given none that it does not have: neither a token or
// certificate made for it, nor a Secret of its namespace.
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
			c.forbid(!slices.ContainsFunc(had, same), named("volumes", is.Name)+"/projected", "a credential of the pod's account was added or changed")
		}
	}
	known := secrets(before)
	for secret, where := range secrets(after) {
		if _, had := known[secret]; !had {
			c.add(where, "names Secret "+secret+", which the pod does not use: it is not for a policy to open it")
		}
	}
}

// secrets returns the Secrets whose content the containers can see, and where in the pod
// each is named.
func secrets(spec *corev1.PodSpec) map[string]string {
	found := map[string]string{}
	for i := range spec.Volumes {
		each := &spec.Volumes[i]
		if each.Secret != nil {
			found[each.Secret.SecretName] = named("volumes", each.Name) + "/secret"
		}
		if each.Projected == nil {
			continue
		}
		for _, source := range each.Projected.Sources {
			if source.Secret != nil {
				found[source.Secret.Name] = named("volumes", each.Name) + "/projected"
			}
		}
	}
	for _, each := range containersOf(spec) {
		for _, env := range each.Env {
			if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
				found[env.ValueFrom.SecretKeyRef.Name] = each.path + "/env"
			}
		}
		for _, from := range each.EnvFrom {
			if from.SecretRef != nil {
				found[from.SecretRef.Name] = each.path + "/envFrom"
			}
		}
	}
	return found
}

// hostPaths are the volumes that are folders of the node.
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
		where := path + "/volumeMounts[mountPath=" + is.MountPath + "]"
		cause := path + "/volumeMounts"
		was := mount(before, is)
		if was == nil {
			c.forbid(hostPaths[is.Name], where, "added: it opens the node", cause, named("volumes", is.Name))
			c.forbid(!is.ReadOnly && onlyRead(before, is.Name), where+"/readOnly", "a volume that could only be read can be written there", cause)
			was = &corev1.VolumeMount{BindMountOptions: is.BindMountOptions, SubPath: is.SubPath, SubPathExpr: is.SubPathExpr}
		}
		c.forbid(was.ReadOnly && !is.ReadOnly, where+"/readOnly", "no longer true", cause)
		c.forbid(recursion(is.RecursiveReadOnly) < recursion(was.RecursiveReadOnly), where+"/recursiveReadOnly", "weakened", cause)
		c.forbid(propagation(is.MountPropagation) > propagation(was.MountPropagation), where+"/mountPropagation", "opened wider: it connects the mounts of pod and node", cause)
		c.forbid(hostPaths[is.Name] && (is.SubPath != was.SubPath || is.SubPathExpr != was.SubPathExpr), where+"/subPath", "changed: it opens another folder of the node", cause)
		for _, option := range was.BindMountOptions {
			c.forbid(!slices.Contains(is.BindMountOptions, option), where+"/bindMountOptions", option+" no longer set", cause)
		}
	}
}

// mount returns the mount of the same volume at the same place.
func mount(container *corev1.Container, like *corev1.VolumeMount) *corev1.VolumeMount {
	for i := range container.VolumeMounts {
		if container.VolumeMounts[i].MountPath == like.MountPath && container.VolumeMounts[i].Name == like.Name {
			return &container.VolumeMounts[i]
		}
	}
	return nil
}

// onlyRead reports whether the container mounts the volume, and nowhere to write.
func onlyRead(container *corev1.Container, name string) bool {
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

// recursion and propagation order their values; a value that is not known counts as the
// one that isolates least.
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
