package virtualnode

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// integerResources are the resources without a domain that a Node counts in whole numbers.
var integerResources = []corev1.ResourceName{
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
	corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

// taintEffects are those that Kubernetes knows.
var taintEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

// news lists what is wrong with a VirtualNode and was not wrong before: what was there
// already may stay, or nothing else of the object could be written any more.
func news(before, after *offloadingv1beta1.VirtualNode) field.ErrorList {
	errs := invalid(after)
	if before == nil || len(errs) == 0 {
		return errs
	}
	had := map[string]bool{}
	for _, err := range invalid(before) {
		had[err.Error()] = true
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return had[err.Error()] })
}

// invalid lists what the API server would refuse of the Node that a VirtualNode becomes.
// There it would be the virtual kubelet that is told, which nobody asks. A test holds it
// against an API server.
func invalid(vn *offloadingv1beta1.VirtualNode) field.ErrorList {
	spec := field.NewPath("spec")
	errs := labelValue(vn.Name, field.NewPath("metadata", "name"), "the name becomes the Node's, and the value of its label kubernetes.io/hostname")
	errs = append(errs, labelValue(string(vn.Spec.ClusterID), spec.Child("clusterID"), "it becomes the value of a label")...)
	errs = append(errs, metav1validation.ValidateLabels(vn.Spec.Labels, spec.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(vn.Spec.Annotations, spec.Child("annotations"))...)
	errs = append(errs, invalidTaints(vn.Spec.Taints, spec.Child("taints"))...)
	errs = append(errs, invalidResources(vn.Spec.ResourceQuota.Hard, spec.Child("resourceQuota", "hard"))...)
	return append(errs, invalidExtras(vn)...)
}

func labelValue(value string, path *field.Path, because string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, because)}
	}
	var errs field.ErrorList
	for _, message := range validation.IsValidLabelValue(value) {
		errs = append(errs, field.Invalid(path, value, message+": "+because))
	}
	return errs
}

// invalidTaints says nothing about two taints of one key and effect: the first one counts.
func invalidTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range taints {
		at := path.Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(taints[i].Key, at.Child("key"))...)
		for _, message := range validation.IsValidLabelValue(taints[i].Value) {
			errs = append(errs, field.Invalid(at.Child("value"), taints[i].Value, message))
		}
		if !slices.Contains(taintEffects, taints[i].Effect) {
			errs = append(errs, field.NotSupported(at.Child("effect"), taints[i].Effect, taintEffects))
		}
	}
	return errs
}

func invalidResources(hard corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		quantity := hard[name]
		switch {
		case quantity.Cmp(resource.Quantity{}) < 0:
			errs = append(errs, field.Invalid(path.Key(string(name)), quantity.String(), "must not be negative"))
		case isInteger(name) && quantity.MilliValue()%1000 != 0:
			errs = append(errs, field.Invalid(path.Key(string(name)), quantity.String(), "must be a whole number"))
		}
	}
	return errs
}

// isInteger holds for extended resources too: those of a domain that is not Kubernetes'.
func isInteger(name corev1.ResourceName) bool {
	extended := strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
	return extended || slices.Contains(integerResources, name)
}

// invalidExtras judges the labels and annotations of the Node that stand in arguments,
// where the VkOptionsTemplate's end as well.
func invalidExtras(vn *offloadingv1beta1.VirtualNode) field.ErrorList {
	path := field.NewPath("spec", "template", "spec", "template", "spec", "containers").Index(0).Child("args")
	var errs field.ErrorList
	for i, argument := range arguments(vn) {
		flag, value, _ := strings.Cut(argument, "=")
		if flag != flagNodeLabels && flag != flagNodeAnnotations {
			continue
		}
		at := path.Index(i)
		extra, err := parseMap(flag, value)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at, argument, err.Error()))
		case flag == flagNodeLabels:
			errs = append(errs, metav1validation.ValidateLabels(extra, at.Child(flag))...)
		default:
			errs = append(errs, apivalidation.ValidateAnnotations(extra, at.Child(flag))...)
		}
	}
	return errs
}
