// Package explain is `longshorectl explain`: it tells, of a pod or of what was reflected
// with it, which policy wrote or dropped what.
package explain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	remoteforge "github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// kind is a kind of objects that tell of decisions.
type kind struct {
	resource schema.GroupVersionResource
	// remote is the kind of the other end.
	remote string
}

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

func offloading(resource string) schema.GroupVersionResource {
	return offloadingv1beta1.GroupVersion.WithResource(resource)
}

const (
	pods       = "pod"
	shadowPods = "shadowpod"
	configMaps = "configmap"
	secrets    = "secret"
	services   = "service"
)

var (
	kinds = map[string]kind{
		pods:       {core("pods"), shadowPods},
		shadowPods: {offloading("shadowpods"), ""},
		configMaps: {core("configmaps"), configMaps},
		secrets:    {core("secrets"), secrets},
		services:   {core("services"), services},
	}
	shortNames = map[string]string{"po": pods, "cm": configMaps, "svc": services}
)

// Target is an object, by its kind and name.
type Target struct{ Kind, Name string }

// ParseTarget reads "pod/web", or "pod" and "web", with the names that kubectl knows.
func ParseTarget(arguments []string) (Target, error) {
	if len(arguments) == 1 {
		arguments = strings.SplitN(arguments[0], "/", 2)
	}
	if len(arguments) != 2 || arguments[0] == "" || arguments[1] == "" || strings.Contains(arguments[1], "/") {
		return Target{}, output.Usagef("want one object, as pod/NAME")
	}
	name := strings.ToLower(arguments[0])
	if long, short := shortNames[name]; short {
		name = long
	}
	if _, known := kinds[name]; !known {
		name = strings.TrimSuffix(name, "s")
	}
	if _, known := kinds[name]; !known {
		return Target{}, output.Usagef("kind %q: policies decide about %s", arguments[0], strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	return Target{Kind: name, Name: arguments[1]}, nil
}

// Explanation tells who decided about an object.
type Explanation struct {
	// Objects are the one that was asked for, and its other end in the provider if that was
	// asked for as well.
	Objects []Object `json:"objects"`
}

// Object is one end.
type Object struct {
	// Remote tells whether it is the end in the provider.
	Remote    bool   `json:"remote,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Absent is true for another end that is not there: not sent yet, or gone already.
	Absent bool `json:"absent,omitempty"`
	// Decisions are those of its annotation policy.longshore.dev/decisions.
	Decisions []view.Entry `json:"decisions"`
}

// Explain reads the object and, when there is a provider, its other end there. The remote
// namespace is looked up in the NamespaceMaps of the consumer when it is not given.
func Explain(ctx context.Context, here *cluster.Cluster, target Target, there *cluster.Cluster, remoteNamespace string) (*Explanation, error) {
	object, err := read(ctx, here, target.Kind, here.Namespace, target.Name)
	if err != nil {
		return nil, err
	}
	explanation := &Explanation{Objects: []Object{*object}}
	if there == nil {
		return explanation, nil
	}
	other := kinds[target.Kind].remote
	if other == "" {
		return nil, output.Usagef("a %s is in the provider already: leave out --remote-kubeconfig and --remote-context", target.Kind)
	}
	if remoteNamespace == "" {
		if remoteNamespace, err = mapped(ctx, here); err != nil {
			return nil, err
		}
	}
	name, err := remoteName(ctx, there, target, remoteNamespace)
	if err != nil {
		return nil, fmt.Errorf("in the provider: %w", err)
	}
	var absent *cluster.AbsentError
	switch object, err = read(ctx, there, other, remoteNamespace, name); {
	case errors.As(err, &absent):
		object = &Object{Kind: other, Namespace: remoteNamespace, Name: name, Absent: true, Decisions: []view.Entry{}}
	case err != nil:
		return nil, fmt.Errorf("in the provider: %w", err)
	}
	object.Remote = true
	explanation.Objects = append(explanation.Objects, *object)
	return explanation, nil
}

// remoteName is the name of the other end: the same, but for the ConfigMap with the root
// CA, whose name tells the consumer, as the label of the namespace there does.
func remoteName(ctx context.Context, there *cluster.Cluster, target Target, namespace string) (string, error) {
	if target != (Target{configMaps, remoteforge.RootCAConfigMapName}) {
		return target.Name, nil
	}
	found, err := there.Metadata(ctx, core("namespaces"), "", namespace)
	if err != nil {
		return "", err
	}
	home := found.Labels[liqocorev1beta1.RemoteClusterIDLabel]
	if home == "" {
		return "", fmt.Errorf("namespace %s has no label %s, which tells whose it is: is it the remote namespace of an offloaded one?",
			namespace, liqocorev1beta1.RemoteClusterIDLabel)
	}
	return remoteforge.ConfigMapName(target.Name, remoteforge.Origin{HomeClusterID: home}), nil
}

func read(ctx context.Context, c *cluster.Cluster, kind, namespace, name string) (*Object, error) {
	found, err := c.Metadata(ctx, kinds[kind].resource, namespace, name)
	if err != nil {
		return nil, err
	}
	decisions, err := view.DecodeDecisions(found.Annotations[policyv1alpha1.DecisionsAnnotation])
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: somebody else than Longshore wrote it: %w", kind, namespace, name, err)
	}
	return &Object{Kind: kind, Namespace: namespace, Name: name, Decisions: decisions}, nil
}

// mapped returns what the namespace is mapped to.
func mapped(ctx context.Context, here *cluster.Cluster) (string, error) {
	found := map[string]bool{}
	err := cluster.List(ctx, here, offloading("namespacemaps"), func(nm *offloadingv1beta1.NamespaceMap) {
		if status, ok := nm.Status.CurrentMapping[here.Namespace]; ok && status.RemoteNamespace != "" {
			found[status.RemoteNamespace] = true
		}
	})
	names := slices.Sorted(maps.Keys(found))
	switch {
	case err != nil:
		return "", fmt.Errorf("looking up the remote namespace (--remote-namespace names it): %w", err)
	case len(names) == 0:
		return "", fmt.Errorf("namespace %s is not offloaded: no NamespaceMap maps it", here.Namespace)
	case len(names) > 1:
		return "", output.Usagef("namespace %s is offloaded as %s: choose one with --remote-namespace", here.Namespace, strings.Join(names, ", "))
	}
	return names[0], nil
}
