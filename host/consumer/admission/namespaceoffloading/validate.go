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

// verdict is an admission answer: a denial, or warnings with an approval.
type verdict struct {
	denial   string
	warnings []string
}

func deny(format string, args ...any) verdict { return verdict{denial: fmt.Sprintf(format, args...)} }

// kubernetesNamespaces are those of Kubernetes itself, by what they hold. Every cluster has
// them, and their own names are nobody else's.
var kubernetesNamespaces = map[string]string{
	metav1.NamespaceSystem:    "the cluster's own components",
	metav1.NamespacePublic:    "what everybody may read of the cluster",
	corev1.NamespaceNodeLease: "the nodes' leases",
	metav1.NamespaceDefault:   "",
}

// facts are what a new NamespaceOffloading is judged by, beside itself.
type facts struct {
	// home is the own cluster's identity, own the namespace that Longshore runs in.
	home, own string
	// namespace holds the labels of the NamespaceOffloading's namespace.
	namespace map[string]string
}

// validateCreate decides about a new NamespaceOffloading (wire 2.3). The selector's
// syntax is checked here, not in the controller's events only.
func validateCreate(nso *offloadingv1beta1.NamespaceOffloading, known facts) verdict {
	if v := validateName(nso); v.denial != "" {
		return v
	}
	if v := validateNamespace(nso.Namespace, known); v.denial != "" {
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
			return deny("spec.remoteNamespaceName %q is no namespace name: %s", spec.RemoteNamespaceName, strings.Join(errs, "; "))
		}
	}
	if v := validateRemoteName(nso); v.denial != "" {
		return v
	}
	// DefaultName appends the cluster ID, which can exceed what a namespace name may hold (T67).
	if spec.NamespaceMappingStrategy == offloadingv1beta1.DefaultNameMappingStrategyType || spec.NamespaceMappingStrategy == "" {
		if name := nso.Namespace + "-" + known.home; len(name) > validation.DNS1123LabelMaxLength {
			return deny("the remote namespace would be named %q, which is longer than %d characters: use namespaceMappingStrategy SelectedName",
				name, validation.DNS1123LabelMaxLength)
		}
	}
	if spec.RemoteNamespaceName != "" && spec.NamespaceMappingStrategy != offloadingv1beta1.SelectedNameMappingStrategyType {
		return verdict{warnings: []string{fmt.Sprintf("spec.remoteNamespaceName %q has no effect: only namespaceMappingStrategy SelectedName reads it",
			spec.RemoteNamespaceName)}}
	}
	return verdict{}
}

// validateNamespace keeps at home what offloading itself stands on: an offloaded namespace
// makes its pods wait for the webhook, which would wait for itself, and sends its Secrets
// to the provider, of which these hold the cluster's own.
func validateNamespace(name string, known facts) verdict {
	holds := kubernetesNamespaces[name]
	switch {
	case name == known.own:
		holds = "Longshore itself"
	case known.namespace[liqocorev1beta1.TenantNamespaceLabel] == "true":
		holds = "the virtual kubelets of a peer and the credentials for it"
	}
	if holds == "" {
		return verdict{}
	}
	return deny("namespace %q cannot be offloaded: it holds %s; offload the namespaces of your applications", name, holds)
}

// validateRemoteName refuses the names that no provider can give away.
func validateRemoteName(nso *offloadingv1beta1.NamespaceOffloading) verdict {
	name, field := nso.Spec.RemoteNamespaceName, "spec.remoteNamespaceName"
	switch nso.Spec.NamespaceMappingStrategy {
	case offloadingv1beta1.SelectedNameMappingStrategyType:
	case offloadingv1beta1.EnforceSameNameMappingStrategyType:
		name, field = nso.Namespace, "spec.namespaceMappingStrategy EnforceSameName"
	default:
		return verdict{}
	}
	if _, taken := kubernetesNamespaces[name]; !taken {
		return verdict{}
	}
	return deny("%s asks for a remote namespace %q, which is every provider's own: choose another name", field, name)
}

// validateUpdate decides about a changed NamespaceOffloading (wire 2.3).
func validateUpdate(before, after *offloadingv1beta1.NamespaceOffloading) verdict {
	if v := validateName(after); v.denial != "" {
		return v
	}
	// A selector that was there before this webhook may stay, or nothing else of the
	// object could be written any more.
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
			"pods that already run may violate podOffloadingStrategy %s: they are not moved", after.Spec.PodOffloadingStrategy)}}
	}
	return verdict{}
}

// validateName holds what is true for every operation.
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
