package manager_test

import (
	"context"
	"crypto"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/app/replicator"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
	"github.com/longshore-dev/longshore/host/peering/authentication"
	"github.com/longshore-dev/longshore/host/peering/tenantnamespace"
)

// inBackground runs a process until the test ends, or until the returned function is called.
func inBackground(t *testing.T, app *process.App, err error) (stop func()) {
	t.Helper()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(t, app.Run(ctx)) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return stop
}

func ofCluster(id string, config *rest.Config) process.Options {
	return process.Options{Config: config, ClusterID: id, Namespace: chartrights.Namespace, MetricsAddress: "0", HealthProbeAddress: "0"}
}

// peered are two clusters that peer as longshorectl peer does it. All processes have the rights of
// the chart: a request that these deny fails the test.
type peered struct {
	rome, milan client.Client
}

func (p *peered) await(t *testing.T, c client.Client, object client.Object, condition func() bool, what string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return false
		}
		require.NoError(t, err)
		return condition()
	}, soon, tick, what)
}

// handshake peers rome with milan and returns the kubeconfig of its control plane.
func (p *peered) handshake(t *testing.T) *corev1.Secret {
	t.Helper()
	create := func(c client.Client, object client.Object) {
		require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), object)))
	}
	create(p.milan, authentication.TenantNamespace("rome"))
	create(p.rome, authentication.TenantNamespace("milan"))

	nonce := authentication.NonceSecret("liqo-tenant-rome", "rome")
	create(p.milan, nonce)
	p.await(t, p.milan, nonce, func() bool { return len(nonce.Data["nonce"]) > 0 }, "the provider makes a nonce")
	signed := authentication.SignedNonceSecret("liqo-tenant-milan", "milan", nonce.Data["nonce"])
	create(p.rome, signed)
	p.await(t, p.rome, signed, func() bool { return len(signed.Data["signedNonce"]) > 0 }, "the consumer signs it")

	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: chartrights.Namespace, Name: authentication.KeysSecretName}}
	require.NoError(t, p.rome.Get(t.Context(), client.ObjectKeyFromObject(keys), keys))
	csr, err := authentication.NewCSR(keyOf(t, keys), authentication.ControlPlaneSubject("rome"))
	require.NoError(t, err)
	tenant := authentication.Tenant("liqo-tenant-rome", "rome", keys.Data[authentication.PublicKeyKey], csr, signed.Data["signedNonce"], "")
	create(p.milan, tenant)
	p.await(t, p.milan, tenant, func() bool { return tenant.Status.AuthParams != nil }, "the provider issues the credentials")
	identity, err := authentication.ControlPlaneIdentity("liqo-tenant-milan", "milan", tenant)
	require.NoError(t, err)
	create(p.rome, identity)
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: authentication.KubeconfigSecretName(identity.Name)}}
	p.await(t, p.rome, kubeconfig, func() bool {
		return controllerutil.ContainsFinalizer(kubeconfig, liqocorev1beta1.ReplicatorSecretFinalizer)
	}, "the consumer makes the kubeconfig, and replicates with it")
	return kubeconfig
}

func keyOf(t *testing.T, keys *corev1.Secret) crypto.Signer {
	t.Helper()
	key, err := authentication.ParseKey(keys.Data[authentication.PrivateKeyKey])
	require.NoError(t, err)
	return key
}

// renew has the provider issue the certificate of the control plane again, until it ends later than
// the first one: both may have been signed in the same second.
func (p *peered) renew(t *testing.T, kubeconfig *corev1.Secret) {
	t.Helper()
	before := string(kubeconfig.Data["kubeconfig"])
	nonce := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: authentication.NonceSecretName}}
	stored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "liqo-remote-certificate"}}
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, p.rome.Get(t.Context(), client.ObjectKeyFromObject(kubeconfig), kubeconfig))
		if string(kubeconfig.Data["kubeconfig"]) != before {
			return true
		}
		require.NoError(t, client.IgnoreNotFound(p.milan.Delete(t.Context(), stored.DeepCopy())))
		require.NoError(t, p.milan.DeleteAllOf(t.Context(), &certificatesv1.CertificateSigningRequest{}))
		// The Tenant is reconciled when the nonce changes.
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/look":%q}}}`, uuid.NewUUID())
		require.NoError(t, p.milan.Patch(t.Context(), nonce.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
		return false
	}, soon, 2*time.Second, "the renewed credentials reach the kubeconfig")
}

// virtualNode creates a VirtualNode and waits for its virtual kubelet's Deployment and rights.
func (p *peered) virtualNode(t *testing.T, kubeconfig string) {
	t.Helper()
	labels := map[string]string{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet, offloadingv1beta1.VirtualNodeLabel: "milan"}
	vn := &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID: "milan", CreateNode: ptr.To(false), KubeconfigSecretRef: &corev1.LocalObjectReference{Name: kubeconfig},
			Template: &offloadingv1beta1.DeploymentTemplate{
				ObjectMeta: metav1.ObjectMeta{Name: "vk-milan", Namespace: "liqo-tenant-milan", Labels: labels},
				Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "virtual-kubelet", Image: "longshore"}}},
				}},
			},
		},
	}
	require.NoError(t, p.rome.Create(t.Context(), vn))
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan"}}
	p.await(t, p.rome, deployment, func() bool { return true }, "the virtual kubelet is started")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "longshore-node-milan"}}
	p.await(t, p.rome, role, func() bool { return true }, "the virtual kubelet may read its kubeconfig")
}

// breakKubeconfig replaces the kubeconfig of a VirtualNode, which the manager reports.
func (p *peered) breakKubeconfig(t *testing.T, name string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: name}}
	require.NoError(t, p.rome.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"kubeconfig":"clusters: {"}}`))))
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	p.await(t, p.rome, vn, func() bool {
		return slices.ContainsFunc(vn.Status.Conditions, func(condition offloadingv1beta1.VirtualNodeCondition) bool {
			return strings.Contains(condition.Message, "is not a kubeconfig")
		})
	}, "the condition reports the broken kubeconfig")
}

// gone deletes a namespace and waits until no finalizer holds it any more.
func gone(t *testing.T, c client.Client, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(t, c.Delete(t.Context(), namespace))
	t.Cleanup(func() {
		if t.Failed() {
			for _, condition := range namespace.Status.Conditions {
				t.Log(condition.Type, condition.Message)
			}
		}
	})
	planetest.Until(t, func(t planetest.T) bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
	}, soon, tick, "namespace %s is gone", name)
}

// TestPeeringReadsSecretsOfTenantNamespacesOnly peers, renews, runs a virtual node and takes
// everything back by the deletion of the tenant namespaces, in which the rights are the last to go.
func TestPeeringReadsSecretsOfTenantNamespacesOnly(t *testing.T) {
	for name, separate := range map[string]bool{"with replication in the manager": false, "with a replicator of its own": true} {
		t.Run(name, func(t *testing.T) {
			planes := planetest.ForTests(t, "rome", "milan")
			p := &peered{rome: consumerOf(t, planes[0].RESTConfig()), milan: consumerOf(t, planes[1].RESTConfig())}
			run := func(id string, config *rest.Config) func() {
				app, err := manager.New(manager.Options{
					ShadowPodWorkers: 1, ShadowEndpointSliceWorkers: 1, Replication: !separate, Options: ofCluster(id, asManager(t, config)),
					Peering: manager.PeeringOptions{APIServerAddress: config.Host, DefaultClassEnabled: true},
				})
				return inBackground(t, app, err)
			}
			if separate {
				installReplicator(t, p.rome)
				app, err := replicator.New(replicator.Options{Options: ofCluster("rome", chartrights.As(t, planes[0].RESTConfig(), chartrights.Namespace, "longshore-replicator"))})
				inBackground(t, app, err)
			}
			run("milan", planes[1].RESTConfig())
			stop := run("rome", planes[0].RESTConfig())
			kubeconfig := p.handshake(t)
			p.renew(t, kubeconfig)
			p.refusesStatuses(t)
			own := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "kubeconfig-of-the-node"}, Data: kubeconfig.Data}
			require.NoError(t, p.rome.Create(t.Context(), own))
			p.virtualNode(t, own.Name)
			p.breakKubeconfig(t, own.Name)
			stop() // A manager that starts again finds namespaces, bindings and Secrets.
			run("rome", planes[0].RESTConfig())
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: tenantnamespace.Role}}
			p.await(t, p.rome, binding, func() bool { return controllerutil.ContainsFinalizer(binding, tenantnamespace.Finalizer) }, "the rights are held")
			gone(t, p.rome, "liqo-tenant-milan")
			gone(t, p.milan, "liqo-tenant-rome")
		})
	}
}

// installReplicator gives the account of a separate replicator the rights of the chart, and waits
// until they are in effect.
func installReplicator(t *testing.T, admin client.Client) {
	t.Helper()
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: chartrights.Namespace, Name: "longshore-replicator"}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "longshore-replicator"}, Rules: chartrights.RulesOf(t, "replicator")}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}})
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	for _, object := range []client.Object{role, binding} {
		require.NoError(t, admin.Create(t.Context(), object))
	}
	planetest.AwaitRights(t, admin, binding)
}

// TestAnUpgradeFromClusterWideRightsContinues starts with the objects of an earlier version: a
// binding of the manager only, without a finalizer, and a Secret with that of the replicator.
func TestAnUpgradeFromClusterWideRightsContinues(t *testing.T) {
	plane := planetest.ForTest(t, "rome")
	rome := consumerOf(t, plane.RESTConfig())
	p := &peered{rome: rome}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: tenantnamespace.Role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: tenantnamespace.Role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: chartrights.Namespace, Name: chartrights.Manager}},
	}
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "liqo-tenant-milan", Name: "kubeconfig-controlplane-milan", Finalizers: []string{liqocorev1beta1.ReplicatorSecretFinalizer},
		Labels:      map[string]string{"liqo.io/remote-cluster-id": "milan", "liqo.io/identity-type": "ControlPlane"},
		Annotations: map[string]string{"liqo.io/remote-tenant-namespace": "liqo-tenant-rome"},
	}}
	for _, object := range []client.Object{authentication.TenantNamespace("milan"), binding, kubeconfig} {
		require.NoError(t, rome.Create(t.Context(), object))
	}
	installReplicator(t, rome)
	app, err := replicator.New(replicator.Options{Options: ofCluster("rome", chartrights.As(t, plane.RESTConfig(), chartrights.Namespace, "longshore-replicator"))})
	inBackground(t, app, err)
	app, err = manager.New(manager.Options{
		ShadowPodWorkers: 1, ShadowEndpointSliceWorkers: 1, PingInterval: time.Hour, PingTimeout: time.Second,
		Options: ofCluster("rome", asManager(t, plane.RESTConfig())),
	})
	inBackground(t, app, err)
	p.await(t, rome, binding, func() bool {
		return len(binding.Subjects) == 3 && controllerutil.ContainsFinalizer(binding, tenantnamespace.Finalizer)
	}, "the replicator and the hook of helm uninstall get their rights, and they are held")
	gone(t, rome, "liqo-tenant-milan")
}
