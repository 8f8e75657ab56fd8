package peer

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// errBidirectional is returned when the tenant namespaces serve the reverse peering, too.
var errBidirectional = errors.New("the clusters are peered in both directions and share their tenant namespaces: unpeer both directions first, then delete them")

// FindTenantNamespaces finds what an earlier peering left.
func (p *Pair) FindTenantNamespaces(ctx context.Context) (err error) {
	if p.inConsumer, err = p.Consumer.FindTenantNamespace(ctx, p.Provider.ID); err != nil {
		return err
	}
	p.inProvider, err = p.Provider.FindTenantNamespace(ctx, p.Consumer.ID)
	return err
}

// WithdrawSteps delete what runs on the provider: slices and virtual nodes, which drain.
func (p *Pair) WithdrawSteps() []admin.Step {
	return []admin.Step{
		{Title: "Resource slices and virtual nodes", Run: func(ctx context.Context, waiting admin.Waiting) error {
			if p.inConsumer == "" {
				return nil
			}
			objects, err := p.leftovers(ctx)
			if err != nil {
				return err
			}
			return p.Consumer.DeleteAll(ctx, objects, waiting)
		}},
	}
}

// ending says what ends when the provider's virtual nodes are deleted.
func (p *Pair) ending(ctx context.Context) (string, error) {
	if p.inConsumer == "" {
		return "", nil
	}
	objects, err := p.leftovers(ctx)
	if err != nil {
		return "", err
	}
	var nodes []*offloadingv1beta1.VirtualNode
	for _, object := range objects {
		if vn, ok := object.(*offloadingv1beta1.VirtualNode); ok {
			nodes = append(nodes, vn)
		}
	}
	return p.Consumer.Ending(ctx, p.Provider.ID, nodes)
}

// leftovers are the slices and virtual nodes of the provider.
func (p *Pair) leftovers(ctx context.Context) ([]client.Object, error) {
	slices, nodes := &authv1beta1.ResourceSliceList{}, &offloadingv1beta1.VirtualNodeList{}
	err := errors.Join(
		p.Consumer.List(ctx, slices, client.InNamespace(p.inConsumer), client.MatchingLabels{
			liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: string(p.Provider.ID),
		}),
		p.Consumer.List(ctx, nodes, client.InNamespace(p.inConsumer)))
	if err != nil {
		return nil, fmt.Errorf("listing the slices and virtual nodes of cluster %q: %w", p.Provider.ID, err)
	}
	var objects []client.Object
	for i := range slices.Items {
		objects = append(objects, &slices.Items[i])
	}
	for i := range nodes.Items {
		if nodes.Items[i].Spec.ClusterID == p.Provider.ID {
			objects = append(objects, &nodes.Items[i])
		}
	}
	return objects, nil
}

// UnauthenticateSteps take the credentials back. The provider's Tenant goes last: while
// anything is replicated, its deletion would leave copies that no right can remove.
func (p *Pair) UnauthenticateSteps() []admin.Step {
	return []admin.Step{
		{Title: "Credentials of the consumer", Run: func(ctx context.Context, waiting admin.Waiting) error {
			if p.inConsumer == "" {
				return nil
			}
			objects, err := p.leftovers(ctx)
			if err != nil {
				return err
			}
			if len(objects) > 0 {
				return fmt.Errorf("%s and %d more still use the peering: delete them first, or run longshorectl unpeer", admin.Describe(objects[0]), len(objects)-1)
			}
			name := authentication.ControlPlaneIdentityName(p.Provider.ID)
			identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.inConsumer}}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: authentication.KubeconfigSecretName(name), Namespace: p.inConsumer}}
			if err := p.Consumer.DeleteAll(ctx, []client.Object{identity}, waiting); err != nil {
				return err
			}
			if err := p.Consumer.UntilGone(ctx, secret, waiting); err != nil {
				return err
			}
			// The next peering signs another nonce.
			return p.Consumer.DeleteAll(ctx, []client.Object{authentication.SignedNonceSecret(p.inConsumer, p.Provider.ID, nil)}, waiting)
		}},
		{Title: "Tenant of the provider", Run: func(ctx context.Context, waiting admin.Waiting) error {
			if p.inProvider == "" {
				return nil
			}
			tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: string(p.Consumer.ID), Namespace: p.inProvider}}
			if err := p.Provider.DeleteAll(ctx, []client.Object{tenant}, waiting); err != nil {
				return err
			}
			return p.Provider.DeleteAll(ctx, []client.Object{authentication.NonceSecret(p.inProvider, p.Consumer.ID)}, waiting)
		}},
	}
}

// DeleteNamespacesStep deletes both tenant namespaces.
func (p *Pair) DeleteNamespacesStep() admin.Step {
	return admin.Step{Title: "Tenant namespaces in both clusters", Run: func(ctx context.Context, waiting admin.Waiting) error {
		for side, name := range map[*admin.Cluster]string{p.Consumer: p.inConsumer, p.Provider: p.inProvider} {
			if name == "" {
				continue
			}
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := side.DeleteAll(ctx, []client.Object{namespace}, waiting); err != nil {
				return err
			}
		}
		return nil
	}}
}

// CheckOneDirection fails when the provider is also a consumer of the consumer.
func (p *Pair) CheckOneDirection(ctx context.Context) error {
	if p.inConsumer == "" {
		return nil
	}
	tenants := &authv1beta1.TenantList{}
	if err := p.Consumer.List(ctx, tenants, client.InNamespace(p.inConsumer)); err != nil {
		return fmt.Errorf("listing the Tenants of namespace %q: %w", p.inConsumer, err)
	}
	if len(tenants.Items) > 0 {
		return errBidirectional
	}
	return nil
}
