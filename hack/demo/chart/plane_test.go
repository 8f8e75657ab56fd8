package chart_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/chart"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/custom"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	owner       = client.FieldOwner("chart-test")
	established = 2 * time.Minute
	poll        = 50 * time.Millisecond
)

// cluster is a real control plane with the chart's CRDs and namespaces.
func cluster(t *testing.T) (config *rest.Config, admin client.Client, objects []*unstructured.Unstructured) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane: run without -short")
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, offloadingv1beta1.AddToScheme, authv1beta1.AddToScheme, liqocorev1beta1.AddToScheme, policyv1alpha1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	plane := planetest.ForTest(t, "rome")
	admin, err := client.New(plane.RESTConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "longshore"}}))
	objects, err = chart.Render(map[string]any{"clusterID": "rome"}, chart.Options{})
	require.NoError(t, err)
	for _, object := range objects {
		if kind := object.GetKind(); kind == "CustomResourceDefinition" || kind == "Namespace" {
			require.NoError(t, apply(t, admin, object), object.GetName())
		}
	}
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			planetest.Until(t, func(t planetest.T) bool { return isEstablished(t, admin, object.GetName()) }, established, poll, object.GetName())
		}
	}
	return plane.RESTConfig(), admin, objects
}

func apply(t *testing.T, c client.Client, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	t.Helper()
	return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), append(options, owner)...)
}

// isEstablished reports whether a kind exists for the API server and for the client, which discovers
// it later.
func isEstablished(t planetest.T, c client.Client, name string) bool {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: name}, crd))
	established := false
	for _, condition := range crd.Status.Conditions {
		require.NotEqual(t, apiextensionsv1.NonStructuralSchema, condition.Type, "%s: %s", name, condition.Message)
		established = established || condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.ListKind})
	return established && c.List(t.Context(), list, client.Limit(1)) == nil
}

// TestChartOnARealControlPlane starts one cluster for all that needs one.
func TestChartOnARealControlPlane(t *testing.T) {
	config, admin, objects := cluster(t)
	// strict refuses what a schema does not know instead of dropping it.
	strict := client.WithFieldValidation(admin, metav1.FieldValidationStrict)

	t.Run("everything is accepted to the last field", func(t *testing.T) {
		for _, object := range objects {
			// Applying is always strict.
			assert.NoError(t, apply(t, admin, object, client.DryRunAll), "%s %s", object.GetKind(), object.GetName())
		}
	})
	t.Run("so is what several replicas and optional values add", func(t *testing.T) {
		several, err := chart.Render(map[string]any{
			"clusterID": "rome", "manager": map[string]any{"replicas": 2}, "priorityClassName": "system-cluster-critical",
			"networkPolicies": map[string]any{"enabled": true, "egress": []any{map[string]any{"ports": []any{map[string]any{"port": 443}}}}},
			"dashboard":       map[string]any{"enabled": true},
		}, chart.Options{})
		require.NoError(t, err)
		for _, object := range several {
			if kind := object.GetKind(); kind == "PodDisruptionBudget" || kind == "Deployment" || kind == "NetworkPolicy" || kind == "ConfigMap" {
				assert.NoError(t, apply(t, admin, object, client.DryRunAll), "%s %s", kind, object.GetName())
			}
		}
	})
	t.Run("components may do their work and nothing else", func(t *testing.T) { testRights(t, admin, config, objects) })
	t.Run("an operator adds a kind to the roles of virtual kubelets", func(t *testing.T) { testAggregation(t, admin) })
	t.Run("a stolen account of a virtual kubelet does no more than it may", func(t *testing.T) { testStolenKubelet(t, admin, config) })
	t.Run("what offloading stands on does not wait for the webhook", func(t *testing.T) { testPodWebhook(t, admin, objects) })
	t.Run("defaults are the reference's", func(t *testing.T) { testDefaults(t, admin) })
	t.Run("a template with half an address of the API server is refused", func(t *testing.T) { testTemplates(t, admin, objects) })
	t.Run("bad objects are refused with a reason", func(t *testing.T) { testRefusals(t, strict) })
	t.Run("limits of a call may be as large as the host's bounds", func(t *testing.T) { testBounds(t, strict) })
	t.Run("what may not change does not", func(t *testing.T) { testImmutable(t, strict) })
	t.Run("statuses go their own way", func(t *testing.T) { testStatus(t, admin) })
}

// asComponent acts as a component's service account, without lasting effect.
func asComponent(t *testing.T, config *rest.Config, scheme *runtime.Scheme, name string) client.Client {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:longshore:" + name}
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return client.NewDryRunClient(c)
}

func roleRef(role string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
}

func bind(role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "test"}, RoleRef: roleRef(role)}
}

func bindIn(role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "test", Namespace: "longshore"}, RoleRef: roleRef(role)}
}

// patchSubjects returns an attempt to give the rights of a ClusterRoleBinding to another account.
func patchSubjects(t *testing.T, name string) func(client.Client) error {
	return func(c client.Client) error {
		return c.Patch(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType,
			[]byte(`{"subjects":[{"kind":"ServiceAccount","name":"milan","namespace":"liqo-tenant-milan"}]}`)))
	}
}

// patchRegistration returns an attempt to have all requests sent to a webhook.
func patchRegistration(t *testing.T, name string) func(client.Client) error {
	return func(c client.Client) error {
		return c.Patch(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/webhooks/0/rules","value":[{"apiGroups":["*"],"apiVersions":["*"],"resources":["*"],"operations":["*"]}]}]`)))
	}
}

// creating returns an attempt to create a copy of an object.
func creating(t *testing.T, object client.Object) func(client.Client) error {
	return func(c client.Client) error { return c.Create(t.Context(), object.DeepCopyObject().(client.Object)) }
}

func claimIn(namespace string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "test", Namespace: namespace}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
}

func volume() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "test"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/liqo-placeholder"}},
	}}
}

func testRights(t *testing.T, admin client.Client, config *rest.Config, objects []*unstructured.Unstructured) {
	t.Helper()
	applyRoles(t, admin, objects)
	bindInTenantNamespace(t, admin, "liqo-tenant-milan")
	testRightsOnSecrets(t, admin.Scheme(), config)
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "longshore"} }
	create := func(o client.Object) func(client.Client) error { return creating(t, o) }
	get := func(o client.Object, namespace, name string) func(client.Client) error {
		return func(c client.Client) error {
			return c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
		}
	}
	for name, tc := range map[string]struct {
		who     string
		do      func(client.Client) error
		allowed bool
	}{
		"the manager binds the virtual kubelet's local role":  {"longshore-manager", create(bind("liqo-virtual-kubelet-local")), true},
		"the manager binds the role of offloaded namespaces":  {"longshore-manager", create(bindIn("longshore-virtual-kubelet-namespace")), true},
		"the manager adds no right to virtual kubelets":       {"longshore-manager", create(certificateRole(custom.AggregateToLocal)), false},
		"the manager gives no right that it does not have":    {"longshore-manager", create(&rbacv1.Role{ObjectMeta: in("test"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"delete"}}}}), false},
		"the manager lets a virtual kubelet hold leases":      {"longshore-manager", create(bindIn("longshore-virtual-kubelet-lease")), true},
		"the manager binds the remote role in a namespace":    {"longshore-manager", create(bindIn("liqo-virtual-kubelet-remote")), true},
		"the manager makes a budget for a virtual kubelet":    {"longshore-manager", create(&policyv1.PodDisruptionBudget{ObjectMeta: in("vk-milan")}), true},
		"the webhook makes no budget":                         {"longshore-webhook", create(&policyv1.PodDisruptionBudget{ObjectMeta: in("vk-milan")}), false},
		"the manager does not bind administrators":            {"longshore-manager", create(bind("cluster-admin")), false},
		"the manager gives no other account these rights":     {"longshore-manager", patchSubjects(t, "liqo-node-milan"), false},
		"the manager makes no account an administrator":       {"longshore-manager", patchSubjects(t, "cluster-admin"), false},
		"the manager binds the control plane of a consumer":   {"longshore-manager", create(bindIn("liqo-remote-controlplane")), true},
		"the manager makes claims in the storage namespace":   {"longshore-manager", create(claimIn("liqo-storage")), true},
		"the manager makes no claim in another namespace":     {"longshore-manager", create(claimIn("default")), false},
		"the manager makes volumes":                           {"longshore-manager", create(volume()), true},
		"the manager binds itself in tenant namespaces":       {"longshore-manager", create(bindIn("longshore-manager-tenant-namespace")), true},
		"the manager makes a namespace":                       {"longshore-manager", create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}}), true},
		"the manager makes the cluster's key pair":            {"longshore-manager", create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "authentication-keys", Namespace: "longshore"}}), true},
		"the manager makes no Secret of another namespace":    {"longshore-manager", create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "test", Namespace: "default"}}), false},
		"the manager makes its lease":                         {"longshore-manager", create(&coordinationv1.Lease{ObjectMeta: in("longshore-manager")}), true},
		"the manager leaves others' leases alone":             {"longshore-manager", get(&coordinationv1.Lease{}, "longshore", "other"), false},
		"the manager replicates":                              {"longshore-manager", get(&corev1.Secret{}, "liqo-tenant-milan", "kubeconfig-controlplane-milan"), true},
		"the manager reads policy ConfigMaps":                 {"longshore-manager", get(&corev1.ConfigMap{}, "longshore", "module"), true},
		"the manager reads no ConfigMap of another namespace": {"longshore-manager", get(&corev1.ConfigMap{}, "default", "module"), false},
		"the manager makes no ConfigMap":                      {"longshore-manager", create(&corev1.ConfigMap{ObjectMeta: in("test")}), false},
		"the manager writes policies":                         {"longshore-manager", create(&policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "manager-s"}, Spec: policyv1alpha1.OffloadingPolicySpec{Module: policyv1alpha1.ModuleSource{BuiltIn: "default"}, Mode: policyv1alpha1.ModeDisabled}}), true},
		"the webhook keeps its certificate":                   {"longshore-webhook", get(&corev1.Secret{}, "longshore", "longshore-webhook-certs"), true},
		"the webhook reads no other Secret":                   {"longshore-webhook", get(&corev1.Secret{}, "longshore", "other"), false},
		"the webhook reads no Secret of another namespace":    {"longshore-webhook", get(&corev1.Secret{}, "default", "longshore-webhook-certs"), false},
		"the webhook reads modules":                           {"longshore-webhook", get(&corev1.ConfigMap{}, "longshore", "module"), true},
		"the webhook reads no ConfigMap of another namespace": {"longshore-webhook", get(&corev1.ConfigMap{}, "default", "module"), false},
		"the webhook writes no status of a policy": {"longshore-webhook", func(c client.Client) error {
			return c.Status().Patch(t.Context(), &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "any"}}, client.RawPatch(types.MergePatchType, []byte(`{"status":{"digest":"x"}}`)))
		}, false},
		"the webhook writes its report":                     {"longshore-webhook", create(&policyv1alpha1.PolicyComponent{ObjectMeta: in("webhook-0")}), true},
		"the webhook writes no report of a virtual kubelet": {"longshore-webhook", create(&policyv1alpha1.PolicyComponent{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "milan"}}), false},
		"the webhook reads policies":                        {"longshore-webhook", get(&policyv1alpha1.OffloadingPolicy{}, "", "any"), true},
		"the webhook writes no policy":                      {"longshore-webhook", create(&policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: policyv1alpha1.OffloadingPolicySpec{Module: policyv1alpha1.ModuleSource{BuiltIn: "default"}}}), false},
		"the webhook sees its own registration":             {"longshore-webhook", get(&admissionregistrationv1.MutatingWebhookConfiguration{}, "", "longshore-webhook"), true},
		"the webhook watches its own registration": {"longshore-webhook", func(c client.Client) error {
			return c.List(t.Context(), &admissionregistrationv1.MutatingWebhookConfigurationList{}, client.MatchingFields{"metadata.name": "longshore-webhook"})
		}, true},
		"the webhook does not list others' registrations": {"longshore-webhook", func(c client.Client) error {
			return c.List(t.Context(), &admissionregistrationv1.MutatingWebhookConfigurationList{})
		}, false},
		"the webhook does not see others' registrations":        {"longshore-webhook", get(&admissionregistrationv1.ValidatingWebhookConfiguration{}, "", "other"), false},
		"the manager runs pods in every namespace":              {"longshore-manager", create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "test", Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}), true},
		"the webhook changes its own registration":              {"longshore-webhook", patchRegistration(t, "longshore-webhook"), true},
		"the webhook changes no other registration":             {"longshore-webhook", patchRegistration(t, "other"), false},
		"the replicator reads credentials":                      {"longshore-replicator", get(&corev1.Secret{}, "liqo-tenant-milan", "kubeconfig-controlplane-milan"), true},
		"the replicator makes no pod":                           {"longshore-replicator", create(&corev1.Pod{ObjectMeta: in("test"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}), false},
		"the replicator makes no namespace map in this cluster": {"longshore-replicator", create(&offloadingv1beta1.NamespaceMap{ObjectMeta: in("test")}), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.do(asComponent(t, config, admin.Scheme(), tc.who))
			if tc.allowed {
				assert.NoError(t, client.IgnoreNotFound(err))
				return
			}
			assert.True(t, apierrors.IsForbidden(err), "want Forbidden, got %v", err)
		})
	}
}

// testPodWebhook registers the webhook of pods while it is not served. Whatever namespaces
// are labeled, the webhook's own pods must start without it.
func testPodWebhook(t *testing.T, c client.Client, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == "MutatingWebhookConfiguration" {
			require.NoError(t, apply(t, c, object))
			defer func() { assert.NoError(t, c.Delete(t.Context(), object)) }()
		}
	}
	const offloaded = "labeled-shop"
	for name, labels := range map[string]map[string]string{
		"longshore": nil, "kube-system": nil, "kube-public": nil, "kube-node-lease": nil, offloaded: nil,
		"a-tenant": {liqocorev1beta1.TenantNamespaceLabel: "true"},
	} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), namespace)))
		before := namespace.DeepCopy()
		namespace.Labels = map[string]string{offloadingv1beta1.SchedulingEnabledLabel: "true"}
		maps.Copy(namespace.Labels, labels)
		require.NoError(t, c.Patch(t.Context(), namespace, client.MergeFrom(before)))
		defer func() {
			assert.NoError(t, c.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+offloadingv1beta1.SchedulingEnabledLabel+`":null}}}`))))
		}()
	}
	for _, name := range []string{offloaded, "longshore", "kube-system", "kube-public", "kube-node-lease", "a-tenant"} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			// The webhook is in force a moment after its registration, and so is a label; the
			// service account of a new namespace takes one as well.
			if name == offloaded {
				require.EventuallyWithT(t, func(ct *assert.CollectT) {
					assert.ErrorContains(ct, c.Create(t.Context(), pod.DeepCopy(), client.DryRunAll), `failed calling webhook "pod.mutate.liqo.io"`)
				}, established, poll)
				return
			}
			require.EventuallyWithT(t, func(ct *assert.CollectT) {
				assert.NoError(ct, c.Create(t.Context(), pod.DeepCopy(), client.DryRunAll))
			}, established, poll)
		})
	}
}

func testDefaults(t *testing.T, c client.Client) {
	t.Helper()
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "longshore"} }
	offloading := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: in("offloading")}
	require.NoError(t, c.Create(t.Context(), offloading))
	assert.Equal(t, offloadingv1beta1.DefaultNameMappingStrategyType, offloading.Spec.NamespaceMappingStrategy)
	assert.Equal(t, offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType, offloading.Spec.PodOffloadingStrategy)
	assert.Empty(t, offloading.Spec.ClusterSelector.NodeSelectorTerms)

	tenant := &authv1beta1.Tenant{ObjectMeta: in("milan"), Spec: authv1beta1.TenantSpec{ClusterID: "milan"}}
	require.NoError(t, c.Create(t.Context(), tenant))
	assert.Equal(t, authv1beta1.KeysExchange, *tenant.Spec.AuthzPolicy)
	assert.Equal(t, authv1beta1.TenantConditionActive, tenant.Spec.TenantCondition)

	policy := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}
	policy.Spec.Module.BuiltIn = policyv1alpha1.BuiltInDefault
	policy.Spec.Settings = &runtime.RawExtension{Raw: []byte(`{"any":{"thing":[1,"two"]}}`)}
	require.NoError(t, c.Create(t.Context(), policy))
	assert.Equal(t, policyv1alpha1.ModeEnforce, policy.Spec.Mode)
	assert.Equal(t, policyv1alpha1.FailurePolicyFail, policy.Spec.FailurePolicy)
	assert.JSONEq(t, `{"any":{"thing":[1,"two"]}}`, string(policy.Spec.Settings.Raw), "settings are the module's business")
}

func testRefusals(t *testing.T, c client.Client) {
	t.Helper()
	object := func(apiVersion, kind string, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetAPIVersion(apiVersion)
		o.SetKind(kind)
		o.SetName("bad")
		if kind != "OffloadingPolicy" && kind != "ForeignCluster" {
			o.SetNamespace("longshore")
		}
		return o
	}
	policy := func(spec map[string]any) *unstructured.Unstructured {
		if _, ok := spec["module"]; !ok {
			spec["module"] = map[string]any{"builtIn": "default"}
		}
		return object("policy.longshore.dev/v1alpha1", "OffloadingPolicy", spec)
	}
	offloading := func(kind string, spec map[string]any) *unstructured.Unstructured {
		return object("offloading.liqo.io/v1beta1", kind, spec)
	}
	for name, tc := range map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"policy without a module":                      {policy(map[string]any{"module": map[string]any{}}), "set exactly one of builtIn and configMap"},
		"policy with two modules":                      {policy(map[string]any{"module": map[string]any{"builtIn": "default", "configMap": map[string]any{"namespace": "longshore", "name": "m"}}}), "set exactly one of builtIn and configMap"},
		"policy with an unknown built-in":              {policy(map[string]any{"module": map[string]any{"builtIn": "other"}}), `supported values: "default"`},
		"policy at an unknown point":                   {policy(map[string]any{"points": []any{"PodDeletion"}}), "spec.points"},
		"policy with an unknown mode":                  {policy(map[string]any{"mode": "Off"}), "spec.mode"},
		"policy with no fuel":                          {policy(map[string]any{"limits": map[string]any{"fuel": int64(0)}}), "spec.limits.fuel"},
		"policy with more fuel than the host grants":   {policy(map[string]any{"limits": map[string]any{"fuel": int64(contract.MaxFuel + 1)}}), "spec.limits.fuel in body should be less than or equal to 2000000"},
		"policy with more memory than the host grants": {policy(map[string]any{"limits": map[string]any{"memory": "2Gi"}}), "spec.limits.memory is more than the host's bound of 32Mi: the operator must lower it"},
		"the same in bytes":                            {policy(map[string]any{"limits": map[string]any{"memory": int64(contract.MaxMemoryBytes + 1)}}), "spec.limits.memory is more than the host's bound of 32Mi"},
		"policy with a write without verbs":            {policy(map[string]any{"allow": map[string]any{"writes": []any{map[string]any{"path": "/spec", "verbs": []any{}}}}}), "verbs"},
		"policy with an unknown field":                 {policy(map[string]any{"matches": map[string]any{}}), `unknown field "spec.matches"`},
		"offloading with an unknown strategy":          {offloading("NamespaceOffloading", map[string]any{"podOffloadingStrategy": "Everywhere"}), "podOffloadingStrategy"},
		"offloading with an unknown mapping":           {offloading("NamespaceOffloading", map[string]any{"namespaceMappingStrategy": "Any"}), "namespaceMappingStrategy"},
		"virtual node of no cluster's name":            {offloading("VirtualNode", map[string]any{"clusterID": "Milan!"}), "spec.clusterID"},
		"quota without user":                           {offloading("Quota", map[string]any{"user": "", "resources": map[string]any{}}), "spec.user"},
		"quota with an unknown enforcement":            {offloading("Quota", map[string]any{"user": "u", "resources": map[string]any{}, "limitsEnforcement": "none"}), "limitsEnforcement"},
		"template without an image":                    {offloading("VkOptionsTemplate", map[string]any{"createNode": true, "disableNetworkCheck": false, "metricsEnabled": false}), "spec.containerImage"},
		"shadow pod without containers":                {offloading("ShadowPod", map[string]any{"pod": map[string]any{}}), "spec.pod.containers"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), tc.object)
			require.Error(t, err)
			assert.True(t, apierrors.IsInvalid(err) || apierrors.IsBadRequest(err), "%v", err)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// The bounds of the CRD are the contract's: a policy may ask for all of them.
func testBounds(t *testing.T, c client.Client) {
	t.Helper()
	for _, memory := range []any{"32Mi", int64(contract.MaxMemoryBytes), "0.001Gi"} {
		policy := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "policy.longshore.dev/v1alpha1", "kind": "OffloadingPolicy", "metadata": map[string]any{"name": "at-the-bounds"},
			"spec": map[string]any{
				"module": map[string]any{"builtIn": "default"},
				"limits": map[string]any{"fuel": int64(contract.MaxFuel), "memory": memory},
			},
		}}
		assert.NoError(t, c.Create(t.Context(), policy, client.DryRunAll), "%v", memory)
	}
}

func testImmutable(t *testing.T, c client.Client) {
	t.Helper()
	peer := &liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: "milan"}}
	require.NoError(t, c.Create(t.Context(), peer))
	peer.Spec.ClusterID = "turin"
	assert.ErrorContains(t, c.Update(t.Context(), peer), "ClusterID field is immutable")

	node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "mynode", Namespace: "longshore"}}
	require.NoError(t, c.Create(t.Context(), node))
	node.Spec.ClusterID, node.Spec.KubeconfigSecretRef = "milan", &corev1.LocalObjectReference{Name: "kubeconfig"}
	require.NoError(t, c.Update(t.Context(), node), "what was not set can be set once")
	for name, tc := range map[string]struct {
		change func(*offloadingv1beta1.VirtualNodeSpec)
		want   string
	}{
		"another cluster": {func(s *offloadingv1beta1.VirtualNodeSpec) { s.ClusterID = "turin" }, "spec.clusterID is immutable"},
		"no cluster":      {func(s *offloadingv1beta1.VirtualNodeSpec) { s.ClusterID = "" }, "spec.clusterID is immutable"},
		"another Secret":  {func(s *offloadingv1beta1.VirtualNodeSpec) { s.KubeconfigSecretRef.Name = "other" }, "spec.kubeconfigSecretRef.name is immutable"},
		"no Secret":       {func(s *offloadingv1beta1.VirtualNodeSpec) { s.KubeconfigSecretRef = nil }, "spec.kubeconfigSecretRef.name is immutable"},
		"other labels":    {func(s *offloadingv1beta1.VirtualNodeSpec) { s.Labels = map[string]string{"region": "eu"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := node.DeepCopy()
			tc.change(&changed.Spec)
			err := c.Update(t.Context(), changed, client.DryRunAll)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.True(t, apierrors.IsInvalid(err), "want Invalid, got %v", err)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// A component that reports again replaces its report, and the status of a ShadowPod is stored.
func testStatus(t *testing.T, c client.Client) {
	t.Helper()
	component := &policyv1alpha1.PolicyComponent{}
	for _, policies := range [][]any{{map[string]any{"name": "plain", "generation": int64(1)}, map[string]any{"name": "other"}}, {map[string]any{"name": "plain", "generation": int64(2)}}} {
		reported := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "policy.longshore.dev/v1alpha1", "kind": "PolicyComponent",
			"metadata": map[string]any{"namespace": "longshore", "name": "webhook"},
			"status":   map[string]any{"component": "webhook", "policies": policies},
		}}
		require.NoError(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(reported), client.FieldOwner("longshore-policies")))
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "longshore", Name: "webhook"}, component))
		assert.Len(t, component.Status.Policies, len(policies))
	}
	assert.Equal(t, int64(2), component.Status.Policies[0].Generation)

	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "longshore"}}
	shadow.Spec.Pod.Containers = []corev1.Container{{Name: "web", Image: "web", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}
	require.NoError(t, c.Create(t.Context(), shadow))
	shadow.Status.Phase = corev1.PodRunning
	require.NoError(t, c.Status().Update(t.Context(), shadow))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(shadow), shadow))
	assert.Equal(t, corev1.PodRunning, shadow.Status.Phase)
}
