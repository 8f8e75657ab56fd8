package podupdate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/host/kit/quantity"
)

// Subresources of a pod through which Kubernetes changes it.
const (
	SubresourcePod       = ""
	SubresourceResize    = "resize"
	SubresourceEphemeral = "ephemeralcontainers"
)

// Operation is one operation of a JSON patch.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Step is what one subresource changes.
type Step struct {
	// Subresource is empty for the pod itself.
	Subresource string
	// Operations are empty if the spec has the desired values already.
	Operations []Operation
	// Fields are the names of the fields that the step concerns.
	Fields []string
}

// Compare returns the steps that bring the named fields of current to the values in desired, in
// the order in which to send them. What Kubernetes does not let change is left out: a value that
// is removed, an ephemeral container that changes, a deadline that becomes longer, a toleration
// that is removed, resources other than CPU and memory. root is the path of the pod spec in the
// object that is patched.
func Compare(current, desired *corev1.PodSpec, names []string, root string) []Step {
	c := &comparison{current: current, desired: desired, root: root, steps: map[string]*Step{}}
	for _, name := range names {
		kind, container, _ := strings.Cut(name, "/")
		switch {
		case kind+"/" == fieldImage && container != "":
			c.image(name, container)
		case kind+"/" == fieldResources && container != "":
			c.resources(name, container)
		case kind+"/" == fieldEphemeral && container != "":
			c.step(SubresourceEphemeral, name)
		case name == fieldPodResources:
			c.podResources(name)
		case name == fieldDeadline:
			c.deadline(name)
		case name == fieldTolerations:
			c.tolerations(name)
		}
	}
	c.ephemeral()
	var steps []Step
	// An ephemeral container is needed most when the rest fails.
	for _, subresource := range []string{SubresourceEphemeral, SubresourcePod, SubresourceResize} {
		if step := c.steps[subresource]; step != nil {
			steps = append(steps, *step)
		}
	}
	return steps
}

type comparison struct {
	current, desired *corev1.PodSpec
	root             string
	steps            map[string]*Step
}

// step adds operations and the field that they concern.
func (c *comparison) step(subresource, field string, operations ...Operation) {
	step := c.steps[subresource]
	if step == nil {
		step = &Step{Subresource: subresource}
		c.steps[subresource] = step
	}
	step.Fields = append(step.Fields, field)
	step.Operations = append(step.Operations, operations...)
}

// find returns the container of a name in both specs, and its path in the current one.
func (c *comparison) find(name string) (current, desired *corev1.Container, path string) {
	for _, list := range []struct {
		name             string
		current, desired []corev1.Container
	}{{"initContainers", c.current.InitContainers, c.desired.InitContainers}, {"containers", c.current.Containers, c.desired.Containers}} {
		hasName := func(container corev1.Container) bool { return container.Name == name }
		i, j := slices.IndexFunc(list.current, hasName), slices.IndexFunc(list.desired, hasName)
		if i >= 0 && j >= 0 {
			return &list.current[i], &list.desired[j], fmt.Sprintf("%s/%s/%d", c.root, list.name, i)
		}
	}
	return nil, nil, ""
}

func (c *comparison) image(field, name string) {
	current, desired, path := c.find(name)
	if current == nil || desired.Image == "" || current.Image == desired.Image {
		c.step(SubresourcePod, field)
		return
	}
	c.step(SubresourcePod, field, Operation{"test", path + "/name", name}, Operation{"replace", path + "/image", desired.Image})
}

func (c *comparison) resources(field, name string) {
	current, desired, path := c.find(name)
	if current == nil {
		c.step(SubresourceResize, field)
		return
	}
	resized := Resized(&current.Resources, &desired.Resources)
	if quantity.Equal(resized, &current.Resources) {
		c.step(SubresourceResize, field)
		return
	}
	c.step(SubresourceResize, field, Operation{"test", path + "/name", name}, Operation{"add", path + "/resources", resized})
}

func (c *comparison) podResources(field string) {
	if c.current.Resources == nil || c.desired.Resources == nil {
		c.step(SubresourceResize, field)
		return
	}
	resized := Resized(c.current.Resources, c.desired.Resources)
	if quantity.Equal(resized, c.current.Resources) {
		c.step(SubresourceResize, field)
		return
	}
	c.step(SubresourceResize, field, Operation{"add", c.root + "/resources", resized})
}

func (c *comparison) deadline(field string) {
	current, desired := c.current.ActiveDeadlineSeconds, c.desired.ActiveDeadlineSeconds
	if desired == nil || current != nil && *desired >= *current {
		c.step(SubresourcePod, field)
		return
	}
	c.step(SubresourcePod, field, Operation{"add", c.root + "/activeDeadlineSeconds", *desired})
}

// tolerations adds tolerations, and sets the seconds of existing ones. Existing ones that
// desired does not have stay: the provider adds its own.
func (c *comparison) tolerations(field string) {
	all := slices.Clone(c.current.Tolerations)
	for _, toleration := range c.desired.Tolerations {
		at := slices.IndexFunc(all, func(t corev1.Toleration) bool { return t.MatchToleration(&toleration) })
		if at < 0 {
			all = append(all, toleration)
		} else {
			all[at] = toleration
		}
	}
	if quantity.Equal(all, c.current.Tolerations) {
		c.step(SubresourcePod, field)
		return
	}
	c.step(SubresourcePod, field, Operation{"add", c.root + "/tolerations", all})
}

// ephemeral adds the new ephemeral containers, if a step concerns them.
func (c *comparison) ephemeral() {
	step := c.steps[SubresourceEphemeral]
	if step == nil {
		return
	}
	added := Added(c.current.EphemeralContainers, c.desired.EphemeralContainers)
	path := c.root + "/ephemeralContainers"
	if len(c.current.EphemeralContainers) == 0 && len(added) > 0 {
		step.Operations = append(step.Operations, Operation{"add", path, added})
		return
	}
	for i := range added {
		step.Operations = append(step.Operations, Operation{"add", path + "/-", added[i]})
	}
}

// Added returns the ephemeral containers of desired whose names current does not have.
func Added(current, desired []corev1.EphemeralContainer) []corev1.EphemeralContainer {
	var added []corev1.EphemeralContainer
	for i := range desired {
		if !slices.ContainsFunc(current, func(e corev1.EphemeralContainer) bool { return e.Name == desired[i].Name }) {
			added = append(added, desired[i])
		}
	}
	return added
}

// Resized returns current with the CPU and memory of desired. Amounts that desired does not
// name stay. A request that equals its limit follows the limit if desired names no request: the
// API server has made it of the limit.
func Resized(current, desired *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	resized := current.DeepCopy()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, hasLimit := desired.Limits[name]
		request, hasRequest := desired.Requests[name]
		before, hadRequest := current.Requests[name]
		if wasLimit, ok := current.Limits[name]; !hasRequest && hasLimit && hadRequest && ok && quantity.Equal(before, wasLimit) {
			request, hasRequest = limit, true
		}
		if hasLimit {
			set(&resized.Limits, name, limit)
		}
		if hasRequest {
			set(&resized.Requests, name, request)
		}
	}
	return resized
}

func set[K comparable, V any, M ~map[K]V](m *M, key K, value V) {
	if *m == nil {
		*m = M{}
	}
	(*m)[key] = value
}

// Trim returns what Compare reads of a spec.
func Trim(spec *corev1.PodSpec) corev1.PodSpec {
	return corev1.PodSpec{
		InitContainers: trimContainers(spec.InitContainers), Containers: trimContainers(spec.Containers),
		EphemeralContainers: spec.EphemeralContainers, Resources: spec.Resources,
		ActiveDeadlineSeconds: spec.ActiveDeadlineSeconds, Tolerations: spec.Tolerations,
	}
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for i := range containers {
		kept = append(kept, corev1.Container{Name: containers[i].Name, Image: containers[i].Image, Resources: containers[i].Resources})
	}
	return kept
}

// WithoutLive returns a copy of after with the values of before in the fields that may change,
// for validation: both are equal if nothing else has changed. Containers are matched by
// position, as many as there are.
func WithoutLive(before, after *corev1.PodSpec) *corev1.PodSpec {
	same := after.DeepCopy()
	same.ActiveDeadlineSeconds, same.Tolerations = before.ActiveDeadlineSeconds, before.Tolerations
	for _, list := range []struct{ before, same []corev1.Container }{{before.Containers, same.Containers}, {before.InitContainers, same.InitContainers}} {
		for i := range min(len(list.before), len(list.same)) {
			list.same[i].Image = list.before[i].Image
			list.same[i].Resources = *undoResize(&list.before[i].Resources, &list.same[i].Resources)
		}
	}
	if before.Resources != nil && same.Resources != nil {
		same.Resources = undoResize(before.Resources, same.Resources)
	}
	n := len(before.EphemeralContainers)
	if len(same.EphemeralContainers) >= n && quantity.Equal(same.EphemeralContainers[:n:n], before.EphemeralContainers) {
		same.EphemeralContainers = before.EphemeralContainers
	}
	return same
}

// undoResize returns after with the CPU and memory of before.
func undoResize(before, after *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	undone := after.DeepCopy()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		for _, list := range []struct {
			before corev1.ResourceList
			undone *corev1.ResourceList
		}{{before.Requests, &undone.Requests}, {before.Limits, &undone.Limits}} {
			delete(*list.undone, name)
			if amount, ok := list.before[name]; ok {
				set(list.undone, name, amount)
			}
		}
	}
	return undone
}
