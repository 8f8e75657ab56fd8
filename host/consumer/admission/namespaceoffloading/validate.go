package namespaceoffloading

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// verdict is the result of a validation: a denial, or warnings.
type verdict struct {
	denial   string
	warnings []string
}

func deny(format string, args ...any) verdict { return verdict{denial: fmt.Sprintf(format, args...)} }

// kubernetesNamespaces are the namespaces that exist in every cluster, with their content. An empty
// content means that the namespace may be offloaded, but not under its own name.
var kubernetesNamespaces = map[string]string{
	metav1.NamespaceSystem:    "the cluster's own components",
	metav1.NamespacePublic:    "data that all users may read",
	corev1.NamespaceNodeLease: "the nodes' leases",
	metav1.NamespaceDefault:   "",
}

// environment is what the validation of a NamespaceOffloading depends on.
type environment struct {
	// clusterID is the ID of the local cluster, ownNamespace the namespace of Longshore.
	clusterID, ownNamespace string
	// labels are the labels of the NamespaceOffloading's namespace.
	labels map[string]string
}

// validateCreate validates a new NamespaceOffloading.
func validateCreate(nso *offloadingv1beta1.NamespaceOffloading, env environment) verdict {
	if v := validateName(nso); v.denial != "" {
		return v
	}
	if v := validateNamespace(nso.Namespace, env); v.denial != "" {
		return v
	}
	if v := validateSelector(&nso.Spec.ClusterSelector); v.denial != "" {
		return v
	}
	spec := &nso.Spec
	if spec.NamespaceMappingStrategy == offloadingv1beta1.SelectedNameMappingStrategyType {
		if spec.RemoteNamespaceName == "" {
			return deny("spec.remoteNamespaceName is required with namespaceMappingStrategy SelectedName")
		}
		if errs := validation.IsDNS1123Label(spec.RemoteNamespaceName); len(errs) > 0 {
			return deny("invalid spec.remoteNamespaceName %q: %s", spec.RemoteNamespaceName, strings.Join(errs, "; "))
		}
	}
	if v := validateRemoteName(nso); v.denial != "" {
		return v
	}
	// DefaultName appends the cluster ID, which can exceed the maximum length of a name.
	if spec.NamespaceMappingStrategy == offloadingv1beta1.DefaultNameMappingStrategyType || spec.NamespaceMappingStrategy == "" {
		if name := nso.Namespace + "-" + env.clusterID; len(name) > validation.DNS1123LabelMaxLength {
			return deny("the name of the remote namespace, %q, is longer than %d characters: use namespaceMappingStrategy SelectedName",
				name, validation.DNS1123LabelMaxLength)
		}
	}
	if spec.RemoteNamespaceName != "" && spec.NamespaceMappingStrategy != offloadingv1beta1.SelectedNameMappingStrategyType {
		return verdict{warnings: []string{fmt.Sprintf("spec.remoteNamespaceName %q has no effect without namespaceMappingStrategy SelectedName",
			spec.RemoteNamespaceName)}}
	}
	return verdict{}
}

// validateNamespace denies offloading the namespaces that offloading depends on: their pods would
// wait for the webhook, which may run in them, and their Secrets would be sent to the provider.
func validateNamespace(name string, env environment) verdict {
	content := kubernetesNamespaces[name]
	switch {
	case name == env.ownNamespace:
		content = "Longshore itself"
	case liqocorev1beta1.HasTenantLabel(env.labels):
		content = "the virtual kubelets of a peer and the credentials for it"
	}
	if content == "" {
		return verdict{}
	}
	return deny("namespace %q cannot be offloaded because it contains %s: offload namespaces of applications", name, content)
}

// validateRemoteName denies remote names that exist in every cluster.
func validateRemoteName(nso *offloadingv1beta1.NamespaceOffloading) verdict {
	name, field := nso.Spec.RemoteNamespaceName, "spec.remoteNamespaceName"
	switch nso.Spec.NamespaceMappingStrategy {
	case offloadingv1beta1.SelectedNameMappingStrategyType:
	case offloadingv1beta1.EnforceSameNameMappingStrategyType:
		name, field = nso.Namespace, "spec.namespaceMappingStrategy EnforceSameName"
	default:
		return verdict{}
	}
	if _, exists := kubernetesNamespaces[name]; !exists {
		return verdict{}
	}
	return deny("%s results in the remote namespace %q, which exists in every cluster: choose another name", field, name)
}

// validateUpdate validates a changed NamespaceOffloading.
func validateUpdate(before, after *offloadingv1beta1.NamespaceOffloading) verdict {
	if v := validateName(after); v.denial != "" {
		return v
	}
	// An invalid selector of the old object must not prevent other changes.
	if !equality.Semantic.DeepEqual(before.Spec.ClusterSelector, after.Spec.ClusterSelector) {
		if v := validateSelector(&after.Spec.ClusterSelector); v.denial != "" {
			return v
		}
	}
	if before.Spec.NamespaceMappingStrategy != after.Spec.NamespaceMappingStrategy {
		return deny("spec.namespaceMappingStrategy cannot be changed: delete the NamespaceOffloading and create it again")
	}
	if before.Spec.RemoteNamespaceName != after.Spec.RemoteNamespaceName {
		return deny("spec.remoteNamespaceName cannot be changed: delete the NamespaceOffloading and create it again")
	}
	tightened := after.Spec.PodOffloadingStrategy != offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType
	if before.Spec.PodOffloadingStrategy != after.Spec.PodOffloadingStrategy && tightened {
		return verdict{warnings: []string{fmt.Sprintf(
			"running pods are not moved and may violate podOffloadingStrategy %s", after.Spec.PodOffloadingStrategy)}}
	}
	return verdict{}
}

// validateName validates the name.
func validateName(nso *offloadingv1beta1.NamespaceOffloading) verdict {
	if nso.Name != offloadingv1beta1.NamespaceOffloadingName {
		return deny("a NamespaceOffloading must be named %q: there is one per namespace", offloadingv1beta1.NamespaceOffloadingName)
	}
	return verdict{}
}

func validateSelector(selector *corev1.NodeSelector) verdict {
	if len(selector.NodeSelectorTerms) == 0 {
		return verdict{}
	}
	if _, err := nodeaffinity.NewNodeSelector(selector); err != nil {
		return deny("spec.clusterSelector is invalid: %v", err)
	}
	return verdict{}
}
