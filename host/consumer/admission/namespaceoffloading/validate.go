package namespaceoffloading

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// verdict is an admission answer: a denial, or warnings with an approval.
type verdict struct {
	denial   string
	warnings []string
}

func deny(format string, args ...any) verdict { return verdict{denial: fmt.Sprintf(format, args...)} }

// validateCreate decides about a new NamespaceOffloading (reference 2.3). The selector's
// syntax is checked here, not in the controller's events only.
func validateCreate(nso *offloadingv1beta1.NamespaceOffloading, home string) verdict {
	if v := validateName(nso); v.denial != "" {
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
	// DefaultName appends the cluster ID, which can exceed what a namespace name may hold (T67).
	if spec.NamespaceMappingStrategy == offloadingv1beta1.DefaultNameMappingStrategyType || spec.NamespaceMappingStrategy == "" {
		if name := nso.Namespace + "-" + home; len(name) > validation.DNS1123LabelMaxLength {
			return deny("the remote namespace would be named %q, which is longer than %d characters: use namespaceMappingStrategy SelectedName",
				name, validation.DNS1123LabelMaxLength)
		}
	}
	return verdict{}
}

// validateUpdate decides about a changed NamespaceOffloading (reference 2.3).
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
