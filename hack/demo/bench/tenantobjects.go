package main

import (
	"context"
	"crypto"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/hack/demo/rig"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// tenant is a consumer of which only the wire exists: what its replicator would send to the provider.
type tenant struct {
	id liqocorev1beta1.ClusterID
	// namespace is the one for its pods.
	namespace string
	key       crypto.Signer
	// client acts as its virtual kubelet.
	client client.Client
}

// createTenant takes a consumer from the nonce to a namespace for its pods.
func (w *testbed) createTenant(ctx context.Context, name string) (*tenant, error) {
	t := &tenant{id: liqocorev1beta1.ClusterID(name), namespace: "bench-" + name}
	home := authentication.TenantNamespace(t.id)
	nonce := authentication.NonceSecret(home.Name, t.id)
	for _, object := range []client.Object{home, nonce} {
		if err := w.milan.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("creating the handshake of %q: %w", name, err)
		}
	}
	if err := w.awaitInProvider(ctx, nonce, func() bool { return len(nonce.Data[authentication.NonceKey]) > 0 }); err != nil {
		return nil, err
	}
	var err error
	if t.key, err = authentication.NewKey(); err != nil {
		return nil, fmt.Errorf("creating the key of %q: %w", name, err)
	}
	if err := w.introduce(ctx, t, home.Name, nonce.Data[authentication.NonceKey]); err != nil {
		return nil, err
	}
	return t, w.requestCapacity(ctx, t, home.Name)
}

// introduce creates the Tenant.
func (w *testbed) introduce(ctx context.Context, t *tenant, home string, nonce []byte) error {
	signature, err := authentication.Sign(t.key, nonce)
	if err != nil {
		return fmt.Errorf("signing the nonce of %q: %w", t.id, err)
	}
	public, err := authentication.EncodePublicKey(t.key.Public())
	if err != nil {
		return fmt.Errorf("encoding the key of %q: %w", t.id, err)
	}
	csr, err := authentication.NewCSR(t.key, authentication.ControlPlaneSubject(t.id))
	if err != nil {
		return fmt.Errorf("requesting the certificate of %q: %w", t.id, err)
	}
	tenant := authentication.Tenant(home, t.id, public, csr, signature, "")
	if err := w.milan.Create(ctx, tenant); err != nil {
		return fmt.Errorf("creating Tenant %q: %w", t.id, err)
	}
	return w.awaitInProvider(ctx, tenant, func() bool { return tenant.Status.AuthParams != nil && tenant.Status.TenantNamespace != "" })
}

// requestCapacity creates the ResourceSlice and the NamespaceMap as copies of the consumer's.
func (w *testbed) requestCapacity(ctx context.Context, t *tenant, home string) error {
	subject := authentication.SliceSubject(t.id, rig.Node)
	csr, err := authentication.NewCSR(t.key, subject)
	if err != nil {
		return fmt.Errorf("requesting the certificate of a slice of %q: %w", t.id, err)
	}
	copied := map[string]string{liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: string(t.id), liqocorev1beta1.RemoteClusterIDLabel: string(t.id)}
	slice := authentication.ResourceSlice(home, rig.Node, rig.Provider, nil, authv1beta1.ResourceSliceSpec{
		ConsumerClusterID: ptr.To(t.id), Resources: rig.Capacity("4000", "8000Gi", "4000"), CSR: csr,
	})
	slice.Labels = copied
	if err := w.milan.Create(ctx, slice); err != nil {
		return fmt.Errorf("creating the ResourceSlice of %q: %w", t.id, err)
	}
	mapped := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: rig.Provider, Labels: copied},
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{offloaded: t.namespace}},
	}
	if err := w.milan.Create(ctx, mapped); err != nil {
		return fmt.Errorf("creating the NamespaceMap of %q: %w", t.id, err)
	}
	if err := w.awaitInProvider(ctx, slice, func() bool { return slice.Status.AuthParams != nil && len(slice.Status.Resources) > 0 }); err != nil {
		return err
	}
	if err := w.awaitInProvider(ctx, mapped, func() bool {
		return mapped.Status.CurrentMapping[offloaded].Phase == offloadingv1beta1.MappingAccepted
	}); err != nil {
		return err
	}
	config := rest.CopyConfig(w.milan.Config)
	config.QPS = -1
	config.Impersonate = rest.ImpersonationConfig{UserName: subject.User, Groups: []string{subject.Group, "system:authenticated"}}
	if t.client, err = client.New(config, client.Options{Scheme: w.milan.Scheme()}); err != nil {
		return fmt.Errorf("connecting as %q: %w", subject.User, err)
	}
	return w.awaitQuota(ctx, subject.User)
}

// awaitQuota waits until a user has a Quota.
func (w *testbed) awaitQuota(ctx context.Context, user string) error {
	return until(ctx, fmt.Sprintf("%q has a Quota", user), func() (bool, error) {
		list := &offloadingv1beta1.QuotaList{}
		err := w.milan.List(ctx, list)
		return slices.ContainsFunc(list.Items, func(q offloadingv1beta1.Quota) bool { return q.Spec.User == user }), err
	})
}

// awaitInProvider reads an object in the provider until it is as expected.
func (w *testbed) awaitInProvider(ctx context.Context, object client.Object, done func() bool) error {
	return until(ctx, fmt.Sprintf("%T %s/%s is ready", object, object.GetNamespace(), object.GetName()), func() (bool, error) {
		err := w.milan.Get(ctx, client.ObjectKeyFromObject(object), object)
		return err == nil && done(), err
	})
}

// shadowPodOf is a ShadowPod of a tenant with requests.
func shadowPodOf(t *tenant, name string) *offloadingv1beta1.ShadowPod {
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Namespace: t.namespace, Name: name, Labels: map[string]string{offloadingv1beta1.OriginLabel: string(t.id)},
	}}
	shadow.Spec.Pod = corev1.PodSpec{Containers: podSpec().Containers}
	return shadow
}
