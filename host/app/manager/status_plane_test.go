package manager_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// replicated are the kinds whose status comes from a provider, with one that the API server of the consumer
// refuses, and one that it accepts.
var replicated = []struct {
	kind           schema.GroupVersionKind
	plural         string
	hostile, plain string
	// spec is that of the object with the plain status, and home is what of that status comes home.
	spec map[string]any
	home string
}{
	{
		schema.GroupVersionKind{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "ResourceSlice"}, "resourceslices",
		`{"resources":{"cpu":"1e1.5"}}`, `{"conditions":[{"type":"Resources","status":"Denied","message":"came home"}]}`,
		// The provider decides the slices of its own class.
		map[string]any{"class": "of-another-controller"}, "came home",
	},
	{
		schema.GroupVersionKind{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "Renew"}, "renews",
		`{"authParams":{"ca":"none","apiServer":1}}`, `{"authParams":{"ca":"bm9uZQ==","apiServer":"came home"}}`, nil, "came home",
	},
	{
		schema.GroupVersionKind{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "NamespaceMap"}, "namespacemaps",
		`{"currentMapping":{"shop":{"phase":7,"message":"` + strings.Repeat("1", 1<<16) + `"}}}`, `{}`,
		// The provider removes a mapping that is not desired from the status, and refuses this one itself.
		map[string]any{"desiredMapping": map[string]any{"shop": "kube-system"}}, "CreationLoopBackOff",
	},
}

// refusesStatuses has the provider, whose definitions are looser, report statuses that the consumer's API server
// refuses: an event on that object says so, and another one of its kind has its status.
func (p *peered) refusesStatuses(t *testing.T) {
	t.Helper()
	for _, of := range replicated {
		restore := loosen(t, p.milan, of.plural+"."+of.kind.Group)
		for name, status := range map[string]string{"hostile": of.hostile, "plain": of.plain} {
			object := objectOf(of.kind, name)
			if name == "plain" && of.spec != nil {
				object.Object["spec"] = of.spec
			}
			object.SetLabels(map[string]string{"liqo.io/replication": "true", "liqo.io/remoteID": "milan"})
			require.NoError(t, p.rome.Create(t.Context(), object), "%s", of.kind.Kind)
			remote := object.DeepCopy()
			remote.SetNamespace("liqo-tenant-rome")
			planetest.Until(t, func(t planetest.T) bool {
				return p.milan.Status().Patch(t.Context(), remote, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":%s}`, status))) == nil
			}, soon, tick, "the provider reports a status of %s %s", of.kind.Kind, name)
		}
		p.hasEvent(t, of.kind.Kind)
		plain := objectOf(of.kind, "plain")
		p.await(t, p.rome, plain, func() bool { return strings.Contains(fmt.Sprint(plain.Object["status"]), of.home) }, "the status of another "+of.kind.Kind)
		restore()
		p.withdraws(t, of.kind)
	}
}

// withdraws deletes the objects, once the provider's controllers can decode what they have to end.
func (p *peered) withdraws(t *testing.T, kind schema.GroupVersionKind) {
	t.Helper()
	for _, name := range []string{"hostile", "plain"} {
		remote := objectOf(kind, name)
		remote.SetNamespace("liqo-tenant-rome")
		require.NoError(t, p.milan.Status().Patch(t.Context(), remote, client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))))
		require.NoError(t, p.rome.Delete(t.Context(), objectOf(kind, name)))
		planetest.Until(t, func(t planetest.T) bool { return isGone(t, p.rome, objectOf(kind, name)) }, soon, tick, "%s %s is gone", kind.Kind, name)
	}
}

func objectOf(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kind)
	object.SetName(name)
	object.SetNamespace("liqo-tenant-milan")
	return object
}

func (p *peered) hasEvent(t *testing.T, kind string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		list := &eventsv1.EventList{}
		require.NoError(t, p.rome.List(t.Context(), list, client.InNamespace("liqo-tenant-milan")))
		for i := range list.Items {
			event := &list.Items[i]
			if event.Regarding.Kind == kind && event.Regarding.Name == "hostile" && event.Reason == "NotReplicated" && strings.Contains(event.Note, "status") {
				return true
			}
		}
		return false
	}, soon, tick, "%s hostile has an event", kind)
}
