package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// registration is what makes a VirtualNode known to the scheduler and to the provider: its Node, and its use
// of the NamespaceMap.
type registration struct {
	Client    client.Client
	APIReader client.Reader
	reporter
}

// Reconcile creates the NamespaceMap and the Node and reports on the Node. The Node of a VirtualNode with
// createNode: false is drained and deleted.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;create;patch;delete
func (g *registration) Reconcile(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	problem, err := g.ensureNamespaceMap(ctx, vn)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wantsNode(vn) {
		if err := g.ensureNode(ctx, vn); err != nil {
			return ctrl.Result{}, err
		}
		if err := g.reportNode(ctx, vn); err != nil {
			return ctrl.Result{}, err
		}
	}
	switch {
	case problem != "":
		g.setCondition(vn, offloadingv1beta1.VirtualKubeletConditionType, offloadingv1beta1.CreatingConditionStatusType, problem)
		return ctrl.Result{RequeueAfter: problemPoll}, nil
	case wantsNode(vn):
		return ctrl.Result{}, g.uncordon(ctx, vn)
	default:
		return g.remove(ctx, vn)
	}
}

// ensureNamespaceMap creates the NamespaceMap of the provider. It returns a message if an
// existing NamespaceMap prevents that, or "".
func (g *registration) ensureNamespaceMap(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (string, error) {
	list, err := namespaceMaps(ctx, g.Client, vn)
	if err != nil || len(list) > 0 {
		return "", errors.Join(err, g.recordNamespaceMapUser(ctx, vn, list))
	}
	nm := remote.NamespaceMap(string(vn.Spec.ClusterID), vn.Namespace)
	nm.AddVirtualNode(client.ObjectKeyFromObject(vn).String())
	err = g.Client.Create(ctx, nm)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return "", fmt.Errorf("creating NamespaceMap %s/%s: %w", nm.Namespace, nm.Name, err)
		}
		return "", nil
	}
	existing := &offloadingv1beta1.NamespaceMap{}
	if err := g.APIReader.Get(ctx, client.ObjectKeyFromObject(nm), existing); err != nil {
		return "", fmt.Errorf("reading NamespaceMap %s/%s: %w", nm.Namespace, nm.Name, err)
	}
	for _, key := range slices.Sorted(maps.Keys(nm.Labels)) {
		if existing.Labels[key] != nm.Labels[key] {
			return fmt.Sprintf("NamespaceMap %s/%s has no label %s=%s and is ignored: add the label or delete the NamespaceMap",
				nm.Namespace, nm.Name, key, nm.Labels[key]), nil
		}
	}
	return "", nil // The cache does not have it yet.
}

// recordNamespaceMapUser records on the provider's NamespaceMaps that the VirtualNode uses them:
// its namespaces stay mapped until the VirtualNode is withdrawn.
func (g *registration) recordNamespaceMapUser(ctx context.Context, vn *offloadingv1beta1.VirtualNode, maps []offloadingv1beta1.NamespaceMap) error {
	var errs []error
	for i := range maps {
		before := maps[i].DeepCopy()
		if maps[i].AddVirtualNode(client.ObjectKeyFromObject(vn).String()) {
			errs = append(errs, patchNamespaceMap(ctx, g.Client, &maps[i], before))
		}
	}
	return errors.Join(errs...)
}

// ensureNode creates the Node of the VirtualNode. The virtual kubelet publishes its status but
// does not create it: RBAC cannot restrict the names of created objects, so that it could
// create any Node.
func (g *registration) ensureNode(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	err := g.Client.Get(ctx, client.ObjectKey{Name: vn.Name}, &corev1.Node{})
	if apierrors.IsNotFound(err) {
		err = client.IgnoreAlreadyExists(g.Client.Create(ctx, local.InitialNode(vn), client.FieldOwner(FieldManager)))
	}
	if err != nil {
		return fmt.Errorf("ensuring Node %q: %w", vn.Name, err)
	}
	return nil
}

// reportNode sets the condition of the Node. Running means that the Node exists, and that a virtual kubelet
// has published its status.
func (g *registration) reportNode(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	node := &corev1.Node{}
	err := g.Client.Get(ctx, client.ObjectKey{Name: vn.Name}, node)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Node %q: %w", vn.Name, err)
	}
	message := conditionMessage(vn, offloadingv1beta1.VirtualKubeletConditionType)
	status := offloadingv1beta1.CreatingConditionStatusType
	switch {
	case apierrors.IsNotFound(err):
	case !IsNodeOf(node, vn):
		message = fmt.Sprintf("Node %q exists and is not a virtual node of cluster %q: delete this VirtualNode and create it under another name", vn.Name, vn.Spec.ClusterID)
	case !isPublished(node):
		if message == "" {
			message = "the virtual kubelet has not published the Node's status: it waits for the provider, see the events of this VirtualNode"
		}
	default:
		status = offloadingv1beta1.RunningConditionStatusType
		if unready := notReadyMessage(node); unready != "" {
			message = unready
		}
	}
	g.setCondition(vn, offloadingv1beta1.NodeConditionType, status, message)
	return nil
}

// uncordon uncordons the Node after a drain that was canceled. The cordon of an administrator
// is kept.
func (g *registration) uncordon(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	node, err := findNode(ctx, g.Client, g.APIReader, vn)
	if err != nil || node == nil || node.Annotations[drainAnnotation] == "" {
		return err
	}
	before := node.DeepCopy()
	node.Spec.Unschedulable = false
	delete(node.Annotations, drainAnnotation)
	if err := g.Client.Patch(ctx, node, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("uncordoning Node %q: %w", node.Name, err)
	}
	return nil
}

// remove drains and deletes the Node of a VirtualNode with createNode: false.
func (g *registration) remove(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	node, err := findNode(ctx, g.Client, g.APIReader, vn)
	if err != nil {
		return ctrl.Result{}, err
	}
	draining := &drain{Client: g.Client, APIReader: g.APIReader, reporter: g.reporter, node: node}
	if result, err := draining.Reconcile(ctx, vn); err != nil || !result.IsZero() {
		return result, err
	}
	if err := deleteNode(ctx, g.Client, node); err != nil {
		return ctrl.Result{}, err
	}
	g.setCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.NoneConditionStatusType, "")
	return ctrl.Result{}, nil
}
