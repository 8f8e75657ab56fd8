package trial

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	names "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// validate returns the problems that the API server would find in the object after a policy
// and that the object before did not have. It uses the validation that Kubernetes publishes
// as libraries; admission plugins, quotas and references to other objects need a cluster.
func validate(kind string, before, after map[string]any) error {
	find := problemsOfPod
	switch kind {
	case "ConfigMap", "Secret":
		find = problemsOfData
	case "Service":
		return nil // only its type is checked, by decoding
	}
	had, err := find(before)
	if err != nil {
		return nil // the object was invalid before
	}
	has, err := find(after)
	if err != nil {
		return err
	}
	known := sets.New(had...)
	var found []error
	for _, problem := range has {
		if !known.Has(problem) {
			found = append(found, errors.New(problem))
		}
	}
	return errors.Join(found...)
}

// problemsOfData checks the keys of a ConfigMap or a Secret.
func problemsOfData(object map[string]any) ([]string, error) {
	var problems problems
	for _, member := range []string{"data", "binaryData"} {
		data, _ := object[member].(map[string]any)
		for key := range data {
			problems.add(field.NewPath(member).Key(key), names.IsConfigMapKey(key))
		}
	}
	return problems, nil
}

// problems are sentences that begin with a path.
type problems []string

func (p *problems) add(path *field.Path, found []string) {
	for _, problem := range found {
		*p = append(*p, path.String()+": "+problem)
	}
}

func (p *problems) require(ok bool, path *field.Path, problem string) {
	if !ok {
		p.add(path, []string{problem})
	}
}

func (p *problems) addErrors(found field.ErrorList) {
	for _, err := range found {
		*p = append(*p, err.Error())
	}
}

// oneOf requires a value of an enumeration.
func oneOf[T ~string](p *problems, path *field.Path, value T, allowed ...T) {
	p.require(slices.Contains(allowed, value), path, fmt.Sprintf("%q is none of %q", value, allowed))
}

func problemsOfPod(object map[string]any) ([]string, error) {
	pod, err := podOf(object)
	if err != nil {
		return nil, err
	}
	var p problems
	spec, root := &pod.Spec, field.NewPath("spec")
	volumes := sets.New[string]()
	for i := range spec.Volumes {
		name := spec.Volumes[i].Name
		p.require(!volumes.Has(name), root.Child("volumes").Key(name), "duplicate name")
		p.add(root.Child("volumes").Key(name), names.IsDNS1123Label(name))
		volumes.Insert(name)
	}
	seen := sets.New[string]()
	for i := range spec.InitContainers {
		p.container(root.Child("initContainers"), &spec.InitContainers[i], seen, volumes)
	}
	for i := range spec.Containers {
		p.container(root.Child("containers"), &spec.Containers[i], seen, volumes)
	}
	for key, value := range spec.NodeSelector {
		p.add(root.Child("nodeSelector").Key(key), append(names.IsQualifiedName(key), names.IsValidLabelValue(value)...))
	}
	if spec.RuntimeClassName != nil {
		p.add(root.Child("runtimeClassName"), names.IsDNS1123Subdomain(*spec.RuntimeClassName))
	}
	if spec.PriorityClassName != "" {
		p.add(root.Child("priorityClassName"), names.IsDNS1123Subdomain(spec.PriorityClassName))
	}
	if spec.ServiceAccountName != "" {
		p.add(root.Child("serviceAccountName"), names.IsDNS1123Subdomain(spec.ServiceAccountName))
	}
	if spec.Hostname != "" {
		p.add(root.Child("hostname"), names.IsDNS1123Label(spec.Hostname))
	}
	for i := range spec.Tolerations {
		p.toleration(root.Child("tolerations").Index(i), &spec.Tolerations[i])
	}
	p.affinity(root.Child("affinity"), spec.Affinity)
	p.spread(root.Child("topologySpreadConstraints"), spec.TopologySpreadConstraints)
	return p, nil
}

func (p *problems) container(list *field.Path, c *corev1.Container, seen, volumes sets.Set[string]) {
	path := list.Key(c.Name)
	p.add(path.Child("name"), names.IsDNS1123Label(c.Name))
	p.require(!seen.Has(c.Name), path.Child("name"), "duplicate name")
	seen.Insert(c.Name)
	p.require(c.Image == strings.TrimSpace(c.Image), path.Child("image"), "must not have leading or trailing white space")
	for i := range c.Env {
		p.add(path.Child("env").Index(i), names.IsRelaxedEnvVarName(c.Env[i].Name))
	}
	for i := range c.VolumeMounts {
		mount := &c.VolumeMounts[i]
		p.require(volumes.Has(mount.Name), path.Child("volumeMounts").Index(i), fmt.Sprintf("the pod has no volume %q", mount.Name))
		p.require(mount.MountPath != "", path.Child("volumeMounts").Index(i), "mountPath is required")
	}
	for name, request := range c.Resources.Requests {
		at := path.Child("resources", "requests").Key(string(name))
		p.add(at, names.IsQualifiedName(string(name)))
		p.require(request.Sign() >= 0, at, "must not be negative")
		if limit, has := c.Resources.Limits[name]; has {
			p.require(request.Cmp(limit) <= 0, at, "must not be more than the limit")
		}
	}
	for name, limit := range c.Resources.Limits {
		at := path.Child("resources", "limits").Key(string(name))
		p.add(at, names.IsQualifiedName(string(name)))
		p.require(limit.Sign() >= 0, at, "must not be negative")
	}
}

func (p *problems) toleration(path *field.Path, t *corev1.Toleration) {
	if t.Key != "" {
		p.add(path.Child("key"), names.IsQualifiedName(t.Key))
	}
	if t.Operator != "" {
		oneOf(p, path.Child("operator"), t.Operator, corev1.TolerationOpExists, corev1.TolerationOpEqual, corev1.TolerationOpLt, corev1.TolerationOpGt)
	}
	if t.Operator == corev1.TolerationOpExists {
		p.require(t.Value == "", path.Child("value"), "must be empty when the operator is Exists")
	} else {
		p.add(path.Child("value"), names.IsValidLabelValue(t.Value))
		p.require(t.Key != "", path.Child("key"), "is required unless the operator is Exists")
	}
	oneOf(p, path.Child("effect"), t.Effect, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
	p.require(t.TolerationSeconds == nil || t.Effect == corev1.TaintEffectNoExecute, path.Child("tolerationSeconds"), "needs the effect NoExecute")
}

func (p *problems) affinity(path *field.Path, affinity *corev1.Affinity) {
	if affinity == nil {
		return
	}
	if node := affinity.NodeAffinity; node != nil {
		if node.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			p.parsed(nodeaffinity.NewNodeSelector(node.RequiredDuringSchedulingIgnoredDuringExecution, field.WithPath(path.Child("nodeAffinity"))))
			p.require(len(node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms) > 0, path.Child("nodeAffinity"), "must have at least one node selector term")
		}
		_, err := nodeaffinity.NewPreferredSchedulingTerms(node.PreferredDuringSchedulingIgnoredDuringExecution, field.WithPath(path.Child("nodeAffinity")))
		p.parsed(nil, err)
	}
	if pods := affinity.PodAffinity; pods != nil {
		p.podTerms(path.Child("podAffinity"), pods.RequiredDuringSchedulingIgnoredDuringExecution, pods.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if pods := affinity.PodAntiAffinity; pods != nil {
		p.podTerms(path.Child("podAntiAffinity"), pods.RequiredDuringSchedulingIgnoredDuringExecution, pods.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// parsed adds the error of a parser.
func (p *problems) parsed(_ *nodeaffinity.NodeSelector, err error) {
	if err != nil {
		*p = append(*p, err.Error())
	}
}

func (p *problems) podTerms(path *field.Path, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	for i := range required {
		p.podTerm(path.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i), &required[i])
	}
	for i := range preferred {
		at := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		p.require(preferred[i].Weight >= 1 && preferred[i].Weight <= 100, at.Child("weight"), "must be in the range 1-100")
		p.podTerm(at, &preferred[i].PodAffinityTerm)
	}
}

func (p *problems) podTerm(path *field.Path, term *corev1.PodAffinityTerm) {
	p.add(path.Child("topologyKey"), names.IsQualifiedName(term.TopologyKey))
	p.addErrors(validation.ValidateLabelSelector(term.LabelSelector, validation.LabelSelectorValidationOptions{}, path.Child("labelSelector")))
}

func (p *problems) spread(path *field.Path, constraints []corev1.TopologySpreadConstraint) {
	seen := sets.New[string]()
	for i := range constraints {
		c, at := &constraints[i], path.Index(i)
		p.require(c.MaxSkew > 0, at.Child("maxSkew"), "must be greater than zero")
		p.add(at.Child("topologyKey"), names.IsQualifiedName(c.TopologyKey))
		oneOf(p, at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
		p.addErrors(validation.ValidateLabelSelector(c.LabelSelector, validation.LabelSelectorValidationOptions{}, at.Child("labelSelector")))
		pair := c.TopologyKey + " " + string(c.WhenUnsatisfiable)
		p.require(!seen.Has(pair), at, "duplicate topologyKey and whenUnsatisfiable")
		seen.Insert(pair)
	}
}
