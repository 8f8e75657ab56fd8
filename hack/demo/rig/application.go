package rig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/hack/demo/application"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// PrepareProvider applies what the demo's application needs of the provider: a storage class, which
// the provider offers in resource slices that it grants afterwards, and a RuntimeClass.
func (r *Rig) PrepareProvider(ctx context.Context) error {
	objects, err := application.ProviderObjects()
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := r.Milan.Apply(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// RunApplication applies the demo's application, and waits until all of it is ready and the provider
// has what its pods need.
func (r *Rig) RunApplication(ctx context.Context, progress Progress) error {
	objects, err := application.Objects()
	if err != nil {
		return err
	}
	return r.Run(ctx, application.Namespace, objects, progress)
}

// Run applies the objects of an application in an offloaded namespace, and waits as
// [Rig.RunApplication] does.
func (r *Rig) Run(ctx context.Context, namespace string, objects []*unstructured.Unstructured, progress Progress) error {
	want := 0
	for _, obj := range objects {
		obj.SetNamespace(namespace)
		if err := r.Rome.Apply(ctx, obj); err != nil {
			return err
		}
		if replicas, ok := replicasOf(obj); ok {
			want += replicas
		}
	}
	if err := r.Rome.WaitForPods(ctx, namespace, want, progress); err != nil {
		return err
	}
	return r.WaitForNeeds(ctx, namespace, progress)
}

func replicasOf(obj client.Object) (int, bool) {
	u, err := toUnstructured(obj)
	if err != nil || (u.GetKind() != "Deployment" && u.GetKind() != "StatefulSet") {
		return 0, false
	}
	spec, _ := u.Object["spec"].(map[string]any)
	switch n := spec["replicas"].(type) {
	case int64:
		return int(n), true
	case float64:
		return int(n), true
	default:
		return 1, true
	}
}

// Row is one offloaded pod, as the demo's table shows it.
type Row struct {
	Pod, VirtualNode                   string
	RemoteNamespace, RemoteNode, Phase string
	Policies                           []string
}

// Rows lists the offloaded pods of a namespace.
func (r *Rig) Rows(ctx context.Context, namespace string) ([]Row, error) {
	pairs, err := r.pairs(ctx, namespace)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, 0, len(pairs))
	for _, p := range pairs {
		row := Row{Pod: p.local.Name, VirtualNode: p.local.Spec.NodeName, Phase: string(p.local.Status.Phase)}
		if p.remote != nil {
			row.RemoteNamespace, row.RemoteNode = p.remote.Namespace, p.remote.Spec.NodeName
		}
		decisions, err := p.decisions()
		if err != nil {
			return nil, err
		}
		row.Policies = policyNames(decisions)
		rows = append(rows, row)
	}
	return rows, nil
}

// pair is a pod and what runs for it on the provider.
type pair struct {
	local  *corev1.Pod
	remote *corev1.Pod
}

// pairs returns the pods of an offloaded namespace that run in the provider, or should.
func (r *Rig) pairs(ctx context.Context, namespace string) ([]pair, error) {
	nso, err := r.offloading(ctx, namespace)
	if err != nil {
		return nil, err
	}
	remoteNamespace := nso.Status.RemoteNamespaceName
	isLocal, err := r.localNodes(ctx, nso.Spec.PodOffloadingStrategy)
	if err != nil {
		return nil, err
	}
	locals := &corev1.PodList{}
	if err := r.Rome.List(ctx, locals, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the pods of %q in rome: %w", namespace, err)
	}
	remotes := &corev1.PodList{}
	if err := r.Milan.List(ctx, remotes, client.InNamespace(remoteNamespace)); err != nil {
		return nil, fmt.Errorf("listing the pods of %q in milan: %w", remoteNamespace, err)
	}
	byName := map[string]*corev1.Pod{}
	for i := range remotes.Items {
		byName[remotes.Items[i].Name] = &remotes.Items[i]
	}
	pairs := make([]pair, 0, len(locals.Items))
	for i := range locals.Items {
		if locals.Items[i].DeletionTimestamp.IsZero() && !isLocal[locals.Items[i].Spec.NodeName] {
			pairs = append(pairs, pair{local: &locals.Items[i], remote: byName[locals.Items[i].Name]})
		}
	}
	return pairs, nil
}

// localNodes returns the names of the Nodes on which pods of a namespace may run in the consumer.
func (r *Rig) localNodes(ctx context.Context, strategy offloadingv1beta1.PodOffloadingStrategyType) (map[string]bool, error) {
	isLocal := map[string]bool{}
	if strategy == offloadingv1beta1.RemotePodOffloadingStrategyType {
		return isLocal, nil
	}
	nodes := &corev1.NodeList{}
	if err := r.Rome.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing the Nodes of rome: %w", err)
	}
	for i := range nodes.Items {
		isLocal[nodes.Items[i].Name] = nodes.Items[i].Labels[offloadingv1beta1.NodeTypeLabel] != offloadingv1beta1.NodeTypeVirtual
	}
	return isLocal, nil
}
