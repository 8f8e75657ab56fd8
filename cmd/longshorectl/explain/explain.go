// Package explain implements `longshorectl explain`: it shows which policies changed a pod
// or a reflected object, and what they changed.
package explain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	remoteforge "github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/planner"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// kind is a kind whose objects record decisions.
type kind struct {
	resource schema.GroupVersionResource
	// remote is the kind of the remote object.
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

// Explanation lists the decisions about an object.
type Explanation struct {
	// Objects are the requested object and, if requested, its remote object in the
	// provider.
	Objects []Object `json:"objects"`
	// Diagnosis is the first thing that is wrong with a pod; nil if it runs, and for other
	// kinds.
	Diagnosis *planner.Diagnosis `json:"diagnosis,omitempty"`
	// Phase and Node are those of a pod; empty for other kinds.
	Phase corev1.PodPhase `json:"phase,omitempty"`
	Node  string          `json:"node,omitempty"`
	// Warnings about an offloaded pod, whether it runs or not.
	Warnings []string `json:"warnings,omitempty"`
}

// Object is a local or a remote object.
type Object struct {
	// Remote is true for the object in the provider.
	Remote    bool   `json:"remote,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Absent is true for a remote object that does not exist: it was not created yet, or it
	// was deleted.
	Absent bool `json:"absent,omitempty"`
	// Problem is why the remote object of a pod cannot be read.
	Problem string `json:"problem,omitempty"`
	// Decisions are read from the annotation policy.longshore.dev/decisions.
	Decisions []view.Entry `json:"decisions"`
}

// Explain reads the object and, if there is a provider, its remote object. An empty remote
// namespace is looked up in the NamespaceMaps of the consumer. A pod is diagnosed although its
// remote object cannot be read.
func Explain(ctx context.Context, here *cluster.Cluster, target Target, there *cluster.Cluster, remoteNamespace string) (*Explanation, error) {
	if there != nil && kinds[target.Kind].remote == "" {
		return nil, output.Usagef("a %s is in the provider already: leave out --remote-kubeconfig and --remote-context", target.Kind)
	}
	object, err := read(ctx, here, target.Kind, here.Namespace, target.Name)
	if err != nil {
		return nil, err
	}
	explanation := &Explanation{Objects: []Object{*object}}
	if target.Kind == pods {
		return explanation, explanation.explainPod(ctx, here, target, there, remoteNamespace)
	}
	if there == nil {
		return explanation, nil
	}
	if err := checkProvider(clusterID(ctx, here), clusterID(ctx, there), ""); err != nil {
		return nil, err
	}
	if remoteNamespace == "" {
		if remoteNamespace, err = mapped(ctx, here); err != nil {
			return nil, err
		}
	}
	return explanation, explanation.explainRemote(ctx, target, there, remoteNamespace)
}

// explainPod adds the diagnosis of a pod, and its remote object if there is a provider: that of the
// pod's node.
func (e *Explanation) explainPod(ctx context.Context, here *cluster.Cluster, target Target, there *cluster.Cluster, remoteNamespace string) error {
	o, err := observe(ctx, here, target.Name)
	if err != nil {
		return err
	}
	if there != nil {
		if err = checkProvider(clusterID(ctx, here), clusterID(ctx, there), providerOf(o)); err != nil {
			return err
		}
		if remoteNamespace == "" && o.Mapping != nil {
			remoteNamespace = o.Mapping.RemoteNamespace
		}
		if remoteNamespace == "" {
			remoteNamespace, err = mapped(ctx, here)
		}
		if err == nil {
			// Each request to an API server that does not answer takes its time.
			if err = e.explainRemote(ctx, target, there, remoteNamespace); err == nil || isAnswer(err) {
				observeRemote(ctx, there, remoteNamespace, o)
			}
		}
		if err != nil {
			e.Objects = append(e.Objects, Object{Remote: true, Kind: kinds[target.Kind].remote, Namespace: remoteNamespace, Name: target.Name, Problem: err.Error(), Decisions: []view.Entry{}})
		}
	}
	e.Phase, e.Node, e.Warnings = o.Pod.Status.Phase, o.Pod.Spec.NodeName, warnings(ctx, here, o)
	e.Diagnosis, err = diagnose(ctx, here, there, remoteNamespace, o)
	return err
}

// isAnswer reports whether an error is the answer of an API server.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// explainRemote adds the object in the provider.
func (e *Explanation) explainRemote(ctx context.Context, target Target, there *cluster.Cluster, remoteNamespace string) error {
	other := kinds[target.Kind].remote
	name, err := remoteName(ctx, there, target, remoteNamespace)
	if err != nil {
		return fmt.Errorf("in the provider: %w", err)
	}
	var absent *cluster.AbsentError
	object, err := read(ctx, there, other, remoteNamespace, name)
	switch {
	case errors.As(err, &absent):
		object = &Object{Kind: other, Namespace: remoteNamespace, Name: name, Absent: true, Decisions: []view.Entry{}}
	case err != nil:
		return fmt.Errorf("in the provider: %w", err)
	}
	object.Remote = true
	e.Objects = append(e.Objects, *object)
	return nil
}

// remoteName returns the name of the remote object. It differs for the ConfigMap with the
// root CA only: its suffix is the cluster ID of the consumer, which is a label of the remote
// namespace.
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
		return "", fmt.Errorf("namespace %s has no label %s with the cluster ID of the consumer: is it the remote namespace of an offloaded one?",
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
		return nil, fmt.Errorf("%s %s/%s was not annotated by Longshore: %w", kind, namespace, name, err)
	}
	return &Object{Kind: kind, Namespace: namespace, Name: name, Decisions: decisions}, nil
}

// mapped returns the remote namespace of the local one.
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
