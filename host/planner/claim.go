package planner

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	// defaultVirtualClass is the virtual storage class that the chart creates.
	defaultVirtualClass    = "liqo"
	defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"
	// selectedNodeAnnotation is the node that the scheduler chose for a claim that waits for its first consumer.
	selectedNodeAnnotation = "volume.kubernetes.io/selected-node"
)

// AddClaim adds a claim unless the inventory has it.
func (v *Inventory) AddClaim(claim *corev1.PersistentVolumeClaim) {
	key := inventoryKey{kindClaim, claim.Namespace, claim.Name}
	if v.objects[key] == nil {
		v.Add(kindClaim, claim.ObjectMeta)
		v.claims[key] = claim
	}
}

// lostClaim returns the first claim of the pod whose data the provider has lost; empty if there is none.
func (o *Observed) lostClaim() string {
	for _, r := range o.References() {
		if r.Kind != kindClaim || o.Facts.Inventory == nil {
			continue
		}
		claim := o.Facts.Inventory.claims[inventoryKey{kindClaim, o.Pod.Namespace, r.Name}]
		if claim != nil && claim.Labels[offloadingv1beta1.RemoteClaimLabel] == offloadingv1beta1.RemoteClaimLost {
			return r.Name
		}
	}
	return ""
}

// AddStorageClass adds a storage class unless the inventory has it.
func (v *Inventory) AddStorageClass(class *storagev1.StorageClass) {
	if v.classes[class.Name] == nil {
		v.classes[class.Name] = class
	}
}

// judgeClaim sets what becomes of a claim of a pod. created are those that the controller of the
// pod creates.
func (v *Inventory) judgeClaim(f *Follow, plan *Plan, created []*corev1.PersistentVolumeClaim) {
	claim := v.claims[inventoryKey{kindClaim, plan.Namespace, f.Name}]
	for _, template := range created {
		if claim == nil && template.Name == f.Name {
			claim = template
		}
	}
	if claim == nil {
		return // missing
	}
	f.State, f.Why = Reflected, ""
	if why := v.claimStays(claim, plan.node); why != "" {
		f.State, f.Why = NotReflected, why
	}
}

// claimStays returns why the virtual node, which may be nil, has no volume for a claim, or "".
func (v *Inventory) claimStays(claim *corev1.PersistentVolumeClaim, node *virtualNode) string {
	cluster, isBound := claim.Labels[offloadingv1beta1.StorageClusterLabel], claim.Spec.VolumeName != ""
	switch {
	case isBound && cluster == "":
		return "its volume is in this cluster"
	case isBound && node != nil && cluster != string(node.Spec.ClusterID):
		return fmt.Sprintf("its volume is in cluster %q", cluster)
	case isBound:
		return ""
	}
	if selected := claim.Annotations[selectedNodeAnnotation]; selected != "" && node != nil && selected != node.Name {
		return fmt.Sprintf("its volume is being created for node %q", selected)
	}
	if why := v.classStays(claim.Spec.StorageClassName); why != "" {
		return why
	}
	if resource := reflectedResources[kindClaim]; node.reflector(resource).isDisabled {
		return node.describeDisabled(resource)
	}
	if node != nil && len(node.Spec.StorageClasses) == 0 {
		return fmt.Sprintf("virtual node %q offers no storage class", node.Name)
	}
	return ""
}

// virtualClass returns the storage class whose claims are reflected.
func (v *Inventory) virtualClass() string {
	for _, name := range slices.Sorted(maps.Keys(v.classes)) {
		if v.classes[name].Provisioner == offloadingv1beta1.StorageProvisioner {
			return name
		}
	}
	return defaultVirtualClass
}

// defaultClass returns the class of claims that name none, as the API server selects it: of several
// the newest, and of those with one time the first by name. It is nil if there is none.
func (v *Inventory) defaultClass() *storagev1.StorageClass {
	var newest *storagev1.StorageClass
	for _, name := range slices.Sorted(maps.Keys(v.classes)) {
		class := v.classes[name]
		isDefault := class.Annotations[defaultClassAnnotation] == "true"
		if isDefault && (newest == nil || newest.CreationTimestamp.Before(&class.CreationTimestamp)) {
			newest = class
		}
	}
	return newest
}

// classStays returns why a storage class has no volumes on virtual nodes, or "". nil is the default
// class.
func (v *Inventory) classStays(name *string) string {
	class := v.defaultClass()
	if name != nil {
		class = v.classes[*name]
	}
	switch {
	case class != nil && class.Provisioner == offloadingv1beta1.StorageProvisioner:
		return ""
	case class != nil:
		return fmt.Sprintf("its storage class %q has volumes in this cluster only", class.Name)
	case name == nil:
		return "it names no storage class, and the default one is not known to have volumes on virtual nodes"
	case v.isComplete:
		return fmt.Sprintf("its storage class %q does not exist", *name)
	case *name != defaultVirtualClass:
		return fmt.Sprintf("its storage class %q is not known to have volumes on virtual nodes", *name)
	}
	return ""
}
