package virtualnode

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	// TemplateHashAnnotation on the Deployment is the hash of the desired spec. Fields that are
	// removed from a VirtualNode's template are then removed from the Deployment.
	TemplateHashAnnotation = "longshore.dev/template-hash"
)

// ForgeServiceAccount builds the ServiceAccount of a virtual kubelet.
func ForgeServiceAccount(vn *offloadingv1beta1.VirtualNode) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: vn.Name, Namespace: vn.Namespace, Labels: Labels(vn)}}
}

// ForgeDeployment builds the virtual kubelet's Deployment from the VirtualNode's spec.template.
// The hash of the offloadingPatch is not in the pod template: a virtual
// kubelet applies a new patch without a restart.
func ForgeDeployment(vn *offloadingv1beta1.VirtualNode) (*appsv1.Deployment, error) {
	template := vn.Spec.Template
	if template == nil {
		return nil, fmt.Errorf("VirtualNode %s/%s has no spec.template because the admission webhook was not called: delete the VirtualNode and create it again", vn.Namespace, vn.Name)
	}
	deployment := &appsv1.Deployment{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	if deployment.Namespace == "" {
		deployment.Namespace = vn.Namespace
	}
	if deployment.Namespace != vn.Namespace {
		return nil, fmt.Errorf("invalid spec.template.metadata.namespace %q: it must be the namespace of the VirtualNode, %q", deployment.Namespace, vn.Namespace)
	}
	spec, err := jsonHash(deployment.Spec)
	if err != nil {
		return nil, fmt.Errorf("hashing spec.template: %w", err)
	}
	patch, err := patchHash(vn.Spec.OffloadingPatch)
	if err != nil {
		return nil, err
	}
	deployment.Annotations = merged(deployment.Annotations, map[string]string{
		TemplateHashAnnotation: spec, offloadingv1beta1.OffloadingPatchHashAnnotation: patch,
	})
	return deployment, nil
}

// patchHash returns the hash of the patch, or "" without a patch.
func patchHash(patch *offloadingv1beta1.OffloadingPatch) (string, error) {
	if patch == nil {
		return "", nil
	}
	hash, err := jsonHash(patch)
	if err != nil {
		return "", fmt.Errorf("hashing spec.offloadingPatch: %w", err)
	}
	return hash, nil
}

// jsonHash returns the hexadecimal SHA-256 of the JSON encoding of a value.
func jsonHash(value any) (string, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding a %T: %w", value, err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}

// ForgeNamespaceMap builds the NamespaceMap of a provider.
func ForgeNamespaceMap(id, tenantNamespace string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{
		Name: id, Namespace: tenantNamespace,
		Labels: map[string]string{
			liqocorev1beta1.RemoteClusterIDLabel: id,
			liqocorev1beta1.ReplicationLabel:     "true",
			liqocorev1beta1.RemoteIDLabel:        id,
		},
	}}
}

// SetCondition sets the condition of a type, which occurs at most once. It keeps the
// transition time of an unchanged status, and ignores invalid transitions.
func SetCondition(vn *offloadingv1beta1.VirtualNode, kind offloadingv1beta1.VirtualNodeConditionType, status offloadingv1beta1.VirtualNodeConditionStatusType, message string, now metav1.Time) {
	desired := offloadingv1beta1.VirtualNodeCondition{Type: kind, Status: status, Message: message, LastTransitionTime: now}
	kept := make([]offloadingv1beta1.VirtualNodeCondition, 0, len(vn.Status.Conditions)+1)
	for _, c := range vn.Status.Conditions {
		if c.Type != kind {
			kept = append(kept, c)
			continue
		}
		if c.Status == status || isInvalidTransition(c.Status, status) {
			desired.Status, desired.LastTransitionTime = c.Status, c.LastTransitionTime
		}
	}
	vn.Status.Conditions = append(kept, desired)
}

func isInvalidTransition(from, to offloadingv1beta1.VirtualNodeConditionStatusType) bool {
	switch from {
	case offloadingv1beta1.NoneConditionStatusType:
		return to == offloadingv1beta1.DrainingConditionStatusType || to == offloadingv1beta1.DeletingConditionStatusType
	case offloadingv1beta1.DeletingConditionStatusType:
		return to == offloadingv1beta1.DrainingConditionStatusType
	default:
		return false
	}
}

// Labels returns the labels of all objects that are created for a VirtualNode.
func Labels(vn *offloadingv1beta1.VirtualNode) map[string]string {
	return map[string]string{
		liqocorev1beta1.ManagedByLabel:       liqocorev1beta1.ManagedByValue,
		liqocorev1beta1.RemoteClusterIDLabel: string(vn.Spec.ClusterID),
		offloadingv1beta1.VirtualNodeLabel:   vn.Name,
	}
}
