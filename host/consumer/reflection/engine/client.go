package engine

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// NewClient returns a client for the kinds of the definitions and the NamespaceMap. It needs
// no discovery, uses protobuf for built-in kinds, and fails for other kinds. The rate limits
// of the configuration apply.
func NewClient(config *rest.Config, scheme *runtime.Scheme, definitions ...Definition) (client.WithWatch, error) {
	mapper, err := restMapper(scheme, definitions...)
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making the client of the reflection: %w", err)
	}
	return c, nil
}

// restMapper maps the kinds that reflection handles to their resources.
func restMapper(scheme *runtime.Scheme, definitions ...Definition) (meta.RESTMapper, error) {
	kinds := []Kind{namespaceMapKind}
	for _, definition := range definitions {
		resource := definition.Resource()
		kinds = append(kinds, resource.Local, resource.Remote)
		if resource.Dependent != nil {
			kinds = append(kinds, *resource.Dependent)
		}
		for i := range resource.Related {
			kinds = append(kinds, resource.Related[i].Kind)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range kinds {
		gvk, err := apiutil.GVKForObject(kind.New(), scheme)
		if err != nil {
			return nil, fmt.Errorf("making the client of the reflection: %w", err)
		}
		scope := meta.RESTScopeNamespace
		if kind.ClusterScoped {
			scope = meta.RESTScopeRoot
		}
		if kind.Plural == "" {
			mapper.Add(gvk, scope)
			continue
		}
		resource := gvk.GroupVersion().WithResource(kind.Plural)
		mapper.AddSpecific(gvk, resource, resource, scope)
	}
	return mapper, nil
}
