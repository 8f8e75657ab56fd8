package virtualnode

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/kit/vkflag"
)

// integerResources are the resources without a domain that a Node counts in whole numbers.
var integerResources = []corev1.ResourceName{
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
	corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

// taintEffects are the effects that Kubernetes knows.
var taintEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

// validateNew returns the errors that the old object did not have. Errors of the old object
// must not prevent other changes.
func validateNew(before, after *offloadingv1beta1.VirtualNode) field.ErrorList {
	errs := validate(after)
	if before == nil || len(errs) == 0 {
		return errs
	}
	existing := map[string]bool{}
	for _, err := range validate(before) {
		existing[err.Error()] = true
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return existing[err.Error()] })
}

// validate returns what the API server would reject in the Node of a VirtualNode. There the
// error would only reach the virtual kubelet. A test compares it with an API server.
func validate(vn *offloadingv1beta1.VirtualNode) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateLabelValue(vn.Name, field.NewPath("metadata", "name"), "it is the name of the Node and the value of its label kubernetes.io/hostname")
	errs = append(errs, validateLabelValue(string(vn.Spec.ClusterID), spec.Child("clusterID"), "it is the value of a label")...)
	errs = append(errs, metav1validation.ValidateLabels(vn.Spec.Labels, spec.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(vn.Spec.Annotations, spec.Child("annotations"))...)
	errs = append(errs, validateTaints(vn.Spec.Taints, spec.Child("taints"))...)
	errs = append(errs, validateResources(vn.Spec.ResourceQuota.Hard, spec.Child("resourceQuota", "hard"))...)
	return append(errs, validateArguments(vn)...)
}

func validateLabelValue(value string, path *field.Path, reason string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, reason)}
	}
	var errs field.ErrorList
	for _, message := range validation.IsValidLabelValue(value) {
		errs = append(errs, field.Invalid(path, value, message+": "+reason))
	}
	return errs
}

// validateTaints accepts two taints with the same key and effect: the first one counts.
func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
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

func validateResources(hard corev1.ResourceList, path *field.Path) field.ErrorList {
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

// isInteger reports whether a resource is counted in whole numbers. Extended resources are.
func isInteger(name corev1.ResourceName) bool {
	extended := strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
	return extended || slices.Contains(integerResources, name)
}

// validateArguments validates the arguments that a virtual kubelet could not parse, and the Node's labels
// and annotations in them. Those of the VkOptionsTemplate are there as well.
func validateArguments(vn *offloadingv1beta1.VirtualNode) field.ErrorList {
	path := field.NewPath("spec", "template", "spec", "template", "spec", "containers").Index(0).Child("args")
	var errs field.ErrorList
	for i, argument := range virtualkubelet.Arguments(vn) {
		at := path.Index(i)
		flag, value, hasValue := strings.Cut(argument, "=")
		switch {
		case flag == virtualkubelet.FlagNodeLabels, flag == virtualkubelet.FlagNodeAnnotations:
			errs = append(errs, validateExtra(flag, value, at)...)
		case flag == virtualkubelet.FlagNodeName && value != vn.Name:
			errs = append(errs, field.Invalid(at, argument, "must be the name of the VirtualNode"))
		case hasValue && vkflag.IsBoolean(flag):
			if _, err := strconv.ParseBool(value); err != nil {
				errs = append(errs, field.Invalid(at, argument, "must be true or false"))
			}
		}
	}
	return errs
}

// validateExtra validates labels or annotations of the Node in an argument.
func validateExtra(flag, value string, at *field.Path) field.ErrorList {
	extra, err := virtualkubelet.ParseMap(flag, value)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, flag+"="+value, err.Error())}
	case flag == virtualkubelet.FlagNodeLabels:
		return metav1validation.ValidateLabels(extra, at.Child(flag))
	default:
		return apivalidation.ValidateAnnotations(extra, at.Child(flag))
	}
}
