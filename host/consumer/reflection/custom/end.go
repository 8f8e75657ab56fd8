package custom

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// End is the API server of one of the two clusters. Every authenticated user may read what it
// serves (ClusterRole system:discovery) and ask for the own rights (system:basic-user), so an End
// needs no right on CustomResourceDefinitions.
type End struct {
	raw     rest.Interface
	reviews authorizationclient.SelfSubjectRulesReviewInterface
	dynamic dynamic.Interface
}

// NewEnd returns the End of a kubeconfig.
func NewEnd(config *rest.Config) (*End, error) {
	unversioned := rest.CopyConfig(config)
	unversioned.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	raw, err := rest.UnversionedRESTClientFor(unversioned)
	if err != nil {
		return nil, fmt.Errorf("connecting to read the served kinds: %w", err)
	}
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to review access: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to read custom resources: %w", err)
	}
	return &End{raw: raw, reviews: authorization.SelfSubjectRulesReviews(), dynamic: objects}, nil
}

// sight is what a look at an API server shows that does not depend on a kind.
type sight struct {
	// documents are the URLs of the documents of groups and versions, "apis/<group>/<version>". A
	// URL contains the hash of its document.
	documents map[string]string
	// rules are the rights of the virtual kubelet in a namespace. If they are not complete, rights
	// that are not among them may exist.
	rules      []authorizationv1.ResourceRule
	isComplete bool
}

// look looks at an API server. Without a namespace, it does not look at rights.
func (e *End) look(ctx context.Context, namespace string) (sight, error) {
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := e.get(ctx, "/openapi/v3", &index); err != nil {
		return sight{}, fmt.Errorf("reading the list of schemas: %w", err)
	}
	out := sight{documents: map[string]string{}}
	for path, document := range index.Paths {
		out.documents[path] = document.ServerRelativeURL
	}
	if namespace == "" {
		return out, nil
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	answer, err := e.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return sight{}, fmt.Errorf("reviewing the rights in namespace %q: %w", namespace, err)
	}
	out.rules, out.isComplete = answer.Status.ResourceRules, !answer.Status.Incomplete
	return out, nil
}

func pathOf(version schema.GroupVersion) string {
	return "apis/" + version.Group + "/" + version.Version
}

func (e *End) get(ctx context.Context, uri string, into any) error {
	body, err := e.raw.Get().RequestURI(uri).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return err //nolint:wrapcheck // The callers wrap it.
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decoding %s: %w", uri, err)
	}
	return nil
}

// served is what an API server serves of a kind.
type served struct {
	// plural is empty if the version does not serve the kind.
	plural       string
	isNamespaced bool
	hasStatus    bool
	// versions of the group, if the version does not serve the kind.
	versions []string
	// schema is nil if none is published; url is that of its document.
	schema map[string]any
	url    string
}

// read returns what is served of a kind. It reads the schema again only if the document has changed
// since the previous read.
func (e *End) read(ctx context.Context, seen sight, kind schema.GroupVersionKind, previous served) (served, error) {
	resources := &metav1.APIResourceList{}
	err := e.get(ctx, "/"+pathOf(kind.GroupVersion()), resources)
	if err != nil && !apierrors.IsNotFound(err) {
		return served{}, fmt.Errorf("reading the resources of %s: %w", kind.GroupVersion(), err)
	}
	out := find(resources.APIResources, kind.Kind)
	if out.plural == "" {
		out.versions, err = e.versions(ctx, kind.Group)
		return out, err
	}
	out.url = seen.documents[pathOf(kind.GroupVersion())]
	if out.url == "" {
		return out, nil // It is published a moment after the kind.
	}
	if out.url == previous.url { // The URL contains the version.
		out.schema = previous.schema
		return out, nil
	}
	var document struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := e.get(ctx, out.url, &document); err != nil {
		return served{}, fmt.Errorf("reading the schema of %s: %w", kind, err)
	}
	for _, candidate := range document.Components.Schemas {
		if describes(candidate, kind) {
			out.schema = candidate
		}
	}
	return out, nil
}

// find returns what a list of resources has of a kind.
func find(resources []metav1.APIResource, kind string) served {
	out := served{}
	for i := range resources {
		resource := &resources[i]
		switch {
		case resource.Kind != kind:
		case !strings.Contains(resource.Name, "/"):
			out.plural, out.isNamespaced = resource.Name, resource.Namespaced
		case strings.HasSuffix(resource.Name, "/status"):
			out.hasStatus = true
		}
	}
	return out
}

// versions returns the served versions of a group, the preferred one first; none for an unknown
// group.
func (e *End) versions(ctx context.Context, name string) ([]string, error) {
	group := &metav1.APIGroup{}
	err := e.get(ctx, "/apis/"+name, group)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the versions of group %s: %w", name, err)
	}
	var out []string
	for _, version := range group.Versions {
		out = append(out, version.Version)
	}
	return out, nil
}

// describes reports whether a schema is that of a kind.
func describes(candidate map[string]any, kind schema.GroupVersionKind) bool {
	kinds, _ := candidate["x-kubernetes-group-version-kind"].([]any)
	for _, raw := range kinds {
		of := object(raw)
		if of["group"] == kind.Group && of["version"] == kind.Version && of["kind"] == kind.Kind {
			return true
		}
	}
	return false
}

// access is a right that reflection needs in offloaded namespaces.
type access struct{ verb, subresource string }

// localAccess are the rights in the consumer.
func localAccess(reportsStatus, statusInObject bool) []access {
	out := []access{{verb: "get"}, {verb: "list"}, {verb: "watch"}}
	switch {
	case !reportsStatus:
	case statusInObject:
		out = append(out, access{verb: "patch"})
	default:
		out = append(out, access{verb: "patch", subresource: "status"})
	}
	return out
}

// remoteAccess returns the rights in the provider.
func remoteAccess() []access {
	return []access{{verb: "get"}, {verb: "list"}, {verb: "watch"}, {verb: "create"}, {verb: "patch"}, {verb: "delete"}}
}

// missing returns the rights on a resource that the virtual kubelet does not have.
func (s *sight) missing(resource schema.GroupResource, needed []access) []access {
	if !s.isComplete {
		return nil
	}
	var out []access
	for _, right := range needed {
		isAllowed := func(rule authorizationv1.ResourceRule) bool { return allows(&rule, resource, right) }
		if !slices.ContainsFunc(s.rules, isAllowed) {
			out = append(out, right)
		}
	}
	return out
}

// allows reports whether a rule gives a right on all objects of a resource.
func allows(rule *authorizationv1.ResourceRule, resource schema.GroupResource, right access) bool {
	has := func(list []string, names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(list, name) })
	}
	names := []string{"*", resource.Resource}
	if right.subresource != "" {
		names = []string{"*", "*/" + right.subresource, resource.Resource + "/" + right.subresource}
	}
	return len(rule.ResourceNames) == 0 && has(rule.Verbs, "*", right.verb) && has(rule.APIGroups, "*", resource.Group) && has(rule.Resources, names...)
}

// withdrawKind deletes the selected objects of a kind in some namespaces, in whatever version is
// served, if deletes is set. It returns how many there were.
func (e *End) withdrawKind(ctx context.Context, kind schema.GroupVersionKind, namespaces []string, selector string, deletes bool) (int, error) {
	versions, err := e.versions(ctx, kind.Group)
	if err != nil {
		return 0, err
	}
	for _, version := range versions {
		at, err := e.read(ctx, sight{}, kind.GroupKind().WithVersion(version), served{})
		if err != nil {
			return 0, err
		}
		if at.plural == "" {
			continue
		}
		left := 0
		for _, namespace := range namespaces {
			found, err := e.withdraw(ctx, schema.GroupVersionResource{Group: kind.Group, Version: version, Resource: at.plural}, namespace, selector, deletes)
			if err != nil {
				return 0, err
			}
			left += found
		}
		return left, nil
	}
	return 0, nil // The kind is gone, and its objects with it.
}

// withdraw deletes the selected objects of a resource in a namespace if deletes is set, and returns
// how many there were.
func (e *End) withdraw(ctx context.Context, resource schema.GroupVersionResource, namespace, selector string, deletes bool) (int, error) {
	objects := e.dynamic.Resource(resource).Namespace(namespace)
	list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if apierrors.IsNotFound(err) {
		return 0, nil // The kind is gone, and its objects with it.
	}
	if err != nil {
		return 0, fmt.Errorf("listing %s in namespace %q of the provider: %w", resource.Resource, namespace, err)
	}
	for i := range list.Items {
		item := &list.Items[i]
		if !deletes || item.GetDeletionTimestamp() != nil {
			continue
		}
		uid := item.GetUID()
		err := objects.Delete(ctx, item.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return 0, fmt.Errorf("deleting %s %s/%s of the provider: %w", resource.Resource, namespace, item.GetName(), err)
		}
	}
	return len(list.Items), nil
}
