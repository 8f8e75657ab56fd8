package chart_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/chart"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
	"github.com/longshore-dev/longshore/host/peering/manual"
)

// provider is a cluster with two consumers, rome and oslo, and the manager of the chart,
// which has the rights of its service account and no others.
type provider struct {
	cluster *testplane.Cluster
	scheme  *runtime.Scheme
	admin   client.Client
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{cluster: planetest.ForTest(t, "milan"), scheme: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, offloadingv1beta1.AddToScheme, authv1beta1.AddToScheme,
		liqocorev1beta1.AddToScheme, policyv1alpha1.AddToScheme,
	} {
		require.NoError(t, add(p.scheme))
	}
	var err error
	p.admin, err = client.New(p.cluster.RESTConfig(), client.Options{Scheme: p.scheme})
	require.NoError(t, err)
	require.NoError(t, p.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "longshore"}}))
	objects, err := chart.Render(map[string]any{"clusterID": "milan"}, chart.Options{})
	require.NoError(t, err)
	var applied []client.Object
	for _, object := range objects {
		switch object.GetKind() {
		case "CustomResourceDefinition", "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			require.NoError(t, apply(t, p.admin, object), object.GetName())
			applied = append(applied, object)
		}
	}
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			planetest.Until(t, func(t planetest.T) bool { return isEstablished(t, p.admin, object.GetName()) }, established, poll, object.GetName())
		}
	}
	awaitAggregation(t, p.admin)
	for _, consumer := range []string{"rome", "oslo"} {
		for _, object := range (manual.Pair{Consumer: liqocorev1beta1.ClusterID(consumer), Provider: "milan"}).ProviderObjects() {
			require.NoError(t, p.admin.Create(t.Context(), object))
			applied = append(applied, object)
		}
	}
	planetest.AwaitRights(t, p.admin, applied...)
	p.runManager(t)
	return p
}

func (p *provider) runManager(t *testing.T) {
	t.Helper()
	runManagerOf(t, p.cluster.RESTConfig(), "milan")
}

// as returns a client with a certificate of the identity, as a consumer has it.
func (p *provider) as(t *testing.T, identity authentication.Subject) client.Client {
	t.Helper()
	c, err := client.New(p.configOf(t, identity), client.Options{Scheme: p.scheme})
	require.NoError(t, err)
	return c
}

func (p *provider) configOf(t *testing.T, identity authentication.Subject) *rest.Config {
	t.Helper()
	certificate, key, err := p.cluster.IssueClientCert(identity.User, []string{identity.Group})
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(p.cluster.RESTConfig())
	config.CertData, config.KeyData = certificate, key
	return config
}

// replicatedMap is a NamespaceMap as a consumer's replicator creates it.
func replicatedMap(consumer, origin string, desired map[string]string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: "liqo-tenant-" + consumer, Labels: map[string]string{
			liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: origin, liqocorev1beta1.RemoteClusterIDLabel: origin,
		}},
		Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: desired},
	}
}

// awaitMapping waits until the provider has answered for a local namespace.
func (p *provider) awaitMapping(t *testing.T, consumer, local string, phase offloadingv1beta1.MappingPhase) offloadingv1beta1.RemoteNamespaceStatus {
	t.Helper()
	nm := &offloadingv1beta1.NamespaceMap{}
	require.Eventually(t, func() bool {
		err := p.admin.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-" + consumer, Name: "milan"}, nm)
		return err == nil && nm.Status.CurrentMapping[local].Phase == phase
	}, established, poll, "%s of %s becomes %s", local, consumer, phase)
	return nm.Status.CurrentMapping[local]
}

func shadowPod(name string, change func(*corev1.PodSpec)) *offloadingv1beta1.ShadowPod {
	shadow := &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: name, Labels: maps.Clone(reflectedFromRome)},
		Spec:       offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}}}},
	}
	if change != nil {
		change(&shadow.Spec.Pod)
	}
	return shadow
}

// A malicious tenant has both credentials of a consumer: that of the control plane and
// that of its virtual kubelets. So has an attacker who steals its kubeconfigs.
func TestAMaliciousTenantStaysInItsNamespaces(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	rome, oslo := manual.Pair{Consumer: "rome", Provider: "milan"}, manual.Pair{Consumer: "oslo", Provider: "milan"}
	control, kubelet := p.as(t, rome.ControlPlane()), p.as(t, rome.Slice("milan"))
	other := p.as(t, oslo.Slice("milan"))

	// rome claims to be oslo, and asks for names that are not its own.
	planetest.Until(t, func(planetest.T) bool {
		err := control.Create(t.Context(), replicatedMap("rome", "oslo", map[string]string{"shop": "shop-rome"}), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "a peer may write copies of its own objects only")
	}, established, poll, "the API server learns of the policy")
	require.NoError(t, control.Create(t.Context(), replicatedMap("rome", "rome", map[string]string{
		"shop": "shop-rome", "a": "kube-dns", "b": "liqo-tenant-paris", "c": "bank-oslo", "d": "longshore", "e": "liqo-tenant-oslo",
	})))
	require.NoError(t, p.as(t, oslo.ControlPlane()).Create(t.Context(), replicatedMap("oslo", "oslo", map[string]string{"shop": "shop-oslo"})))
	p.awaitMapping(t, "rome", "shop", offloadingv1beta1.MappingAccepted)
	p.awaitMapping(t, "oslo", "shop", offloadingv1beta1.MappingAccepted)
	for _, local := range []string{"a", "b", "c", "d", "e"} {
		assert.NotEmpty(t, p.awaitMapping(t, "rome", local, offloadingv1beta1.MappingCreationLoopBackOff).Message)
	}
	for _, name := range []string{"kube-dns", "liqo-tenant-paris", "bank-oslo"} {
		assert.True(t, apierrors.IsNotFound(p.admin.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{})), name)
	}
	require.NoError(t, p.admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "token"}}))
	require.Eventually(t, func() bool {
		return kubelet.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "token"}, &corev1.Secret{}) == nil
	}, established, poll, "rome is let into its namespace")

	t.Run("it does what RBAC allows and nothing else", func(t *testing.T) { testTenantRights(t, control, kubelet, other) })
	t.Run("its requests take no turn of others", p.testPriorityLevels)
	t.Run("the provider creates none of its hostile pods", func(t *testing.T) { p.testHostilePods(t, kubelet) })
	t.Run("it keeps no pod of a ShadowPod that it deletes", func(t *testing.T) { p.testOrphans(t, kubelet) })
	t.Run("it writes only what is its own", func(t *testing.T) { p.testOwnership(t, control, kubelet) })
	t.Run("it reaches no volume that is not its own", func(t *testing.T) { p.testClaims(t, kubelet) })
	t.Run("it lifts no cordon", func(t *testing.T) { p.testCordon(t, control) })
	t.Run("changed metadata is restored", p.testRestore)
	t.Run("it gets no credentials with what belongs to others", p.testHandshakes)
	t.Run("it has one certificate request at a time", func(t *testing.T) { p.testCertificateRequests(t, control) })
	t.Run("a slice that arrives after a cordon is cordoned", func(t *testing.T) { p.testCordonedArrival(t, control) })
	t.Run("what it has ends with its Tenant", func(t *testing.T) { p.testWithdrawal(t, control, kubelet) })
	t.Run("its certificates give no right while its Tenant is drained", func(t *testing.T) { p.testDrained(t, control, kubelet) })
}

// testPriorityLevels asks the API server to which priority levels it assigns requests.
func (p *provider) testPriorityLevels(t *testing.T) {
	rome, oslo := manual.Pair{Consumer: "rome", Provider: "milan"}, manual.Pair{Consumer: "oslo", Provider: "milan"}
	manager := rest.CopyConfig(p.cluster.RESTConfig())
	manager.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:longshore:longshore-manager",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:longshore", "system:authenticated"},
	}
	for name, test := range map[string]struct {
		config *rest.Config
		level  string
	}{
		"its control plane":                {p.configOf(t, rome.ControlPlane()), "longshore-consumer-rome"},
		"its virtual kubelets":             {p.configOf(t, rome.Slice("milan")), "longshore-consumer-rome"},
		"those of another slice":           {p.configOf(t, rome.Slice("other")), "longshore-consumer-rome"},
		"virtual kubelets of another peer": {p.configOf(t, oslo.Slice("milan")), "longshore-consumer-oslo"},
		"the manager":                      {manager, "workload-low"},
		"a user of the provider":           {p.configOf(t, authentication.Subject{User: "alice", Group: "developers"}), "global-default"},
	} {
		t.Run(name, func(t *testing.T) {
			level := &flowcontrolv1.PriorityLevelConfiguration{}
			require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Name: test.level}, level))
			c, err := rest.HTTPClientFor(test.config)
			require.NoError(t, err)
			planetest.Until(t, func(t planetest.T) bool {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.config.Host+"/api/v1/namespaces/shop-rome/pods", http.NoBody)
				require.NoError(t, err)
				response, err := c.Do(request)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				return response.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) == string(level.UID)
			}, established, poll, test.level)
		})
	}
}

// testOrphans lets a consumer delete ShadowPods so that the garbage collector keeps their pods.
func (p *provider) testOrphans(t *testing.T, kubelet client.Client) {
	t.Helper()
	deleted := map[string][]client.DeleteOption{
		"propagation": {client.PropagationPolicy(metav1.DeletePropagationOrphan)},
		"deprecated":  {&client.DeleteOptions{Raw: &metav1.DeleteOptions{OrphanDependents: ptr.To(true)}}}, //nolint:staticcheck // API servers still accept the deprecated field, so a consumer could use it
	}
	for name, options := range deleted {
		shadow := shadowPod("orphan-"+name, nil)
		require.NoError(t, kubelet.Create(t.Context(), shadow))
		// The API server takes a moment to learn of the policy; without it, the ShadowPod is gone.
		err := kubelet.Delete(t.Context(), shadow, options...)
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, "only administrators of the provider")
		err = kubelet.DeleteAllOf(t.Context(), &offloadingv1beta1.ShadowPod{}, client.InNamespace(shadow.Namespace), &client.DeleteAllOfOptions{DeleteOptions: *(&client.DeleteOptions{}).ApplyOptions(options)})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		err = kubelet.Patch(t.Context(), shadow.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["orphan"]}}`)))
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		err = kubelet.Patch(t.Context(), shadow.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/stays"]}}`)))
		require.True(t, isOfOthers(err), "%v", err)
		require.NoError(t, p.admin.Delete(t.Context(), shadow, options...), "an administrator may")
	}
	created := shadowPod("orphan-created", nil)
	created.Finalizers = []string{"orphan"}
	require.True(t, apierrors.IsForbidden(kubelet.Create(t.Context(), created)))
	created = shadowPod("orphan-deleted", nil)
	require.NoError(t, kubelet.Create(t.Context(), created))
	require.NoError(t, kubelet.Delete(t.Context(), created, client.PropagationPolicy(metav1.DeletePropagationForeground)))
}

func testTenantRights(t *testing.T, control, kubelet, other client.Client) {
	t.Helper()
	in := func(namespace string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: "evil"} }
	pod := &corev1.Pod{ObjectMeta: in("shop-rome"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	create := func(object client.Object) func(client.Client) error {
		return func(c client.Client) error { return c.Create(t.Context(), object) }
	}
	label := func(object client.Object) func(client.Client) error {
		return func(c client.Client) error {
			return c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`)))
		}
	}
	list := func(objects client.ObjectList, namespace string) func(client.Client) error {
		return func(c client.Client) error { return c.List(t.Context(), objects, client.InNamespace(namespace)) }
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}}
	for name, tc := range map[string]struct {
		who client.Client
		do  func(client.Client) error
	}{
		"it creates no pod itself":             {kubelet, create(pod)},
		"it changes no pod":                    {kubelet, label(pod)},
		"it adds no container to a pod":        {kubelet, func(c client.Client) error { return c.SubResource("ephemeralcontainers").Update(t.Context(), pod) }},
		"it labels no namespace":               {kubelet, label(shop)},
		"nor does its control plane":           {control, label(shop)},
		"nor its tenant namespace":             {control, label(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-rome"}})},
		"it creates no namespace":              {control, create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "evil-rome"}})},
		"it grants no access to its namespace": {kubelet, create(&rbacv1.RoleBinding{ObjectMeta: in("shop-rome"), RoleRef: roleRef("cluster-admin")})},
		"it makes no service account":          {kubelet, create(&corev1.ServiceAccount{ObjectMeta: in("shop-rome")})},
		"it mints no token": {kubelet, func(c client.Client) error {
			return c.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "default"}}, &authenticationv1.TokenRequest{})
		}},
		"it reads no Secret of another consumer": {kubelet, list(&corev1.SecretList{}, "shop-oslo")},
		"nor of another tenant namespace":        {kubelet, list(&corev1.SecretList{}, "liqo-tenant-oslo")},
		"nor of Longshore":                       {kubelet, list(&corev1.SecretList{}, "longshore")},
		"nor of the whole cluster":               {kubelet, list(&corev1.SecretList{}, "")},
		"its control plane reads no Secret":      {control, list(&corev1.SecretList{}, "liqo-tenant-rome")},
		"it runs nothing in another's namespace": {kubelet, create(&offloadingv1beta1.ShadowPod{ObjectMeta: in("shop-oslo"), Spec: shadowPod("", nil).Spec})},
		"nor in a namespace of the provider":     {kubelet, create(&offloadingv1beta1.ShadowPod{ObjectMeta: in("kube-system"), Spec: shadowPod("", nil).Spec})},
		"it reads no Node":                       {kubelet, list(&corev1.NodeList{}, "")},
		"it maps nothing for another":            {control, create(&offloadingv1beta1.NamespaceMap{ObjectMeta: in("liqo-tenant-oslo")})},
		"it renews no certificate by itself": {control, func(c client.Client) error {
			return c.Status().Patch(t.Context(), &authv1beta1.Renew{ObjectMeta: in("liqo-tenant-rome")}, client.RawPatch(types.MergePatchType, []byte(`{"status":{}}`)))
		}},
		"it activates no Tenant": {control, func(c client.Client) error {
			return c.Patch(t.Context(), &authv1beta1.Tenant{ObjectMeta: in("liqo-tenant-rome")}, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"tenantCondition":"Active"}}`)))
		}},
		"it enlarges no Quota": {control, func(c client.Client) error {
			return c.Patch(t.Context(), &offloadingv1beta1.Quota{ObjectMeta: in("liqo-tenant-rome")}, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cordoned":false}}`)))
		}},
		"it writes no status of its own mapping":          {control, func(c client.Client) error { return c.Status().Update(t.Context(), replicatedMap("rome", "rome", nil)) }},
		"the cluster that it claimed to be has no access": {other, list(&corev1.SecretList{}, "shop-rome")},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.do(tc.who)
			assert.True(t, apierrors.IsForbidden(err), "want Forbidden, got %v", err)
		})
	}
}

func (p *provider) testHostilePods(t *testing.T, kubelet client.Client) {
	t.Helper()
	hostile := map[string]func(*corev1.PodSpec){
		"network":   func(s *corev1.PodSpec) { s.HostNetwork = true },
		"processes": func(s *corev1.PodSpec) { s.HostPID = true },
		"privileged": func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		},
		"files": func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		},
		"node":     func(s *corev1.PodSpec) { s.NodeName = "milan-control-plane" },
		"priority": func(s *corev1.PodSpec) { s.PriorityClassName = "system-node-critical" },
	}
	for name, change := range hostile {
		require.NoError(t, kubelet.Create(t.Context(), shadowPod(name, change)))
	}
	require.NoError(t, kubelet.Create(t.Context(), shadowPod("plain", nil)))
	require.Eventually(t, func() bool {
		return p.admin.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "plain"}, &corev1.Pod{}) == nil
	}, established, poll, "a plain pod is created")
	for name := range hostile {
		shadow := &offloadingv1beta1.ShadowPod{}
		require.Eventually(t, func() bool {
			err := kubelet.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, shadow)
			return err == nil && shadow.Status.Reason == offloadingv1beta1.FailedCreatePodReason
		}, established, poll, "the consumer reads why the pod %s does not exist", name)
		assert.Contains(t, shadow.Status.Message, `Pod Security level "baseline"`)
		assert.True(t, apierrors.IsNotFound(p.admin.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, &corev1.Pod{})))
	}
}

func (p *provider) testRestore(t *testing.T) {
	before := &corev1.Namespace{}
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, before))
	for _, patch := range []string{
		`{"metadata":{"labels":{"liqo.io/remote-cluster-id":"oslo"}}}`,
		`{"metadata":{"annotations":{"liqo.io/managed-by-namespace-map":null}}}`,
		`{"metadata":{"labels":null,"annotations":null}}`,
	} {
		changed := before.DeepCopy()
		require.NoError(t, p.admin.Patch(t.Context(), changed, client.RawPatch(types.MergePatchType, []byte(patch))))
		require.NotEqual(t, before.ResourceVersion, changed.ResourceVersion)
		now := &corev1.Namespace{}
		require.Eventually(t, func() bool {
			err := p.admin.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, now)
			return err == nil && now.Labels[liqocorev1beta1.RemoteClusterIDLabel] == "rome" && assert.ObjectsAreEqual(before.Annotations, now.Annotations)
		}, established, poll, "%s is undone", patch)
		assert.Equal(t, before.UID, now.UID)
		assert.Equal(t, offloadingv1beta1.MappingAccepted, p.awaitMapping(t, "rome", "shop", offloadingv1beta1.MappingAccepted).Phase)
	}
}

// testWithdrawal is the end of a peering with a tenant that wants to keep what it has: its
// administrator deletes nothing, and that of the provider deletes the Tenant.
func (p *provider) testWithdrawal(t *testing.T, control, kubelet client.Client) {
	t.Helper()
	nm := &offloadingv1beta1.NamespaceMap{}
	key := client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "milan"}
	require.NoError(t, control.Get(t.Context(), key, nm))
	for _, hide := range []string{`{"metadata":{"labels":null}}`, `{"metadata":{"labels":{"liqo.io/replicated":"false","liqo.io/replication":"true"}}}`} {
		err := control.Patch(t.Context(), nm.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(hide)))
		assert.True(t, apierrors.IsForbidden(err), "%s: %v", hide, err)
	}
	tenant := p.acceptedTenant(t)
	require.NoError(t, p.admin.Delete(t.Context(), tenant))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(p.admin.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, &corev1.Namespace{})) &&
			apierrors.IsNotFound(p.admin.Get(t.Context(), key, &offloadingv1beta1.NamespaceMap{})) &&
			apierrors.IsNotFound(p.admin.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: "cordoned"}, &authv1beta1.ResourceSlice{}))
	}, 2*established, poll, "its namespace goes, and then its map; its slices too")
	testNoRights(t, control, kubelet)
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Name: "shop-oslo"}, &corev1.Namespace{}), "and no other's")
}

// acceptedTenant creates the Tenant of rome, and returns it when it is accepted.
func (p *provider) acceptedTenant(t *testing.T) *authv1beta1.Tenant {
	t.Helper()
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"},
		Spec:       authv1beta1.TenantSpec{ClusterID: "rome", AuthzPolicy: ptr.To(authv1beta1.TolerateNoHandshake)},
	}
	require.Eventually(t, func() bool { return client.IgnoreAlreadyExists(p.admin.Create(t.Context(), tenant.DeepCopy())) == nil }, established, poll, "the Tenant is created")
	require.Eventually(t, func() bool {
		return p.admin.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant) == nil && meta.IsStatusConditionTrue(tenant.Status.Conditions, authv1beta1.TenantReady)
	}, established, poll, "the Tenant is accepted")
	return tenant
}

// testNoRights uses the certificates of rome.
func testNoRights(t *testing.T, control, kubelet client.Client) {
	t.Helper()
	for what, err := range map[string]error{
		"namespaces": control.Create(t.Context(), replicatedMap("rome", "rome", map[string]string{"shop": "shop-rome"})),
		"pods":       kubelet.Create(t.Context(), shadowPod("late", nil)),
		"Secrets":    kubelet.List(t.Context(), &corev1.SecretList{}, client.InNamespace("shop-rome")),
	} {
		assert.True(t, apierrors.IsForbidden(err), "its certificates give no right on %s: %v", what, err)
	}
}

// testDrained is a stolen kubeconfig: the peering goes on until an administrator of the provider drains
// the Tenant. Certificates cannot be revoked.
func (p *provider) testDrained(t *testing.T, control, kubelet client.Client) {
	t.Helper()
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(p.admin.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "rome"}, &authv1beta1.Tenant{}))
	}, established, poll, "the previous Tenant is gone")
	tenant := p.acceptedTenant(t)
	// Without handshake, the binding in the tenant namespace is made by hand.
	require.NoError(t, p.admin.Create(t.Context(), authentication.RoleBinding(tenant.Namespace, tenant.Spec.ClusterID)))
	require.Eventually(t, func() bool {
		return control.Create(t.Context(), replicatedMap("rome", "rome", map[string]string{"shop": "shop-rome"})) == nil
	}, established, poll, "the certificate of the control plane gives its rights")
	p.awaitMapping(t, "rome", "shop", offloadingv1beta1.MappingAccepted)
	require.Eventually(t, func() bool { return kubelet.Create(t.Context(), shadowPod("stolen", nil)) == nil }, established, poll, "so does that of the virtual kubelets")
	require.NoError(t, p.admin.Patch(t.Context(), tenant, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"tenantCondition":"Drained"}}`))))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(p.admin.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, &corev1.Namespace{}))
	}, 2*established, poll, "its namespace goes, and its pods")
	testNoRights(t, control, kubelet)
	// A request that was under way when the rights ended.
	late := replicatedMap("rome", "rome", map[string]string{"late": "late-rome"})
	require.Eventually(t, func() bool { return p.admin.Create(t.Context(), late.DeepCopy()) == nil }, 2*established, poll, "the previous mapping is gone")
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(p.admin.Get(t.Context(), client.ObjectKeyFromObject(late), late)) &&
			apierrors.IsNotFound(p.admin.Get(t.Context(), client.ObjectKey{Name: "late-rome"}, &corev1.Namespace{}))
	}, 2*established, poll, "a mapping that arrives later goes as well")
}
