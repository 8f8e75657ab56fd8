// Package feed names what the feed of a provider and the virtual kubelets of its consumers agree on.
//
// The feed is an aggregated API. A watch of one of its resources has the events of one kind in all
// namespaces of the provider in which the caller may watch that kind. Bookmarks with
// [NamespacesAnnotation] list these namespaces.
package feed

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	// Group is the group of the APIService.
	Group = "feed.longshore.dev"
	// Version is the version of the APIService.
	Version = "v1alpha1"
	// Path is the path of the resources.
	Path = "/apis/" + Group + "/" + Version
	// NamespacesAnnotation is on a bookmark. Its value lists the namespaces whose events follow, from
	// the bookmark's resource version on.
	NamespacesAnnotation = Group + "/namespaces"
)

var gvkOf = map[string]schema.GroupVersionKind{
	"configmaps":             corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	"events":                 corev1.SchemeGroupVersion.WithKind("Event"),
	"ingresses":              networkingv1.SchemeGroupVersion.WithKind("Ingress"),
	"persistentvolumeclaims": corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	"pods":                   corev1.SchemeGroupVersion.WithKind("Pod"),
	"secrets":                corev1.SchemeGroupVersion.WithKind("Secret"),
	"services":               corev1.SchemeGroupVersion.WithKind("Service"),
	"shadowendpointslices":   offloadingv1beta1.GroupVersion.WithKind("ShadowEndpointSlice"),
	"shadowpods":             offloadingv1beta1.GroupVersion.WithKind("ShadowPod"),
}

// Resources returns the resources of the feed in alphabetical order.
func Resources() []string { return slices.Sorted(maps.Keys(gvkOf)) }

// KindOf returns the kind of a resource of the feed.
func KindOf(resource string) (schema.GroupVersionKind, bool) {
	kind, ok := gvkOf[resource]
	return kind, ok
}

// ResourceOf returns the resource of a kind, and whether the feed has it.
func ResourceOf(kind schema.GroupVersionKind) (resource string, ok bool) {
	for resource, served := range gvkOf {
		if served == kind {
			return resource, true
		}
	}
	return "", false
}

// CollectionOf returns the path of a resource of the feed in all namespaces of the API server.
func CollectionOf(resource string) (string, bool) {
	kind, ok := gvkOf[resource]
	switch {
	case !ok:
		return "", false
	case kind.Group == "":
		return "/api/" + kind.Version + "/" + resource, true
	default:
		return "/apis/" + kind.Group + "/" + kind.Version + "/" + resource, true
	}
}

// Namespaces returns the namespaces of a bookmark. ok is false for other bookmarks.
func Namespaces(bookmark metav1.Object) (namespaces []string, ok bool) {
	list, ok := bookmark.GetAnnotations()[NamespacesAnnotation]
	if !ok || list == "" {
		return nil, ok
	}
	return strings.Split(list, ","), true
}
