// Package virtualkubelet builds the Deployment of a virtual kubelet, first the template that a VirtualNode
// carries, and what belongs to it: service account, roles and bindings, NetworkPolicy, PodDisruptionBudget.
// It is pure.
package virtualkubelet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/vkflag"
)

// Complete fills in what a new VirtualNode leaves open. It modifies the options.
func Complete(vn *offloadingv1beta1.VirtualNode, options *offloadingv1beta1.VkOptionsTemplate, cluster Cluster) error {
	if vn.Spec.ClusterID == "" {
		return fmt.Errorf("spec.clusterID is required: it names the provider cluster")
	}
	if err := mergeTemplate(options, vn.Spec.Template); err != nil {
		return fmt.Errorf("spec.template: %w", err)
	}
	fromUser := vn.Spec.Template
	vn.Spec.Template = forgeTemplate(vn, options, cluster)
	if options.Spec.ContainerImage != "" && !hasImage(fromUser) {
		metav1.SetMetaDataAnnotation(&vn.ObjectMeta, offloadingv1beta1.ImageAnnotation, options.Spec.ContainerImage)
	}
	keepSecurityAndProbes(vn.Spec.Template, fromUser)
	if vn.Spec.OffloadingPatch == nil {
		vn.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{}
	}
	patch := vn.Spec.OffloadingPatch
	patch.LabelsNotReflected = union(patch.LabelsNotReflected, options.Spec.LabelsNotReflected)
	patch.AnnotationsNotReflected = union(patch.AnnotationsNotReflected, options.Spec.AnnotationsNotReflected)
	return nil
}

// SyncTemplate brings spec.template in line with the other fields of the VirtualNode. It is
// called at every write.
func SyncTemplate(vn *offloadingv1beta1.VirtualNode, options *offloadingv1beta1.VkOptionsTemplate) error {
	if vn.Spec.CreateNode == nil {
		vn.Spec.CreateNode = ptr.To(options.Spec.CreateNode)
	}
	if vn.Spec.DisableNetworkCheck == nil {
		vn.Spec.DisableNetworkCheck = ptr.To(options.Spec.DisableNetworkCheck)
	}
	if vn.Spec.Template == nil {
		return fmt.Errorf("spec.template cannot be removed: it is the virtual kubelet's Deployment")
	}
	if options.Spec.Replicas != nil {
		vn.Spec.Template.Spec.Replicas = ptr.To(*options.Spec.Replicas)
	}
	if containers := vn.Spec.Template.Spec.Template.Spec.Containers; len(containers) > 0 {
		followMemoryLimit(&containers[0])
	}
	return setArguments(vn)
}

// FollowImage gives spec.template the image of the options, if it has the image that it got from
// them before, and reports whether it has changed. Another image is the user's.
func FollowImage(vn *offloadingv1beta1.VirtualNode, options *offloadingv1beta1.VkOptionsTemplate) bool {
	image := vn.Annotations[offloadingv1beta1.ImageAnnotation]
	next := options.Spec.ContainerImage
	if image == "" || next == "" || image == next || !hasImage(vn.Spec.Template) {
		return false
	}
	container := &vn.Spec.Template.Spec.Template.Spec.Containers[0]
	if container.Image != image {
		return false
	}
	container.Image = next
	metav1.SetMetaDataAnnotation(&vn.ObjectMeta, offloadingv1beta1.ImageAnnotation, next)
	return true
}

// hasImage reports whether a template names the image of the virtual kubelet.
func hasImage(template *offloadingv1beta1.DeploymentTemplate) bool {
	return template != nil && len(template.Spec.Template.Spec.Containers) > 0 && template.Spec.Template.Spec.Containers[0].Image != ""
}

// mergeTemplate merges a user's spec.template into the options: labels, annotations, image,
// resources and the arguments that the options know. An argument
// without "=" that is not a boolean flag is an error, so that it is not lost.
func mergeTemplate(options *offloadingv1beta1.VkOptionsTemplate, template *offloadingv1beta1.DeploymentTemplate) error {
	if template == nil {
		return nil
	}
	spec := &options.Spec
	spec.ExtraLabels = mergeMaps(spec.ExtraLabels, template.ObjectMeta.Labels)
	spec.ExtraAnnotations = mergeMaps(spec.ExtraAnnotations, template.ObjectMeta.Annotations)
	containers := template.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return nil
	}
	c := containers[0]
	if c.Image != "" {
		spec.ContainerImage = c.Image
	}
	spec.Resources.Limits = mergeResources(spec.Resources.Limits, c.Resources.Limits)
	spec.Resources.Requests = mergeResources(spec.Resources.Requests, c.Resources.Requests)
	for _, arg := range c.Args {
		if err := mergeArgument(spec, arg); err != nil {
			return err
		}
	}
	return nil
}

func mergeArgument(spec *offloadingv1beta1.VkOptionsTemplateSpec, arg string) error {
	key, value, hasValue := strings.Cut(arg, "=")
	if !strings.HasPrefix(key, "--") {
		return fmt.Errorf("argument %q is not of the form --flag=value", arg)
	}
	if !hasValue && !vkflag.IsBoolean(key) {
		return fmt.Errorf("argument %q has no value: write %s=<value>", arg, key)
	}
	switch key {
	case FlagMetricsEnabled:
		spec.MetricsEnabled = value != "false"
	case FlagMetricsAddress:
		spec.MetricsAddress = value
	case FlagNodeAnnotations, FlagNodeLabels:
		parsed, err := ParseMap(key, value)
		if err != nil {
			return err
		}
		if key == FlagNodeLabels {
			spec.NodeExtraLabels = mergeMaps(spec.NodeExtraLabels, parsed)
		} else {
			spec.NodeExtraAnnotations = mergeMaps(spec.NodeExtraAnnotations, parsed)
		}
	case flagHealthPort:
		spec.ExtraArgs = setArgument(spec.ExtraArgs, flagHealthPort, value)
	default:
		for i, extra := range spec.ExtraArgs {
			if name, _, _ := strings.Cut(extra, "="); name == key {
				spec.ExtraArgs[i] = arg
			}
		}
	}
	return nil
}

// keepSecurityAndProbes copies security contexts and probes of a user's spec.template, each as
// a whole: an empty securityContext replaces the default.
func keepSecurityAndProbes(forged, fromUser *offloadingv1beta1.DeploymentTemplate) {
	if fromUser == nil {
		return
	}
	pod := &forged.Spec.Template.Spec
	pod.SecurityContext = cmp.Or(fromUser.Spec.Template.Spec.SecurityContext, pod.SecurityContext)
	containers := fromUser.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return
	}
	c, desired := &pod.Containers[0], &containers[0]
	c.SecurityContext = cmp.Or(desired.SecurityContext, c.SecurityContext)
	c.LivenessProbe = cmp.Or(desired.LivenessProbe, c.LivenessProbe)
	c.ReadinessProbe = cmp.Or(desired.ReadinessProbe, c.ReadinessProbe)
	c.StartupProbe = cmp.Or(desired.StartupProbe, c.StartupProbe)
}

// Arguments returns a copy of the arguments of the virtual kubelet's container.
func Arguments(vn *offloadingv1beta1.VirtualNode) []string {
	if vn.Spec.Template == nil || len(vn.Spec.Template.Spec.Template.Spec.Containers) == 0 {
		return nil
	}
	return slices.Clone(vn.Spec.Template.Spec.Template.Spec.Containers[0].Args)
}

// ParseMap parses the value of a flag with key=value pairs. It names the flag in errors.
func ParseMap(flag, value string) (map[string]string, error) {
	parsed := map[string]string{}
	for pair := range strings.SplitSeq(value, ",") {
		if pair == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("argument %s: %q is not of the form key=value", flag, pair)
		}
		parsed[k] = v
	}
	return parsed, nil
}

// setArguments sets the arguments that follow other fields of the VirtualNode: it replaces
// them by name, or appends them.
func setArguments(vn *offloadingv1beta1.VirtualNode) error {
	containers := vn.Spec.Template.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return fmt.Errorf("spec.template.spec.template.spec.containers is empty: the virtual kubelet needs its container")
	}
	c := &containers[0]
	if ref := vn.Spec.KubeconfigSecretRef; ref != nil {
		c.Args = setArgument(c.Args, flagKubeconfigSecret, ref.Name)
	}
	c.Args = setArgument(c.Args, flagCreateNode, strconv.FormatBool(*vn.Spec.CreateNode))
	c.Args = setArgument(c.Args, flagCheckNetwork, strconv.FormatBool(!*vn.Spec.DisableNetworkCheck))
	return nil
}

// union appends the items of more that the list does not have.
func union(list, more []string) []string {
	for _, item := range more {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}
