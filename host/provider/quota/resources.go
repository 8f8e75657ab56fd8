package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func one() *resource.Quantity { return resource.NewQuantity(1, resource.DecimalSI) }

// add adds amounts to a list, and removes resources of which nothing is left.
func add(to, amounts corev1.ResourceList) {
	change(to, amounts, func(sum *resource.Quantity, amount resource.Quantity) { sum.Add(amount) })
}

// subtract subtracts amounts from a list, and removes resources of which nothing is left.
func subtract(from, amounts corev1.ResourceList) {
	change(from, amounts, func(sum *resource.Quantity, amount resource.Quantity) { sum.Sub(amount) })
}

func change(list, amounts corev1.ResourceList, by func(*resource.Quantity, resource.Quantity)) {
	for name, amount := range amounts {
		sum := list[name].DeepCopy()
		by(&sum, amount)
		if sum.IsZero() {
			delete(list, name)
			continue
		}
		list[name] = sum
	}
}

// Within returns the amounts of the resources that are granted. Of others a Quota admits nothing, whatever is used; the
// consumer chooses their names, and a status has room for 256.
func Within(granted, amounts corev1.ResourceList) corev1.ResourceList {
	within := maps.Clone(amounts)
	maps.DeleteFunc(within, func(name corev1.ResourceName, _ resource.Quantity) bool { _, ok := granted[name]; return !ok })
	return within
}

// larger returns the larger amount of each resource.
func larger(a, b corev1.ResourceList) corev1.ResourceList {
	most := a.DeepCopy()
	if most == nil {
		most = corev1.ResourceList{}
	}
	for name, amount := range b {
		if have := most[name]; amount.Cmp(have) > 0 {
			most[name] = amount
		}
	}
	return most
}

// exceeded returns why a pod does not fit into what is left of a quota, or "". Only resources that
// the pod requests count, and pods only if the quota names them. wanted is what the pod
// takes beyond what is reserved for its name.
func exceeded(quota *offloadingv1beta1.Quota, used, requests, wanted corev1.ResourceList) string {
	hard := quota.Spec.Resources
	var over []corev1.ResourceName
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		limit, ok := hard[name]
		if request := requests[name]; request.IsZero() || !ok && name == corev1.ResourcePods {
			continue
		}
		sum := used[name].DeepCopy()
		sum.Add(wanted[name])
		if sum.Cmp(limit) > 0 {
			over = append(over, name)
		}
	}
	if len(over) == 0 {
		return ""
	}
	abandoned := ""
	if slices.ContainsFunc(over, func(name corev1.ResourceName) bool {
		return !quota.Status.Abandoned.Name(name, resource.DecimalSI).IsZero()
	}) {
		abandoned = fmt.Sprintf(" (%s by pods of ResourceSlices that are gone, until they have ended)", amounts(quota.Status.Abandoned, over))
	}
	return fmt.Sprintf("exceeded quota %s: requested %s; used %s%s; granted %s", quota.Name, amounts(requests, over), amounts(used, over), abandoned, amounts(hard, over))
}

func amounts(list corev1.ResourceList, names []corev1.ResourceName) string {
	texts := make([]string, len(names))
	for i, name := range names {
		quantity := list[name]
		texts[i] = fmt.Sprintf("%s=%s", name, quantity.String())
	}
	return strings.Join(texts, ",")
}
