package peer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// Slice says what the consumer asks of the provider.
type Slice struct {
	// Name of the ResourceSlice, and of its virtual node.
	Name string
	// Class of the slice.
	Class string
	// Resources that are asked for; the provider grants its defaults of others.
	Resources corev1.ResourceList
	// VirtualNode asks for a virtual node, and waits until its Node is ready.
	VirtualNode bool
}

// SliceSteps ask for resources, and wait for the virtual node (wire P4.2).
func (p *Pair) SliceSteps(slice Slice) []Step {
	steps := []Step{{"Resources of the provider", func(ctx context.Context, waiting Waiting) error { return p.requestSlice(ctx, slice, waiting) }}}
	if slice.VirtualNode {
		steps = append(steps, Step{"Virtual node " + slice.Name, func(ctx context.Context, waiting Waiting) error {
			return p.waitForNode(ctx, slice.Name, waiting)
		}})
	}
	return steps
}

func (p *Pair) requestSlice(ctx context.Context, wanted Slice, waiting Waiting) error {
	want := authentication.ResourceSlice(p.inConsumer, wanted.Name, p.Provider.ID, nil, authv1beta1.ResourceSliceSpec{
		Class: authv1beta1.ResourceSliceClass(wanted.Class), Resources: wanted.Resources,
	})
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Namespace: want.Namespace}}
	err := p.Consumer.write(ctx, slice, func() error {
		// The certificate request and the consumer's ID belong to Longshore's manager (A5).
		slice.Spec.ProviderClusterID, slice.Spec.Class = want.Spec.ProviderClusterID, want.Spec.Class
		if len(wanted.Resources) > 0 {
			slice.Spec.Resources = want.Spec.Resources
		}
		if wanted.VirtualNode {
			metav1.SetMetaDataAnnotation(&slice.ObjectMeta, authv1beta1.CreateVirtualNodeAnnotation, "true")
		}
		return setLabels(slice, want)
	})
	if err != nil {
		return err
	}
	var denied error
	err = p.Consumer.until(ctx, slice, waiting, func() string {
		for _, kind := range []authv1beta1.ResourceSliceConditionType{
			authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionTypeResources,
		} {
			c := conditionOf(slice, kind)
			if c == nil {
				return fmt.Sprintf("the provider to decide about %s", kind)
			}
			if c.Status == authv1beta1.ResourceSliceConditionDenied {
				denied = fmt.Errorf("the provider denied ResourceSlice %q: %s: %s", slice.Name, c.Reason, c.Message)
				return ""
			}
		}
		return ""
	})
	if err != nil {
		return err
	}
	return denied
}

func conditionOf(slice *authv1beta1.ResourceSlice, kind authv1beta1.ResourceSliceConditionType) *authv1beta1.ResourceSliceCondition {
	for i := range slice.Status.Conditions {
		if slice.Status.Conditions[i].Type == kind {
			return &slice.Status.Conditions[i]
		}
	}
	return nil
}

func (p *Pair) waitForNode(ctx context.Context, name string, waiting Waiting) error {
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.inConsumer}}
	if err := p.Consumer.until(ctx, vn, waiting, func() string { return "" }); err != nil {
		return err
	}
	if !ptr.Deref(vn.Spec.CreateNode, true) {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return p.Consumer.until(ctx, node, waiting, func() string {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				if c.Status == corev1.ConditionTrue {
					return ""
				}
				return c.Reason + ": " + c.Message
			}
		}
		return "its virtual kubelet to report"
	})
}
