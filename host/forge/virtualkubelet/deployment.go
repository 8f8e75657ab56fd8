package virtualkubelet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// TemplateHashAnnotation on the Deployment is the hash of the desired spec. Fields that are
// removed from a VirtualNode's template are then removed from the Deployment.
const TemplateHashAnnotation = "longshore.dev/template-hash"

// Deployment builds the virtual kubelet's Deployment from the VirtualNode's spec.template.
// The hash of the offloadingPatch is not in the pod template: a virtual
// kubelet applies a new patch without a restart.
func Deployment(vn *offloadingv1beta1.VirtualNode) (*appsv1.Deployment, error) {
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
	deployment.Annotations = mergeMaps(deployment.Annotations, map[string]string{
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

// DisruptionBudget builds the PodDisruptionBudget of a virtual kubelet with several replicas: a
// drain evicts one replica at a time. It returns nil for one replica, whose eviction a budget would
// prevent or not affect.
func DisruptionBudget(deployment *appsv1.Deployment) *policyv1.PodDisruptionBudget {
	if ptr.Deref(deployment.Spec.Replicas, 1) < 2 {
		return nil
	}
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Name: deployment.Name, Namespace: deployment.Namespace, Labels: deployment.Labels,
			// The garbage collector deletes it with the Deployment.
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             ptr.To(intstr.FromInt32(1)),
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
			Selector:                   deployment.Spec.Selector,
		},
	}
}
