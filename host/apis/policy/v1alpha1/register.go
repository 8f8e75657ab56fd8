package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "policy.longshore.dev", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&OffloadingPolicy{}, &OffloadingPolicyList{}, &PolicyComponent{}, &PolicyComponentList{},
		&ResourceReflection{}, &ResourceReflectionList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
