package admin

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func virtualNode(name string, provider liqocorev1beta1.ClusterID) *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tenant", UID: apitypes.UID(name)},
		Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: provider},
	}
}

func claimOf(name, provider, state string) client.Object {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: map[string]string{
		offloadingv1beta1.StorageClusterLabel: provider, offloadingv1beta1.RemoteClaimLabel: state,
	}}}
}

func mapOf(labels map[string]string, namespaces ...string) client.Object {
	nm := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "map", Namespace: "tenant", Labels: labels}}
	nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{}
	for _, name := range namespaces {
		nm.Status.CurrentMapping[name] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: name + "-rome"}
	}
	return nm
}

func podOn(node, name string, phase corev1.PodPhase, owners ...metav1.OwnerReference) client.Object {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, OwnerReferences: owners}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
	}
}

func reader(objects ...client.Object) *Cluster {
	node := func(object client.Object) []string { return []string{object.(*corev1.Pod).Spec.NodeName} }
	return &Cluster{Client: fakeclient.Builder(objects...).WithIndex(&corev1.Pod{}, "spec.nodeName", node).Build()}
}

func TestWhatEndsWithVirtualNodes(t *testing.T) {
	const created = offloadingv1beta1.RemoteClaimCreated
	const asks = "These claims lose their data, unless the volumes are retained: "
	const deletes = `With its last virtual node, cluster "milan" deletes the remote namespaces of: `
	const bare = "These pods have no controller, which would create them again: "
	leaving := virtualNode("milan", "milan")
	other := virtualNode("milan-gpu", "milan")
	mapped := mapOf(map[string]string{"liqo.io/remoteID": "milan", "liqo.io/replication": "true"}, "shop", "bar")
	controller := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1", Controller: ptr.To(true)}
	for name, tc := range map[string]struct {
		objects []client.Object
		stays   bool
		want    string
	}{
		"one claim": {objects: []client.Object{claimOf("data", "milan", created)}, want: asks + "shop/data."},
		"many claims": {
			objects: []client.Object{
				claimOf("f", "milan", created), claimOf("e", "milan", created), claimOf("d", "milan", created), claimOf("c", "milan", created),
				claimOf("b", "milan", created), claimOf("a", "milan", created),
			},
			want: asks + "shop/a, shop/b, shop/c, shop/d, shop/e and 1 more.",
		},
		"namespaces":                     {objects: []client.Object{mapped}, want: deletes + "bar, shop."},
		"namespaces of another provider": {objects: []client.Object{mapOf(map[string]string{"liqo.io/remoteID": "turin", "liqo.io/replication": "true"}, "shop")}},
		"pods": {
			objects: []client.Object{
				podOn("milan", "web-1", corev1.PodRunning, controller), podOn("milan", "debug", corev1.PodRunning), podOn("milan", "done", corev1.PodSucceeded),
				podOn("milan-gpu", "another", corev1.PodRunning),
			},
			want: bare + "shop/debug.",
		},
		"everything": {
			objects: []client.Object{mapped, podOn("milan", "debug", corev1.PodRunning), claimOf("data", "milan", created)},
			want:    deletes + "bar, shop.\n" + bare + "shop/debug.\n" + asks + "shop/data.",
		},
		"another virtual node of the provider stays": {
			objects: []client.Object{other, mapped, podOn("milan", "debug", corev1.PodRunning), claimOf("data", "milan", created)},
			want:    bare + "shop/debug.",
		},
		"a virtual node of another provider does not help": {objects: []client.Object{virtualNode("turin", "turin"), claimOf("data", "milan", created)}, want: asks + "shop/data."},
		"no virtual node goes":                             {objects: []client.Object{claimOf("data", "milan", created)}, stays: true},
		"a claim of another provider":                      {objects: []client.Object{claimOf("data", "turin", created)}},
		"no data yet, or not any more": {
			objects: []client.Object{claimOf("new", "milan", offloadingv1beta1.RemoteClaimRequested), claimOf("lost", "milan", offloadingv1beta1.RemoteClaimLost)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []*offloadingv1beta1.VirtualNode{leaving}
			if tc.stays {
				nodes = nil
			}
			got, err := reader(append(tc.objects, leaving.DeepCopy())...).Ending(t.Context(), "milan", nodes)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestWhatADrainOfAConsumerDeletes(t *testing.T) {
	const deletes = "This deletes the offloaded namespaces of cluster rome, with all that is in them."
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web", Labels: map[string]string{offloadingv1beta1.OriginLabel: "rome"}}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "data"}}
	other := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "data"}}
	mapped := mapOf(map[string]string{"liqo.io/originID": "rome", "liqo.io/replicated": "true"}, "shop")
	got, err := reader(shadow, claim, other, mapped).EndingWithTenant(t.Context(), "rome")
	require.NoError(t, err)
	assert.Equal(t, deletes+"\nNamespaces: shop-rome.\nPods: shop-rome/web.\nClaims, which lose their data unless the volumes are retained: shop-rome/data.", got)
	got, err = reader(shadow, claim, other, mapped).EndingWithTenant(t.Context(), "oslo")
	require.NoError(t, err)
	assert.Equal(t, "This deletes the offloaded namespaces of cluster oslo, with all that is in them.", got)
}
