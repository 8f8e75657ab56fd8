// Package uninstall withdraws Longshore from a cluster before its components stop: it deletes the
// objects on which finalizers of Longshore hold, in an order in which the components end what
// runs elsewhere, and waits for them. What is still there when the time of a stage is over loses
// the finalizers, so that neither `helm uninstall` nor the deletion of a user's namespace hangs
// on a component that does not run any more, or on a peer that does not answer.
package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/peering/tenantnamespace"
)

// Options of [Run].
type Options struct {
	// Client reads from the API server.
	Client client.Client
	// StageTimeout is how long each stage waits before it removes finalizers.
	StageTimeout time.Duration
	// Timeout is how long all stages wait together. What is left then loses its finalizers at
	// once.
	Timeout time.Duration
	// PollInterval is the time between two looks.
	PollInterval time.Duration
	// Out receives a line for each stage, and for each object that did not end.
	Out io.Writer
}

// stage deletes the objects of a kind and waits until they are gone.
type stage struct {
	title    string
	kind     schema.GroupVersionKind
	selector labels.Set
	// keep leaves objects alone that are deleted by the components, and only waits for them.
	keep bool
	// credentials limits the stage to the Secrets that hold the rights in tenant namespaces, and to
	// the namespaces in which the manager has bound these rights: the hook has them there only.
	credentials bool
	// unreadable are such namespaces in which the hook has no rights.
	unreadable []string
	// finalizers are removed when the time is over.
	finalizers []string
}

// stages returns the stages in their order. As a consumer, the cluster stops offloading first,
// then it requests no resources, its virtual nodes drain, and the credentials go last, because all of that needs them. As
// a provider, it first takes the rights of the consumers, which would restore the copies that
// are deleted then.
func stages() []stage {
	offloading, authentication := offloadingv1beta1.GroupVersion, authv1beta1.GroupVersion
	requested := labels.Set{liqocorev1beta1.ReplicationLabel: "true"}
	return []stage{
		{
			title: "reflection of custom resources", kind: policyv1alpha1.GroupVersion.WithKind("ResourceReflection"),
			finalizers: []string{policyv1alpha1.ResourceReflectionFinalizer},
		},
		{title: "offloading of namespaces", kind: offloading.WithKind("NamespaceOffloading"), finalizers: []string{offloadingv1beta1.NamespaceOffloadingFinalizer}},
		// Before the virtual nodes, which the manager creates as long as a slice asks for them. The credentials
		// of a slice stay until its virtual node is gone (package resourceslice).
		{title: "requests for resources", kind: authentication.WithKind("ResourceSlice"), selector: requested, finalizers: []string{liqocorev1beta1.ReplicatorFinalizer}},
		{title: "virtual nodes", kind: offloading.WithKind("VirtualNode"), finalizers: []string{offloadingv1beta1.VirtualNodeFinalizer}},
		{
			title: "claims with data in providers", kind: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), keep: true,
			finalizers: []string{offloadingv1beta1.ClaimFinalizer},
		},
		{
			title: "access of virtual kubelets to namespaces", kind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), keep: true,
			finalizers: []string{virtualkubelet.AccessFinalizer},
		},
		{title: "requested namespaces", kind: offloading.WithKind("NamespaceMap"), selector: requested, finalizers: []string{liqocorev1beta1.ReplicatorFinalizer, offloadingv1beta1.NamespaceMapFinalizer}},
		{title: "identities", kind: authentication.WithKind("Identity")},
		// The Identity owns them.
		{title: "renewals of identities", kind: authentication.WithKind("Renew"), selector: requested, finalizers: []string{liqocorev1beta1.ReplicatorFinalizer}},
		{
			title: "credentials for providers", kind: corev1.SchemeGroupVersion.WithKind("Secret"), credentials: true,
			finalizers: []string{liqocorev1beta1.ReplicatorSecretFinalizer},
		},
		{title: "tenants", kind: authentication.WithKind("Tenant"), finalizers: []string{authv1beta1.TenantFinalizer}},
		// What is left of these kinds is of consumers, or was requested and has lost its labels: peers could write them.
		{title: "namespaces of consumers", kind: offloading.WithKind("NamespaceMap"), finalizers: []string{liqocorev1beta1.ReplicatorFinalizer, offloadingv1beta1.NamespaceMapFinalizer}},
		{title: "granted resources", kind: authentication.WithKind("ResourceSlice"), finalizers: []string{liqocorev1beta1.ReplicatorFinalizer}},
		{title: "renewals of credentials", kind: authentication.WithKind("Renew"), finalizers: []string{liqocorev1beta1.ReplicatorFinalizer}},
		// Those of virtual nodes that did not end.
		{
			title: "virtual kubelets", kind: appsv1.SchemeGroupVersion.WithKind("Deployment"),
			selector: labels.Set{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet},
		},
		{title: "nodes", kind: corev1.SchemeGroupVersion.WithKind("Node"), selector: labels.Set{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual}},
		{
			title: "rights in tenant namespaces", kind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), keep: true,
			finalizers: []string{tenantnamespace.Finalizer},
		},
		// Last: the manager creates them as long as an object names the peer.
		{title: "peers", kind: liqocorev1beta1.GroupVersion.WithKind("ForeignCluster"), finalizers: []string{liqocorev1beta1.APIServerCheckerFinalizer}},
	}
}

// Run runs the stages. It returns an error if the API server refuses or does not answer; objects
// that the components did not end are not an error, but are printed. The rights on Secrets are those of
// package tenantnamespace.
//
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=resourcereflections,verbs=list;delete;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings;virtualnodes;namespacemaps,verbs=list;delete;patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices;renews;identities;tenants,verbs=list;delete;patch
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=list;delete;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=list;patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;patch
func Run(ctx context.Context, options Options) error {
	var errs []error
	end := time.Now().Add(options.Timeout)
	for _, s := range stages() {
		// A stage without time looks once.
		limited := options
		limited.StageTimeout = max(min(options.StageTimeout, time.Until(end)), options.PollInterval)
		if err := s.run(ctx, limited); err != nil {
			errs = append(errs, fmt.Errorf("withdrawing the %s: %w", s.title, err))
		}
	}
	return errors.Join(errs...)
}

func (s *stage) run(ctx context.Context, o Options) error {
	objects, err := s.list(ctx, o.Client)
	for _, namespace := range s.unreadable {
		_, _ = fmt.Fprintf(o.Out, "The Secrets of namespace %s cannot be read, because no manager of this version has given the right; remove the finalizers %q from them before you delete the namespace\n", namespace, s.finalizers)
	}
	if err != nil || len(objects) == 0 {
		return err
	}
	_, _ = fmt.Fprintf(o.Out, "Withdrawing the %s: %d\n", s.title, len(objects))
	var failure error
	err = wait.PollUntilContextTimeout(ctx, o.PollInterval, o.StageTimeout, true, func(ctx context.Context) (bool, error) {
		left, err := s.list(ctx, o.Client)
		if err == nil {
			err = s.delete(ctx, o.Client, left)
		}
		failure = err // errors may be transient
		return err == nil && len(left) == 0, nil
	})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("waiting until they are gone: %w", ctx.Err())
	case err != nil && apierrors.IsForbidden(failure):
		return failure
	case err != nil:
		return s.release(ctx, o)
	default:
		return nil
	}
}

// list returns the objects of the stage.
func (s *stage) list(ctx context.Context, c client.Client) ([]metav1.PartialObjectMetadata, error) {
	if s.credentials {
		return s.listCredentials(ctx, c)
	}
	objects, err := listObjects(ctx, c, s.kind, client.MatchingLabels(s.selector))
	if s.keep {
		objects = slices.DeleteFunc(objects, func(object metav1.PartialObjectMetadata) bool { return !s.holds(&object) })
	}
	return objects, err
}

// listCredentials returns the Secrets that hold the rights of the manager in their namespace.
func (s *stage) listCredentials(ctx context.Context, c client.Client) ([]metav1.PartialObjectMetadata, error) {
	bindings, err := listObjects(ctx, c, rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
	if err != nil {
		return nil, err
	}
	s.unreadable = nil
	var credentials []metav1.PartialObjectMetadata
	for i := range bindings {
		if bindings[i].Name != tenantnamespace.Role {
			continue
		}
		secrets, err := listObjects(ctx, c, s.kind, client.InNamespace(bindings[i].Namespace))
		if apierrors.IsForbidden(err) {
			s.unreadable = append(s.unreadable, bindings[i].Namespace)
			continue
		}
		if err != nil {
			return nil, err
		}
		for j := range secrets {
			if tenantnamespace.IsHolding(&secrets[j], true) {
				credentials = append(credentials, secrets[j])
			}
		}
	}
	return credentials, nil
}

// listObjects returns the metadata of objects. A kind that is not installed has none.
func listObjects(ctx context.Context, c client.Client, kind schema.GroupVersionKind, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := c.List(ctx, list, options...)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	return list.Items, nil
}

// holds reports whether an object has a finalizer of the stage.
func (s *stage) holds(object *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(object.Finalizers, func(name string) bool { return slices.Contains(s.finalizers, name) })
}

// delete deletes the objects that are not being deleted yet.
func (s *stage) delete(ctx context.Context, c client.Client, objects []metav1.PartialObjectMetadata) error {
	for i := range objects {
		if s.keep || objects[i].DeletionTimestamp != nil {
			continue
		}
		err := c.Delete(ctx, &objects[i], client.Preconditions{UID: &objects[i].UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting %s: %w", nameOf(&objects[i]), err)
		}
	}
	return nil
}

// release removes the finalizers of the stage from what is left, and prints what that was.
func (s *stage) release(ctx context.Context, o Options) error {
	left, err := s.list(ctx, o.Client)
	if err != nil {
		return err
	}
	var errs []error
	for i := range left {
		object := &left[i]
		kept := slices.DeleteFunc(slices.Clone(object.Finalizers), func(name string) bool { return slices.Contains(s.finalizers, name) })
		if len(kept) == len(object.Finalizers) {
			_, _ = fmt.Fprintf(o.Out, "%s %s did not end within %s and remains, finalizers: %q\n", s.kind.Kind, nameOf(object), o.StageTimeout, object.Finalizers)
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": kept, "resourceVersion": object.ResourceVersion}})
		if err != nil {
			return fmt.Errorf("encoding a patch: %w", err)
		}
		if err := client.IgnoreNotFound(o.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))); err != nil {
			errs = append(errs, fmt.Errorf("removing the finalizers of %s: %w", nameOf(object), err))
			continue
		}
		_, _ = fmt.Fprintf(o.Out, "%s %s did not end within %s and lost its finalizers; what it stands for in another cluster may remain there\n", s.kind.Kind, nameOf(object), o.StageTimeout)
	}
	return errors.Join(errs...)
}

func nameOf(object client.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}
