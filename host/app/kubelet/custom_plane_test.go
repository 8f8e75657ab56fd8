package kubelet_test

import (
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/custom"
	"github.com/longshore-dev/longshore/host/consumer/resourcereflection"
	"github.com/longshore-dev/longshore/host/kit/events"
)

var (
	certificateKind = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}
	gatewayKind     = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}
)

// customRig is a rig with a running virtual kubelet and the controller of ResourceReflections.
type customRig struct{ *rig }

// Custom resources of two published kinds are reflected. The steps depend on each other.
func TestCustomResourcesAreReflected(t *testing.T) {
	t.Parallel()
	r := customRig{newRig(t)}
	require.NoError(t, apiextensionsv1.AddToScheme(r.runtimeTypes))
	r.runStatus()
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig))
	r.mapNamespace()
	r.create(r.rome, crd(t, "certificates"), crd(t, "gateways"))
	ended := r.runKubelet(r.options())
	t.Run("a name that is not that of the kind is refused", r.refusesNames)
	r.create(r.rome, reflection(certificateKind, "v1"), reflection(gatewayKind, "v1beta1"))
	t.Run("a kind that the provider does not serve is reported", r.reportsMissingKinds)
	t.Run("missing rights are reported", r.reportsMissingRights)
	t.Run("a schema that differs is reported", r.reportsSchemas)
	t.Run("the spec reaches the provider, and the status comes back", r.reflects)
	t.Run("the API servers convert", r.converts)
	t.Run("a policy changes the spec", r.mutates)
	t.Run("a version that the provider does not serve is reported", r.reportsVersions)
	t.Run("the direction changes without a restart", r.changesDirection)
	t.Run("a deletion follows", r.deletes)
	t.Run("another provider is named", r.namesProviders)
	t.Run("the remote objects are deleted with the ResourceReflection", r.withdraws)
	select {
	case err := <-ended:
		t.Fatalf("the virtual kubelet ended: %v", err)
	default:
	}
}

func crd(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	require.NoError(t, err)
	out := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(raw, out))
	return out
}

func reflection(kind schema.GroupVersionKind, version string) *policyv1alpha1.ResourceReflection {
	return &policyv1alpha1.ResourceReflection{
		ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(kind.Kind) + "." + kind.Group},
		Spec:       policyv1alpha1.ResourceReflectionSpec{Group: kind.Group, Version: version, Kind: kind.Kind},
	}
}

// runStatus runs the consumer's controller of ResourceReflections.
func (r *customRig) runStatus() {
	r.t.Helper()
	mgr, err := ctrl.NewManager(r.asManager(r.consumer), ctrl.Options{
		Scheme: r.runtimeTypes, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(r.t, err)
	reconciler := &resourcereflection.Reconciler{Client: mgr.GetClient(), Events: events.New(mgr, "longshore-manager", time.Now), Clock: clock.RealClock{}}
	require.NoError(r.t, reconciler.SetupWithManager(mgr))
	r.background(mgr.Start)
}

// condition waits until a condition of a ResourceReflection has a reason, and returns its message.
func (r *customRig) condition(t *testing.T, kind schema.GroupVersionKind, condition, reason string) string {
	t.Helper()
	found := &policyv1alpha1.ResourceReflection{}
	message := ""
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(reflection(kind, "")), found))
		is := meta.FindStatusCondition(found.Status.Conditions, condition)
		if is == nil || is.ObservedGeneration != found.Generation {
			return false
		}
		message = is.Message
		return is.Reason == reason
	}, soon, tick, "condition %s of %s has reason %s", condition, kind.Kind, reason)
	return message
}

// change changes a ResourceReflection.
func (r *customRig) change(t *testing.T, kind schema.GroupVersionKind, change func(*policyv1alpha1.ResourceReflectionSpec)) {
	t.Helper()
	found := &policyv1alpha1.ResourceReflection{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(reflection(kind, "")), found))
	before := found.DeepCopy()
	change(&found.Spec)
	require.NoError(t, r.rome.Patch(t.Context(), found, client.MergeFrom(before)))
}

func (r *customRig) refusesNames(t *testing.T) {
	wrong := reflection(certificateKind, "v1")
	wrong.Name = "certificates"
	assert.ErrorContains(t, r.rome.Create(t.Context(), wrong), "metadata.name must be the kind in lower case")
	builtIn := reflection(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Kind: "Role"}, "v1")
	assert.ErrorContains(t, r.rome.Create(t.Context(), builtIn), "spec.group must be the group of custom resources")
}

func (r *customRig) reportsMissingKinds(t *testing.T) {
	message := r.condition(t, certificateKind, policyv1alpha1.ReadyCondition, "NotServedByProvider")
	assert.Contains(t, message, "virtual-kubelet/"+nodeName+": Cluster milan does not serve kind Certificate of cert-manager.io/v1. Its operator must install")
	planetest.Until(t, func(t planetest.T) bool {
		list := &corev1.EventList{}
		require.NoError(t, r.rome.List(t.Context(), list, client.InNamespace("default")))
		return slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == "certificate.cert-manager.io" && e.Reason == "NotServedByProvider" && e.Type == corev1.EventTypeWarning
		})
	}, soon, tick, "an event on the ResourceReflection")
}

func (r *customRig) reportsMissingRights(t *testing.T) {
	other := crd(t, "certificates")
	delete(other.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "keystores")
	r.create(r.milan, other, r.convertedByWebhook(crd(t, "gateways")))
	message := r.condition(t, certificateKind, policyv1alpha1.ReadyCondition, "Forbidden")
	assert.Contains(t, message, "may not get certificates, list certificates, watch certificates, create certificates, patch certificates, delete certificates of group cert-manager.io in namespace shop-rome of cluster milan")
	assert.Contains(t, message, `longshore.dev/aggregate-to-virtual-kubelet-remote: "true"`)

	r.create(r.rome, customRole(custom.AggregateToLocal, map[string][]string{
		"certificates": {"get", "list", "watch"}, "gateways": {"get", "list", "watch"}, "certificates/status": {"patch"}, "gateways/status": {"patch"},
	}))
	ofRemote := []string{"get", "list", "watch", "create", "patch", "delete"}
	r.create(r.milan, customRole(custom.AggregateToRemote, map[string][]string{"certificates": ofRemote, "gateways": ofRemote}))
	r.condition(t, certificateKind, policyv1alpha1.ReadyCondition, "Reflecting")
	r.condition(t, gatewayKind, policyv1alpha1.ReadyCondition, "Reflecting")
}

// convertedByWebhook has a webhook convert the objects of a kind of Gateways. The class of a Gateway
// has a prefix in version v1, and none in other versions.
func (r *customRig) convertedByWebhook(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		review := &apiextensionsv1.ConversionReview{}
		if err := json.NewDecoder(request.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := json.NewEncoder(w).Encode(convertClass(review)); err != nil {
			r.t.Errorf("answering a conversion: %v", err)
		}
	}))
	r.t.Cleanup(server.Close)
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{
			URL:      ptr.To(server.URL + "/convert"),
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
		ConversionReviewVersions: []string{"v1"},
	}}
	return crd
}

const classPrefix = "v1-"

// convertClass answers a request for conversion.
func convertClass(review *apiextensionsv1.ConversionReview) *apiextensionsv1.ConversionReview {
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		converted := &unstructured.Unstructured{}
		if err := converted.UnmarshalJSON(raw.Raw); err != nil {
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		class := strings.TrimPrefix(text(converted.Object, "spec", "gatewayClassName"), classPrefix)
		if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1") {
			class = classPrefix + class
		}
		_ = unstructured.SetNestedField(converted.Object, class, "spec", "gatewayClassName")
		converted.SetAPIVersion(review.Request.DesiredAPIVersion)
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: converted})
	}
	return &apiextensionsv1.ConversionReview{TypeMeta: review.TypeMeta, Response: response}
}

// customRole is a ClusterRole that an operator adds to a role of virtual kubelets.
func customRole(label string, verbs map[string][]string) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "custom-resources", Labels: map[string]string{label: "true"}}}
	for _, resource := range slices.Sorted(maps.Keys(verbs)) {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{"cert-manager.io", "gateway.networking.k8s.io"}, Resources: []string{resource}, Verbs: verbs[resource],
		})
	}
	return role
}

func (r *customRig) reportsSchemas(t *testing.T) {
	message := r.condition(t, certificateKind, policyv1alpha1.SchemaMatchesCondition, "Differs")
	assert.Contains(t, message, "spec.keystores does not exist in the provider")
	r.condition(t, gatewayKind, policyv1alpha1.SchemaMatchesCondition, "Matches")
}

func object(kind schema.GroupVersionKind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(kind)
	out.SetNamespace(namespace)
	out.SetName(name)
	if spec != nil {
		out.Object["spec"] = spec
	}
	return out
}

// await waits until an object fulfills a condition.
func await(t *testing.T, c client.Client, kind schema.GroupVersionKind, namespace string, isMet func(map[string]any) bool, what string) *unstructured.Unstructured {
	t.Helper()
	found := object(kind, namespace, "web", nil)
	planetest.Until(t, func(t planetest.T) bool {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(found), found)
		if !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
		return err == nil && isMet(found.Object)
	}, soon, tick, what)
	return found
}

func text(object map[string]any, fields ...string) string {
	found, _, _ := unstructured.NestedString(object, fields...)
	return found
}

func number(object map[string]any, fields ...string) int64 {
	found, _, _ := unstructured.NestedInt64(object, fields...)
	return found
}

func names(object map[string]any) []string {
	found, _, _ := unstructured.NestedStringSlice(object, "spec", "dnsNames")
	return found
}

// report writes the status of a remote object, as its controller does.
func (r *customRig) report(t *testing.T, kind schema.GroupVersionKind, status map[string]any) {
	t.Helper()
	remote := object(kind, "shop-rome", "web", nil)
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(remote), remote))
	before := remote.DeepCopy()
	remote.Object["status"] = status
	require.NoError(t, r.milan.Status().Patch(t.Context(), remote, client.MergeFrom(before)))
}

func readyStatus(generation int64, reason string) map[string]any {
	return map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": generation,
	}}}
}

// certificateCondition returns the reason and the generation of the first condition.
func certificateCondition(object map[string]any) (string, int64) {
	conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	if len(conditions) == 0 {
		return "", 0
	}
	condition, _ := conditions[0].(map[string]any)
	return text(condition, "reason"), number(condition, "observedGeneration")
}

func (r *customRig) reflects(t *testing.T) {
	r.create(r.rome, object(certificateKind, "shop", "web", map[string]any{
		"secretName": "web-tls", "dnsNames": []any{"web.example.com"}, "issuerRef": map[string]any{"name": "issuer", "kind": "Issuer"},
	}))
	remote := await(t, r.milan, certificateKind, "shop-rome", func(map[string]any) bool { return true }, "the Certificate exists in the provider")
	assert.Equal(t, "web-tls", text(remote.Object, "spec", "secretName"))
	assert.Equal(t, []string{"web.example.com"}, names(remote.Object))
	assert.Equal(t, "rome", remote.GetLabels()["offloading.liqo.io/origin"])

	r.report(t, certificateKind, readyStatus(remote.GetGeneration(), "Issued"))
	await(t, r.rome, certificateKind, "shop", func(o map[string]any) bool {
		reason, observed := certificateCondition(o)
		return reason == "Issued" && observed == 1
	}, "the status comes back")

	local := object(certificateKind, "shop", "web", nil)
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(local), local))
	before := local.DeepCopy()
	require.NoError(t, unstructured.SetNestedStringSlice(local.Object, []string{"web.example.com", "shop.example.com"}, "spec", "dnsNames"))
	require.NoError(t, r.rome.Patch(t.Context(), local, client.MergeFrom(before)))
	remote = await(t, r.milan, certificateKind, "shop-rome", func(o map[string]any) bool { return len(names(o)) == 2 }, "the change follows")
	await(t, r.rome, certificateKind, "shop", func(o map[string]any) bool {
		reason, observed := certificateCondition(o)
		return reason == "Issued" && observed == 1
	}, "the provider has not observed the change")
	r.report(t, certificateKind, readyStatus(remote.GetGeneration(), "Renewed"))
	await(t, r.rome, certificateKind, "shop", func(o map[string]any) bool {
		reason, observed := certificateCondition(o)
		return reason == "Renewed" && observed == number(o, "metadata", "generation")
	}, "the provider has observed the change")
}

func (r *customRig) converts(t *testing.T) {
	listener := map[string]any{"name": "http", "port": int64(80), "protocol": "HTTP"}
	r.create(r.rome, object(gatewayKind, "shop", "web", map[string]any{"gatewayClassName": "edge", "listeners": []any{listener}}))
	remote := await(t, r.milan, gatewayKind, "shop-rome", func(map[string]any) bool { return true }, "the Gateway exists in the provider")
	assert.Equal(t, classPrefix+"edge", text(remote.Object, "spec", "gatewayClassName"), "the provider's webhook converts what was sent")
	for _, entry := range remote.GetManagedFields() {
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			assert.Equal(t, "gateway.networking.k8s.io/v1beta1", entry.APIVersion, "the version of the ResourceReflection is written")
		}
	}
	r.report(t, gatewayKind, map[string]any{"addresses": []any{map[string]any{"type": "IPAddress", "value": "192.0.2.1"}}})
	await(t, r.rome, gatewayKind, "shop", func(o map[string]any) bool {
		addresses, _, _ := unstructured.NestedSlice(o, "status", "addresses")
		return len(addresses) == 1
	}, "the status comes back")
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(remote), remote))
	assert.EqualValues(t, 1, remote.GetGeneration(), "the converted Gateway is what was sent, and is not sent again")
}

func (r *customRig) mutates(t *testing.T) {
	module := siteModule(t)
	r.create(r.rome,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "site"}, BinaryData: map[string][]byte{"module.wasm.gz": module}},
		sitePolicy(policyv1alpha1.ResourceMutationPoint))
	await(t, r.milan, certificateKind, "shop-rome", func(o map[string]any) bool { return text(o, "spec", "issuerRef", "name") == "issuer-milan" }, "the policy changes the issuer")
	require.NoError(t, r.rome.Delete(t.Context(), sitePolicy()))
	await(t, r.milan, certificateKind, "shop-rome", func(o map[string]any) bool { return text(o, "spec", "issuerRef", "name") == "issuer" }, "the issuer is that of the local object again")
}

func (r *customRig) reportsVersions(t *testing.T) {
	found := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKey{Name: "gateways.gateway.networking.k8s.io"}, found))
	before := found.DeepCopy()
	for i := range found.Spec.Versions {
		found.Spec.Versions[i].Served = found.Spec.Versions[i].Name == "v1"
	}
	require.NoError(t, r.milan.Patch(t.Context(), found, client.MergeFrom(before)))
	message := r.condition(t, gatewayKind, policyv1alpha1.ReadyCondition, "NotServedByProvider")
	assert.Contains(t, message, "it serves group gateway.networking.k8s.io in v1. Set spec.version to a version that both clusters serve")
	r.change(t, gatewayKind, func(s *policyv1alpha1.ResourceReflectionSpec) { s.Version = "v1" })
	r.condition(t, gatewayKind, policyv1alpha1.ReadyCondition, "Reflecting")
	await(t, r.milan, gatewayKind, "shop-rome", func(map[string]any) bool { return true }, "the Gateway is kept")
}

func (r *customRig) changesDirection(t *testing.T) {
	r.change(t, certificateKind, func(s *policyv1alpha1.ResourceReflectionSpec) { s.Direction = policyv1alpha1.DirectionSpecOnly })
	r.condition(t, certificateKind, policyv1alpha1.ReadyCondition, "Reflecting")
	local := object(certificateKind, "shop", "web", nil)
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(local), local))
	before := local.DeepCopy()
	local.Object["status"] = readyStatus(1, "Local")
	require.NoError(t, r.rome.Status().Patch(t.Context(), local, client.MergeFrom(before)))
	r.report(t, certificateKind, readyStatus(1, "Remote"))
	// A later change that arrives shows that the status did not.
	before = local.DeepCopy()
	local.Object["spec"].(map[string]any)["secretName"] = "other-tls"
	require.NoError(t, r.rome.Patch(t.Context(), local, client.MergeFrom(before)))
	await(t, r.milan, certificateKind, "shop-rome", func(o map[string]any) bool { return text(o, "spec", "secretName") == "other-tls" }, "the spec is reflected")
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(local), local))
	reason, _ := certificateCondition(local.Object)
	assert.Equal(t, "Local", reason)
	r.change(t, certificateKind, func(s *policyv1alpha1.ResourceReflectionSpec) { s.Direction = policyv1alpha1.DirectionSpecAndStatus })
	await(t, r.rome, certificateKind, "shop", func(o map[string]any) bool {
		reason, _ := certificateCondition(o)
		return reason == "Remote"
	}, "the status comes back again")
}

func gone(t *testing.T, c client.Client, kind schema.GroupVersionKind, what string) {
	t.Helper()
	found := object(kind, "shop-rome", "web", nil)
	planetest.Until(t, func(t planetest.T) bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(found), found))
	}, soon, tick, what)
}

func (r *customRig) deletes(t *testing.T) {
	require.NoError(t, r.rome.Delete(t.Context(), object(certificateKind, "shop", "web", nil)))
	gone(t, r.milan, certificateKind, "the remote Certificate is deleted")
}

func (r *customRig) namesProviders(t *testing.T) {
	r.change(t, gatewayKind, func(s *policyv1alpha1.ResourceReflectionSpec) { s.Providers = []string{"turin"} })
	gone(t, r.milan, gatewayKind, "the remote Gateway is withdrawn")
	r.condition(t, gatewayKind, policyv1alpha1.ReadyCondition, "NotObserved")
	r.change(t, gatewayKind, func(s *policyv1alpha1.ResourceReflectionSpec) { s.Providers = []string{"turin", "milan"} })
	await(t, r.milan, gatewayKind, "shop-rome", func(map[string]any) bool { return true }, "the Gateway is reflected again")
}

func (r *customRig) withdraws(t *testing.T) {
	r.condition(t, gatewayKind, policyv1alpha1.ReadyCondition, "Reflecting")
	require.NoError(t, r.rome.Delete(t.Context(), reflection(gatewayKind, "")))
	gone(t, r.milan, gatewayKind, "the remote Gateway is deleted")
	planetest.Until(t, func(t planetest.T) bool {
		return apierrors.IsNotFound(r.rome.Get(t.Context(), client.ObjectKeyFromObject(reflection(gatewayKind, "")), &policyv1alpha1.ResourceReflection{}))
	}, soon, tick, "the ResourceReflection ends")
	local := object(gatewayKind, "shop", "web", nil)
	assert.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(local), local), "the local Gateway is kept")
}
