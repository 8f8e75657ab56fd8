// Package tenancy is longshorectl cordon, uncordon, drain and activate: how a provider's
// administrator stops a consumer, or one of its resource slices, and lets it continue.
package tenancy

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// verb is what is done to a tenant or a slice.
type verb string

const (
	cordon   verb = "cordon"
	uncordon verb = "uncordon"
	drain    verb = "drain"
	activate verb = "activate"
)

// next returns the condition that a tenant gets, or its own with a notice why nothing is done.
// Cordon and uncordon do not undo a drain.
func next(name string, current authv1beta1.TenantCondition, do verb) (want authv1beta1.TenantCondition, notice string) {
	if current == "" {
		current = authv1beta1.TenantConditionActive
	}
	want = map[verb]authv1beta1.TenantCondition{
		cordon: authv1beta1.TenantConditionCordoned, uncordon: authv1beta1.TenantConditionActive,
		drain: authv1beta1.TenantConditionDrained, activate: authv1beta1.TenantConditionActive,
	}[do]
	switch {
	case current == want:
		return current, fmt.Sprintf("tenant %s is %s already", name, current)
	case current != authv1beta1.TenantConditionDrained || do == activate:
		return want, ""
	case do == cordon:
		return current, fmt.Sprintf("tenant %s is Drained, which takes more away; run longshorectl activate tenant %[1]s before", name)
	default:
		return current, fmt.Sprintf("tenant %s is Drained; run longshorectl activate tenant %[1]s", name)
	}
}

// pending returns what Longshore's manager has not done yet about a tenant's condition, from the
// consumer's slices and the names of its NamespaceMaps in the tenant namespace, or "".
func pending(tenant *authv1beta1.Tenant, slices []authv1beta1.ResourceSlice, namespaceMaps []string) string {
	condition := tenant.Spec.TenantCondition
	// The reference sets no condition.
	if ready := meta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady); ready != nil && ready.ObservedGeneration < tenant.Generation {
		return "Longshore's manager to look at the Tenant"
	}
	for i := range slices {
		slice := &slices[i]
		if !resourceslice.IsCopy(slice) {
			continue
		}
		isMarked := authentication.IsCordonedBy(slice, authv1beta1.CordonTenantAnnotation)
		switch {
		case condition == authv1beta1.TenantConditionDrained:
			return "ResourceSlice " + slice.Name + " to be deleted"
		case isMarked != (condition == authv1beta1.TenantConditionCordoned):
			return "the annotation " + authv1beta1.CordonTenantAnnotation + " of ResourceSlice " + slice.Name + " to follow"
		}
	}
	if condition == authv1beta1.TenantConditionDrained && len(namespaceMaps) > 0 {
		return "the offloaded namespaces of NamespaceMap " + namespaceMaps[0] + " to be deleted"
	}
	return ""
}

// setCordon sets or removes the mark of a cordoned slice, and reports whether it was changed.
func setCordon(slice *authv1beta1.ResourceSlice, cordoned bool) bool {
	if authentication.IsCordonedBy(slice, authv1beta1.CordonAnnotation) == cordoned {
		return false
	}
	if cordoned {
		metav1.SetMetaDataAnnotation(&slice.ObjectMeta, authv1beta1.CordonAnnotation, "true")
	} else {
		delete(slice.Annotations, authv1beta1.CordonAnnotation)
	}
	return true
}
