package manager_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// slice returns a replicated ResourceSlice of a tenant.
func slice(tenant, cpu string) *unstructured.Unstructured {
	s := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"consumerClusterID": tenant, "providerClusterID": "milan", "class": "default", "csr": "bm9uZQ==", "resources": map[string]any{"cpu": cpu},
	}}}
	s.SetGroupVersionKind(schema.GroupVersionKind{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "ResourceSlice"})
	s.SetNamespace("liqo-tenant-" + tenant)
	s.SetName(tenant)
	s.SetLabels(map[string]string{"liqo.io/replicated": "true", "liqo.io/originID": tenant})
	return s
}

// loosen has a CustomResourceDefinition of an API server accept anything that has a spec and a status, until the
// returned function is called.
func loosen(t *testing.T, api client.Client, name string) (restore func()) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.SetName(name)
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	require.NoError(t, err)
	old, err := json.Marshal(versions)
	require.NoError(t, err)
	version, _ := versions[0].(map[string]any)
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	require.NoError(t, unstructured.SetNestedField(version, anything, "schema", "openAPIV3Schema"))
	patch := func(versions []byte) {
		require.NoError(t, api.Patch(t.Context(), crd, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"versions":%s}}`, versions))))
	}
	open, err := json.Marshal(versions)
	require.NoError(t, err)
	patch(open)
	return func() { patch(old) }
}

// storeUndecodable stores objects as an API server did whose CustomResourceDefinition said less.
func storeUndecodable(t *testing.T, api client.Client, objects ...*unstructured.Unstructured) {
	t.Helper()
	restore := loosen(t, api, "resourceslices.authentication.liqo.io")
	for _, object := range objects {
		want := object.DeepCopy()
		planetest.Until(t, func(planetest.T) bool {
			return client.IgnoreAlreadyExists(api.Create(t.Context(), want.DeepCopy())) == nil
		}, soon, tick, "%s is stored", object.GetName())
		stored := want.DeepCopy()
		require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(stored), stored))
		if status, has := want.Object["status"]; has {
			stored.Object["status"] = status
			require.NoError(t, api.Status().Update(t.Context(), stored))
		}
	}
	restore()
	planetest.Until(t, func(planetest.T) bool {
		probe := slice("probe", "1e1.5")
		probe.SetNamespace("default")
		return api.Create(t.Context(), probe, client.DryRunAll) != nil
	}, soon, tick, "the definition is the chart's again")
}

// What one tenant stored before the definitions became stricter, and Go does not decode, stops nothing but
// itself.
func TestAnObjectThatCannotBeDecodedStopsNoOther(t *testing.T) {
	plane := planetest.ForTest(t, "milan")
	connection := plane.RESTConfig()
	milan := consumerOf(t, connection)
	late := slice("late", "1")
	late.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "Authentication", "status": "Accepted", "lastTransitionTime": "2026-11-28t05:00:00z",
	}}}
	for _, tenant := range []string{"oslo", "late", "rome", "kyiv"} {
		require.NoError(t, milan.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-" + tenant}}))
	}
	bad := slice("oslo", "1e1.5")
	storeUndecodable(t, milan, bad, late)
	require.NoError(t, milan.Create(t.Context(), slice("rome", "1")))

	app, err := manager.New(manager.Options{ShadowPodWorkers: 1, ShadowEndpointSliceWorkers: 1, Options: process.Options{
		Config: asManager(t, connection), ClusterID: "milan", Namespace: chartrights.Namespace, MetricsAddress: "0", HealthProbeAddress: "0",
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(t, app.Run(ctx)) })
	t.Cleanup(func() { cancel(); done.Wait() })

	said := func(tenant, reason, note string) {
		t.Helper()
		planetest.Until(t, func(planetest.T) bool {
			list := &eventsv1.EventList{}
			if err := milan.List(t.Context(), list, client.InNamespace("liqo-tenant-"+tenant)); err != nil {
				return false
			}
			for i := range list.Items {
				if list.Items[i].Reason == reason && strings.Contains(list.Items[i].Note, note) {
					return true
				}
			}
			return false
		}, soon, tick, "the slice of %s has an event %s: %s", tenant, reason, note)
	}
	const handled = "NotInTenantNamespace"
	said("rome", handled, "")
	said("oslo", "CannotBeDecoded", "spec.resources.cpu: ")
	said("late", "CannotBeDecoded", "status.conditions[0].lastTransitionTime: ")

	// A change of it is an event of the watch.
	patch := func(object client.Object, patch string) {
		require.NoError(t, milan.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	patch(bad, `{"metadata":{"labels":{"changed":"true"}}}`)
	require.NoError(t, milan.Create(t.Context(), slice("kyiv", "1")))
	said("kyiv", handled, "")
	patch(bad, `{"spec":{"resources":{"cpu":"2"}}}`)
	said("oslo", handled, "")
	t.Run("a NamespaceMap that cannot be decoded any more ends nothing", func(t *testing.T) { endsNothing(t, milan, said) })
}

// endsNothing has a NamespaceMap with a namespace become one that cannot be decoded: the consumer keeps its rights.
func endsNothing(t *testing.T, milan client.Client, said func(tenant, reason, note string)) {
	require.NoError(t, milan.Create(t.Context(), authentication.TenantNamespace("bern")))
	nm := objectOf(offloadingv1beta1.GroupVersion.WithKind("NamespaceMap"), "milan")
	nm.SetNamespace("liqo-tenant-bern")
	nm.SetLabels(map[string]string{"liqo.io/replicated": "true", "liqo.io/originID": "bern"})
	nm.Object["spec"] = map[string]any{"desiredMapping": map[string]any{"shop": "shop-bern"}}
	require.NoError(t, milan.Create(t.Context(), nm))
	bindings := &rbacv1.RoleBindingList{}
	hasRights := func(t planetest.T) bool {
		require.NoError(t, milan.List(t.Context(), bindings, client.InNamespace("shop-bern")))
		return len(bindings.Items) == 1 && len(bindings.Items[0].Subjects) == 1
	}
	planetest.Until(t, hasRights, soon, tick, "the consumer has rights in its namespace")

	restore := loosen(t, milan, "namespacemaps.offloading.liqo.io")
	patch := func(mapping string) {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool {
			return milan.Patch(t.Context(), nm, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredMapping":`+mapping+`}}`))) == nil
		}, soon, tick, "the NamespaceMap is changed")
	}
	patch(`{"shop":{"not":"a name"}}`)
	said("bern", "CannotBeDecoded", "spec.desiredMapping")
	// The controller looks at it again, and restores what is missing.
	binding := &bindings.Items[0]
	binding.Subjects = nil
	require.NoError(t, milan.Update(t.Context(), binding))
	planetest.Until(t, hasRights, soon, tick, "the consumer has its rights again")
	patch(`{"shop":null,"bank":"bank-bern"}`)
	restore()
	planetest.Until(t, func(t planetest.T) bool {
		return milan.Get(t.Context(), client.ObjectKey{Name: "bank-bern"}, &corev1.Namespace{}) == nil && isGone(t, milan, binding)
	}, soon, tick, "it is followed again")
}
