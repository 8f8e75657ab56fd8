package chart_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/access"
	"github.com/longshore-dev/longshore/host/consumer/certificate"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// tenantOf returns the tenant namespace of a peer, its ForeignCluster, and a Secret there.
func tenantOf(peer, secret string) []client.Object {
	namespace := "liqo-tenant-" + peer
	labels := map[string]string{liqocorev1beta1.TenantNamespaceLabel: "true", liqocorev1beta1.RemoteClusterIDLabel: peer}
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}},
		&liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: peer + "-stolen"}, Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: liqocorev1beta1.ClusterID(peer)}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret, Namespace: namespace}, Data: map[string][]byte{"kubeconfig": []byte(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`)}},
	}
}

func runningPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "longshore/longshore"}}},
	}
}

// noPods are the pods of virtual nodes that have none.
type noPods struct{}

func (noPods) Follow(map[string]bool) error { return nil }

func (noPods) In(string, string) ([]*metav1.PartialObjectMetadata, bool) { return nil, true }

// offloadingTo makes what the manager makes for a virtual node and an offloaded namespace,
// with no more rights than the manager has.
func offloadingTo(t *testing.T, admin client.Client, manager client.Client) {
	t.Helper()
	objects := append(tenantOf("turin", "kubeconfig-turin"), tenantOf("florence", "kubeconfig-florence")...)
	labels := map[string]string{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet, offloadingv1beta1.VirtualNodeLabel: "turin-1"}
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "turin-1", Namespace: "liqo-tenant-turin"}, Spec: offloadingv1beta1.VirtualNodeSpec{
		ClusterID: "turin", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-turin"},
		Template: &offloadingv1beta1.DeploymentTemplate{ObjectMeta: metav1.ObjectMeta{Name: "vk-turin-1", Namespace: "liqo-tenant-turin"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: runningPod("", "").Spec},
		}},
	}}
	objects = append(objects, vn,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bazaar"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "payroll"}},
		&offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "bazaar"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: "bazaar"}}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: "payroll"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real-1"}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "real-1", Namespace: corev1.NamespaceNodeLease}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "turin-1", Namespace: corev1.NamespaceNodeLease}},
	)
	for _, object := range objects {
		require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), object)), "%T %s", object, object.GetName())
	}
	bindInTenantNamespace(t, admin, "liqo-tenant-turin")
	for _, pod := range []*corev1.Pod{runningPod("longshore", "longshore-webhook-0"), runningPod("bazaar", "web"), runningPod("payroll", "web")} {
		// The service account of a new namespace takes a moment.
		planetest.Until(t, func(t planetest.T) bool {
			return client.IgnoreAlreadyExists(admin.Create(t.Context(), pod.DeepCopy())) == nil
		}, established, poll, "pods can be created")
	}
	recorder := &events.FakeRecorder{}
	nodes := &virtualnode.Reconciler{Client: manager, APIReader: manager, Events: recorder, Clock: clock.RealClock{}}
	require.NoError(t, manager.Get(t.Context(), client.ObjectKeyFromObject(vn), vn))
	_, err := nodes.Reconcile(t.Context(), vn)
	require.NoError(t, err, "the manager may give what it gives")
	namespaces := &access.Reconciler{Client: manager, APIReader: manager, Events: recorder, Clock: clock.RealClock{}, Pods: noPods{}}
	for _, name := range []string{"bazaar", "payroll"} {
		_, err = namespaces.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
		require.NoError(t, err)
	}
	awaitRightsOf(t, admin, "turin-1")
}

// awaitRightsOf waits until all that binds a ServiceAccount of this name is in effect.
func awaitRightsOf(t *testing.T, admin client.Client, account string) {
	t.Helper()
	isSubject := func(subject rbacv1.Subject) bool { return subject.Name == account }
	inNamespaces, inCluster := &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}
	require.NoError(t, admin.List(t.Context(), inNamespaces))
	require.NoError(t, admin.List(t.Context(), inCluster))
	var bindings []client.Object
	for i := range inNamespaces.Items {
		if slices.ContainsFunc(inNamespaces.Items[i].Subjects, isSubject) {
			bindings = append(bindings, &inNamespaces.Items[i])
		}
	}
	for i := range inCluster.Items {
		if slices.ContainsFunc(inCluster.Items[i].Subjects, isSubject) {
			bindings = append(bindings, &inCluster.Items[i])
		}
	}
	require.NotEmpty(t, bindings, account)
	planetest.AwaitRights(t, admin, bindings...)
}

// testForeignCertificate asks, as the virtual kubelet, for the serving certificate of its own
// Node with the address of its pod, and with that of another kubelet.
func testForeignCertificate(t *testing.T, admin, thief, manager client.Client) {
	t.Helper()
	pod := runningPod("liqo-tenant-turin", "vk-turin-1-0")
	pod.Labels = map[string]string{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet, offloadingv1beta1.VirtualNodeLabel: "turin-1"}
	pod.Spec.ServiceAccountName = "turin-1"
	require.NoError(t, admin.Create(t.Context(), pod))
	running := client.RawPatch(types.MergePatchType, []byte(`{"status":{"podIP":"10.0.0.5","podIPs":[{"ip":"10.0.0.5"}]}}`))
	require.NoError(t, admin.Status().Patch(t.Context(), pod, running))
	// Its own Node it may write, the address too.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "turin-1"}}
	address := client.RawPatch(types.MergePatchType, []byte(`{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`))
	require.NoError(t, thief.Status().Patch(t.Context(), node, address))
	for name, tc := range map[string]struct {
		ip       string
		approved bool
	}{
		"of its own pod": {"10.0.0.5", true}, "of another kubelet": {"10.0.0.1", false},
	} {
		t.Run("get a certificate for the address "+name, func(t *testing.T) {
			_, key, err := ed25519.GenerateKey(rand.Reader)
			require.NoError(t, err)
			der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
				Subject:     pkix.Name{CommonName: "system:node:turin-1", Organization: []string{"system:nodes"}},
				IPAddresses: []net.IP{net.ParseIP(tc.ip)},
			}, key)
			require.NoError(t, err)
			csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"}, Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: certificatesv1.KubeletServingSignerName, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			}}
			require.NoError(t, thief.Create(t.Context(), csr))
			approver := &certificate.Reconciler{Client: manager, APIReader: manager, Clock: clock.RealClock{}}
			_, err = approver.Reconcile(t.Context(), csr.DeepCopy())
			require.NoError(t, err)
			require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(csr), csr))
			approved := false
			for _, condition := range csr.Status.Conditions {
				approved = approved || condition.Type == certificatesv1.CertificateApproved
			}
			assert.Equal(t, tc.approved, approved)
		})
	}
}

// thief acts with an account that is not its own; nothing of it lasts. Its methods return
// attempts.
type thief struct{ client.Client }

func (c thief) get(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return c.Get(ctx, client.ObjectKeyFromObject(object), object) }
}

func (c thief) list(objects client.ObjectList, options ...client.ListOption) func(context.Context) error {
	return func(ctx context.Context) error { return c.List(ctx, objects, options...) }
}

func (c thief) create(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return c.Create(ctx, object) }
}

func (c thief) end(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return c.Delete(ctx, object) }
}

func (c thief) change(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"stolen":"true"}}}`)))
	}
}

func (c thief) status(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"stolen":"true"}}}`)))
	}
}

func object(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: object(namespace, name)}
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: object("", name)} }

func lease(namespace, name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: object(namespace, name)}
}

// testStolenKubelet tries what an attacker with the account of a virtual kubelet would try
// (docs/explanation/trust.md).
func testStolenKubelet(t *testing.T, admin client.Client, config *rest.Config) {
	t.Helper()
	impersonating := func(user string) client.Client {
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{UserName: user}
		c, err := client.New(as, client.Options{Scheme: admin.Scheme()})
		require.NoError(t, err)
		return c
	}
	manager, stolen := impersonating("system:serviceaccount:longshore:longshore-manager"), impersonating("system:serviceaccount:liqo-tenant-turin:turin-1")
	offloadingTo(t, admin, manager)
	as := thief{client.NewDryRunClient(stolen)}
	named := client.MatchingFields{metav1.ObjectNameField: "kubeconfig-turin"}
	planetest.Until(t, func(t planetest.T) bool { return as.get(secret("bazaar", "token"))(t.Context()) == nil }, established, poll, "access is in force")
	for name, tc := range map[string]struct {
		do      func(context.Context) error
		allowed bool
	}{
		"write the status of an offloaded pod":                 {as.status(runningPod("bazaar", "web")), true},
		"end an offloaded pod":                                 {as.end(runningPod("bazaar", "web")), true},
		"record an event on it":                                {as.create(&corev1.Event{ObjectMeta: object("bazaar", "e"), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "bazaar", Name: "web"}}), true},
		"read the Secrets of an offloaded namespace":           {as.list(&corev1.SecretList{}, client.InNamespace("bazaar")), true},
		"watch the provider's kubeconfig":                      {as.list(&corev1.SecretList{}, client.InNamespace("liqo-tenant-turin"), named), true},
		"write its own Node":                                   {as.change(node("turin-1")), true},
		"write the status of its own Node":                     {as.status(node("turin-1")), true},
		"read the pods of its Node, everywhere":                {as.list(&corev1.PodList{}, client.MatchingFields{"spec.nodeName": "turin-1"}), true},
		"read its Node's lease":                                {as.get(lease("kube-node-lease", "turin-1")), true},
		"create the lease of its provider":                     {as.create(lease("liqo-tenant-turin", "virtual-kubelet-leader-election")), true},
		"change the webhook's image":                           {as.change(runningPod("longshore", "longshore-webhook-0")), false},
		"write the status of a pod that is not offloaded":      {as.status(runningPod("payroll", "web")), false},
		"end a pod that is not offloaded":                      {as.end(runningPod("payroll", "web")), false},
		"create a pod in an offloaded namespace":               {as.create(runningPod("bazaar", "miner")), false},
		"read a Secret of a namespace that is not offloaded":   {as.get(secret("payroll", "token")), false},
		"read the Secrets of all namespaces":                   {as.list(&corev1.SecretList{}), false},
		"read another provider's kubeconfig":                   {as.get(secret("liqo-tenant-florence", "kubeconfig-florence")), false},
		"read other Secrets of its own peering":                {as.list(&corev1.SecretList{}, client.InNamespace("liqo-tenant-turin")), false},
		"write a Secret of an offloaded namespace":             {as.change(secret("bazaar", "token")), false},
		"write another Node":                                   {as.change(node("real-1")), false},
		"write the status of another Node":                     {as.status(node("real-1")), false},
		"create a Node":                                        {as.create(node("fake-1")), false},
		"delete its own Node":                                  {as.end(node("turin-1")), false},
		"take the lease of another Node":                       {as.change(lease("kube-node-lease", "real-1")), false},
		"read the lease of another Node":                       {as.get(lease("kube-node-lease", "real-1")), false},
		"take the lease of a control plane":                    {as.create(lease("kube-system", "kube-scheduler")), false},
		"record an event in a namespace that is not offloaded": {as.create(&corev1.Event{ObjectMeta: object("payroll", "e"), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "payroll", Name: "web"}}), false},
		"create a volume":                                      {as.create(volume()), false},
		"change a claim of a namespace that is offloaded":      {as.change(&corev1.PersistentVolumeClaim{ObjectMeta: object("bazaar", "data")}), true},
		"change a claim of a namespace that is not offloaded":  {as.change(&corev1.PersistentVolumeClaim{ObjectMeta: object("payroll", "data")}), false},
		"delete a claim of a namespace that is offloaded":      {as.end(&corev1.PersistentVolumeClaim{ObjectMeta: object("bazaar", "data")}), false},
		"give itself another role":                             {as.create(&rbacv1.RoleBinding{ObjectMeta: object("payroll", "mine"), RoleRef: roleRef(virtualkubelet.NamespaceRole), Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "liqo-tenant-turin", Name: "turin-1"}}}), false},
		"offload a further namespace":                          {as.create(&offloadingv1beta1.NamespaceOffloading{ObjectMeta: object("payroll", "offloading")}), false},
		"create a virtual node":                                {as.create(&offloadingv1beta1.VirtualNode{ObjectMeta: object("liqo-tenant-turin", "turin-2"), Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "turin"}}), false},
		"write a mapping":                                      {as.create(&offloadingv1beta1.NamespaceMap{ObjectMeta: object("liqo-tenant-turin", "mine")}), false},
		"mint a token of the manager": {func(ctx context.Context) error {
			return as.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: object("longshore", "longshore-manager")}, &authenticationv1.TokenRequest{})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.do(t.Context())
			if tc.allowed {
				assert.NoError(t, client.IgnoreNotFound(err))
				return
			}
			assert.True(t, apierrors.IsForbidden(err), "want Forbidden, got %v", err)
		})
	}
	testForeignCertificate(t, admin, stolen, manager)
}
