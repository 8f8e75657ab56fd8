package virtualnode

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func mapUsedBy(virtualNodes string) *offloadingv1beta1.NamespaceMap {
	nm := remote.NamespaceMap("milan", "liqo-tenant-milan")
	nm.UID = "map"
	if virtualNodes != "" {
		nm.Annotations = map[string]string{"longshore.dev/virtual-nodes": virtualNodes}
	}
	return nm
}

func TestANamespaceMapListsTheVirtualNodesThatUseIt(t *testing.T) {
	for name, tc := range map[string]struct {
		existing []client.Object
		want     string
	}{
		"a new NamespaceMap":              {nil, "liqo-tenant-milan/mynode"},
		"of an earlier version":           {[]client.Object{mapUsedBy("")}, "liqo-tenant-milan/mynode"},
		"another VirtualNode uses it":     {[]client.Object{mapUsedBy("liqo-tenant-milan/second")}, "liqo-tenant-milan/mynode,liqo-tenant-milan/second"},
		"the VirtualNode uses it already": {[]client.Object{mapUsedBy("liqo-tenant-milan/mynode")}, "liqo-tenant-milan/mynode"},
	} {
		t.Run(name, func(t *testing.T) {
			w := pass(t, virtualNode(nil), append(peered(kubeconfig), tc.existing...)...)
			nm := &offloadingv1beta1.NamespaceMap{}
			require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(mapUsedBy("")), nm))
			assert.Equal(t, tc.want, nm.Annotations["longshore.dev/virtual-nodes"])
		})
	}
}

func TestTheNamespaceMapIsDeletedWithItsLastVirtualNode(t *testing.T) {
	now := metav1.Now()
	deleted := virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.DeletionTimestamp = &now })
	second := virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.Name, vn.UID = "second", "vn-2" })
	for name, tc := range map[string]struct {
		existing []client.Object
		deleted  bool
		want     string
		event    string
	}{
		"the only VirtualNode":                                  {existing: []client.Object{mapUsedBy("liqo-tenant-milan/mynode")}, deleted: true},
		"a NamespaceMap of an earlier version":                  {existing: []client.Object{mapUsedBy("")}, deleted: true},
		"another VirtualNode exists":                            {existing: []client.Object{mapUsedBy("liqo-tenant-milan/mynode,liqo-tenant-milan/second"), second}, want: "liqo-tenant-milan/second"},
		"another VirtualNode was deleted without its finalizer": {existing: []client.Object{mapUsedBy("liqo-tenant-milan/lost,liqo-tenant-milan/mynode")}, want: "liqo-tenant-milan/lost", event: "VirtualNode liqo-tenant-milan/lost"},
	} {
		t.Run(name, func(t *testing.T) {
			w := pass(t, deleted, append(peered(kubeconfig), tc.existing...)...)
			assert.Nil(t, w.vn, "released")
			nm := &offloadingv1beta1.NamespaceMap{}
			err := w.Get(t.Context(), client.ObjectKeyFromObject(mapUsedBy("")), nm)
			if tc.deleted {
				assert.True(t, apierrors.IsNotFound(err), "want NotFound, got %v", err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, nm.Annotations["longshore.dev/virtual-nodes"])
			if tc.event != "" {
				require.NotEmpty(t, w.events)
				assert.Contains(t, w.events[len(w.events)-1], tc.event)
			}
		})
	}
}

func TestLeasesEndWithTheVirtualNodesThatHoldThem(t *testing.T) {
	now := metav1.Now()
	deleted := virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.DeletionTimestamp = &now })
	second := virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.Name, vn.UID = "second", "vn-2" })
	for name, tc := range map[string]struct {
		existing []client.Object
		want     []string
	}{
		"the only VirtualNode":       {want: []string{"second", "user's"}},
		"another VirtualNode exists": {existing: []client.Object{second}, want: []string{"second", "user's", "virtual-kubelet-leader-election"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, lease := range []string{deleted.Name, "second", "user's", "virtual-kubelet-leader-election"} {
				tc.existing = append(tc.existing, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: deleted.Namespace, Name: lease}})
			}
			w := pass(t, deleted, append(peered(kubeconfig), tc.existing...)...)
			assert.Nil(t, w.vn, "released")
			leases := &coordinationv1.LeaseList{}
			require.NoError(t, w.List(t.Context(), leases))
			var names []string
			for i := range leases.Items {
				names = append(names, leases.Items[i].Name)
			}
			assert.ElementsMatch(t, tc.want, names)
		})
	}
}
