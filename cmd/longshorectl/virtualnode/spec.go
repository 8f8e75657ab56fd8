package virtualnode

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// defaultCapacity is that of a VirtualNode of a Secret, as the reference sets it.
func defaultCapacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
}

// Spec says what VirtualNode is wanted. Its zero values leave a field as it is, or as the
// slice has it.
type Spec struct {
	// Name of the VirtualNode and of its Node.
	Name string
	// Provider is the cluster that it is a share of.
	Provider liqocorev1beta1.ClusterID
	// Slice or Secret has its credentials: the name of one of them.
	Slice, Secret string
	// Resources of its capacity.
	Resources corev1.ResourceList
	// StorageClasses and the others of the provider; the first one is the default.
	StorageClasses, IngressClasses, LoadBalancerClasses []string
	// Labels of the Node.
	Labels map[string]string
	// NodeSelector and RuntimeClassName of remote pods.
	NodeSelector     map[string]string
	RuntimeClassName string
	// Template is a VkOptionsTemplate, NAMESPACE/NAME.
	Template *corev1.ObjectReference
	// CreateNode and DisableNetworkCheck are nil where the template decides.
	CreateNode, DisableNetworkCheck *bool
}

// secretName returns the name of the Secret with the credentials.
func (s *Spec) secretName() string {
	if s.Slice != "" {
		return authentication.KubeconfigSecretName(authentication.SliceIdentityName(s.Slice))
	}
	return s.Secret
}

// Object returns a new VirtualNode, with what the slice, unless it is nil, grants.
func (s *Spec) Object(namespace string, slice *authv1beta1.ResourceSlice) *offloadingv1beta1.VirtualNode {
	labels := map[string]string{liqocorev1beta1.RemoteClusterIDLabel: string(s.Provider)}
	vn := &offloadingv1beta1.VirtualNode{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "VirtualNode"},
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: namespace, Labels: labels},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID: s.Provider, KubeconfigSecretRef: &corev1.LocalObjectReference{Name: s.secretName()},
			Labels: maps.Clone(labels), ResourceQuota: corev1.ResourceQuotaSpec{Hard: defaultCapacity()},
		},
	}
	if slice != nil {
		maps.Copy(vn.Spec.Labels, slice.Status.NodeLabels)
		vn.Spec.Labels[liqocorev1beta1.RemoteClusterIDLabel] = string(s.Provider)
		vn.Spec.ResourceQuota.Hard = slice.Status.Resources.DeepCopy()
		vn.Spec.StorageClasses, vn.Spec.IngressClasses, vn.Spec.LoadBalancerClasses =
			slice.Status.StorageClasses, slice.Status.IngressClasses, slice.Status.LoadBalancerClasses
		if len(slice.Status.NodeSelector) > 0 {
			vn.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{NodeSelector: maps.Clone(slice.Status.NodeSelector)}
		}
	}
	s.change(vn)
	return vn
}

// change sets in a VirtualNode what is wanted.
func (s *Spec) change(vn *offloadingv1beta1.VirtualNode) {
	spec := &vn.Spec
	vn.Spec.ResourceQuota.Hard = merge(spec.ResourceQuota.Hard, s.Resources)
	spec.Labels = merge(spec.Labels, s.Labels)
	if len(s.StorageClasses) > 0 {
		spec.StorageClasses = classes(s.StorageClasses, func(name string, isDefault bool) authv1beta1.StorageType {
			return authv1beta1.StorageType{StorageClassName: name, Default: isDefault}
		})
	}
	if len(s.IngressClasses) > 0 {
		spec.IngressClasses = classes(s.IngressClasses, func(name string, isDefault bool) authv1beta1.IngressType {
			return authv1beta1.IngressType{IngressClassName: name, Default: isDefault}
		})
	}
	if len(s.LoadBalancerClasses) > 0 {
		spec.LoadBalancerClasses = classes(s.LoadBalancerClasses, func(name string, isDefault bool) authv1beta1.LoadBalancerType {
			return authv1beta1.LoadBalancerType{LoadBalancerClassName: name, Default: isDefault}
		})
	}
	if spec.OffloadingPatch == nil && (len(s.NodeSelector) > 0 || s.RuntimeClassName != "") {
		spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{}
	}
	if len(s.NodeSelector) > 0 {
		spec.OffloadingPatch.NodeSelector = merge(spec.OffloadingPatch.NodeSelector, s.NodeSelector)
	}
	if s.RuntimeClassName != "" {
		spec.OffloadingPatch.RuntimeClassName = ptr.To(s.RuntimeClassName)
	}
	if s.Template != nil {
		spec.VkOptionsTemplateRef = s.Template
	}
	if s.CreateNode != nil {
		spec.CreateNode = s.CreateNode
	}
	if s.DisableNetworkCheck != nil {
		spec.DisableNetworkCheck = s.DisableNetworkCheck
	}
}

// checkExisting returns why a VirtualNode that exists cannot become the one that is wanted.
func (s *Spec) checkExisting(vn *offloadingv1beta1.VirtualNode) error {
	switch ref := vn.Spec.KubeconfigSecretRef; {
	case admin.IsOwnedBy(vn, "ResourceSlice"):
		return fmt.Errorf("VirtualNode %q follows its ResourceSlice: change that with longshorectl create resourceslice, or choose another name", vn.Name)
	case vn.Spec.ClusterID != s.Provider || ref != nil && ref.Name != "" && ref.Name != s.secretName():
		return fmt.Errorf("VirtualNode %q exists with provider %q and another Secret or slice: delete it first, or choose another name", vn.Name, vn.Spec.ClusterID)
	default:
		return nil
	}
}

func classes[T any](names []string, of func(name string, isDefault bool) T) []T {
	all := make([]T, len(names))
	for i, name := range names {
		all[i] = of(name, i == 0)
	}
	return all
}

// merge returns the entries of both maps; those of over win.
func merge[M ~map[K]V, K comparable, V any](base, over M) M {
	if len(over) == 0 {
		return base
	}
	merged := maps.Clone(base)
	if merged == nil {
		merged = M{}
	}
	maps.Copy(merged, over)
	return merged
}

// parseTemplate parses NAME, which is in Longshore's namespace, or NAMESPACE/NAME.
func parseTemplate(value, namespace string) (*corev1.ObjectReference, error) {
	name := value
	if before, after, ok := strings.Cut(value, "/"); ok {
		namespace, name = before, after
	}
	if name == "" || namespace == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("invalid --vk-options-template %q: it is NAME or NAMESPACE/NAME", value)
	}
	return &corev1.ObjectReference{Namespace: namespace, Name: name}, nil
}
