package rig_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
	"github.com/longshore-dev/longshore/host/provider/quota"
)

const (
	secondNode   = "milan-second"
	twins        = "twins"
	twinsRemote  = twins + "-rome"
	twinsAddress = "203.0.113.9"
)

// twoSlices uses two slices of one provider at once: two virtual nodes, with a virtual kubelet each,
// offload the same namespace. Then it returns one of them.
func twoSlices(t *testing.T, r *rig.Rig) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, r.CreateNamedVirtualNode(ctx, secondNode, rig.Capacity("64", "256Gi", "100"), quiet))
	require.NoError(t, r.Rome.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: twins}}))
	require.NoError(t, r.Rome.Offload(ctx, twins, offloadingv1beta1.RemotePodOffloadingStrategyType, quiet))
	versions := watchVersions(t, r)
	settings := twinObjects(t, r)
	for _, node := range []string{rig.Node, secondNode} {
		twinRuns(t, r, "on-"+node, node)
	}
	sameTwinEndpoints(t, r, 2)
	uids := twinUIDs(t, r)
	assert.Len(t, uids, 4, "the remote Services and pods")

	twoQuotas(t, r)

	changeSettings(t, r, settings, "both")
	// The second pod of a node is created by a virtual kubelet that has seen the change long before.
	for _, node := range []string{rig.Node, secondNode} {
		twinRuns(t, r, "later-on-"+node, node)
	}
	sameTwinEndpoints(t, r, 4)
	eventually(t, "the watch has seen the change", func(planetest.T) bool { return versions.of("ConfigMap settings") >= 2 })
	assert.Equal(t, 2, versions.of("ConfigMap settings"), "it is created once and changed once, however many virtual kubelets see it")
	assert.Equal(t, 1, versions.of("Service outside"), "it is created once")

	returnSecondSlice(t, r)
	left := twinUIDs(t, r)
	for name, uid := range uids {
		if name != "Pod on-"+secondNode {
			assert.Equal(t, uid, left[name], "%s is the same", name)
		}
	}
	sameTwinEndpoints(t, r, 2)
	changeSettings(t, r, settings, "one")
	assert.Equal(t, 1, versions.of("Service outside"), "it is not created again")

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: twins}}
	require.NoError(t, r.Rome.Delete(t.Context(), namespace))
	eventually(t, "the namespaces are gone", func(t planetest.T) bool {
		return isGone(t, r, namespace) && apierrors.IsNotFound(r.Milan.Get(t.Context(), client.ObjectKey{Name: twinsRemote}, &corev1.Namespace{}))
	})
}

// twinObjects creates what both virtual kubelets reflect: a ConfigMap, a Service of the pods, and one
// with an endpoint outside of both clusters.
func twinObjects(t *testing.T, r *rig.Rig) *corev1.ConfigMap {
	t.Helper()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: twins, Name: name} }
	ports := []corev1.ServicePort{{Name: "http", Port: 80}}
	settings := &corev1.ConfigMap{ObjectMeta: meta("settings"), Data: map[string]string{"seen-by": "none"}}
	outside := &discoveryv1.EndpointSlice{
		ObjectMeta: meta("outside"), AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{twinsAddress}}},
	}
	outside.Labels = map[string]string{discoveryv1.LabelServiceName: "outside"}
	for _, object := range []client.Object{
		settings, &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: ports}},
		&corev1.Service{ObjectMeta: meta("outside"), Spec: corev1.ServiceSpec{Ports: ports}}, outside,
	} {
		require.NoError(t, r.Rome.Create(t.Context(), object))
	}
	return settings
}

// twinRuns creates a pod for a virtual node and waits until it runs in the provider.
func twinRuns(t *testing.T, r *rig.Rig, name, node string) {
	t.Helper()
	p := pod(name)
	p.Namespace, p.Labels = twins, map[string]string{"app": "web"}
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	createPod(t, r, p)
	eventually(t, "pod "+name+" runs in the provider", func(t planetest.T) bool {
		remote := &corev1.Pod{}
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(p), p))
		return p.Spec.NodeName == node && r.Milan.Get(t.Context(), client.ObjectKey{Namespace: twinsRemote, Name: name}, remote) == nil &&
			remote.Status.Phase == corev1.PodRunning && ready(p) && p.Status.PodIP == remote.Status.PodIP
	})
}

// twoQuotas checks that the ShadowPods of each virtual node are of the user of its slice, and that each
// user has a Quota.
func twoQuotas(t *testing.T, r *rig.Rig) {
	t.Helper()
	quotas := &offloadingv1beta1.QuotaList{}
	require.NoError(t, r.Milan.List(t.Context(), quotas))
	limited := map[string]bool{}
	for i := range quotas.Items {
		limited[quota.LabelValue(quotas.Items[i].Spec.User)] = true
	}
	creators := map[string]bool{}
	for _, node := range []string{rig.Node, secondNode} {
		shadow := &offloadingv1beta1.ShadowPod{}
		require.NoError(t, r.Milan.Get(t.Context(), client.ObjectKey{Namespace: twinsRemote, Name: "on-" + node}, shadow))
		creator := shadow.Labels[offloadingv1beta1.CreatorUserLabel]
		creators[creator] = true
		assert.True(t, limited[creator], "creator %q of %s has a Quota: %v", creator, shadow.Name, limited)
	}
	assert.Len(t, creators, 2, "each slice has a user of its own")
}

// sameTwinEndpoints waits until each endpoint is once in both clusters.
func sameTwinEndpoints(t *testing.T, r *rig.Rig, count int) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		var addresses []string
		for _, p := range pods(t, r.Milan, twinsRemote, nil) {
			addresses = append(addresses, p.Status.PodIP)
		}
		require.Len(t, addresses, count)
		require.ElementsMatch(t, addresses, addressesOf(t, r.Rome, twins, "web"), "in the consumer")
		require.ElementsMatch(t, addresses, addressesOf(t, r.Milan, twinsRemote, "web"), "in the provider")
		require.Equal(t, []string{twinsAddress}, addressesOf(t, r.Milan, twinsRemote, "outside"), "the one outside")
		return true
	}, patience, every, "each endpoint once")
}

// twinUIDs returns the UIDs of the remote Services and pods.
func twinUIDs(t *testing.T, r *rig.Rig) map[string]types.UID {
	t.Helper()
	uids := map[string]types.UID{}
	services := &corev1.ServiceList{}
	require.NoError(t, r.Milan.List(t.Context(), services, client.InNamespace(twinsRemote)))
	for i := range services.Items {
		uids["Service "+services.Items[i].Name] = services.Items[i].UID
	}
	for _, p := range pods(t, r.Milan, twinsRemote, nil) {
		uids["Pod "+p.Name] = p.UID
	}
	return uids
}

func changeSettings(t *testing.T, r *rig.Rig, settings *corev1.ConfigMap, value string) {
	t.Helper()
	before := settings.DeepCopy()
	settings.Data["seen-by"] = value
	require.NoError(t, r.Rome.Patch(t.Context(), settings, client.MergeFrom(before)))
	eventually(t, "the change arrives", func(t planetest.T) bool {
		remote := &corev1.ConfigMap{}
		return r.Milan.Get(t.Context(), client.ObjectKey{Namespace: twinsRemote, Name: settings.Name}, remote) == nil && remote.Data["seen-by"] == value
	})
}

// returnSecondSlice deletes the second slice, and waits until its virtual node and pods are gone. The
// virtual kubelet crashes while one of its pods ends, when the slice is gone.
func returnSecondSlice(t *testing.T, r *rig.Rig) {
	t.Helper()
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: rig.Pair.ConsumerTenant(), Name: secondNode}}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: vn.ObjectMeta}
	setFinalizers := func(finalizers string) {
		t.Helper()
		ends := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: twinsRemote, Name: "on-" + secondNode}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
		require.NoError(t, r.Milan.Patch(t.Context(), ends, patch))
	}
	setFinalizers(`["test/keeps-it"]`)
	require.NoError(t, r.Rome.Delete(t.Context(), slice))
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: authentication.SliceIdentityName(secondNode)}}
	eventually(t, "the garbage collector has let go of what the slice owned, and keeps the credentials", func(t planetest.T) bool {
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(identity), identity))
		return isGone(t, r, slice) && len(identity.OwnerReferences) == 1
	})
	kubelets := pods(t, r.Rome, vn.Namespace, map[string]string{offloadingv1beta1.VirtualNodeLabel: secondNode})
	require.Len(t, kubelets, 1)
	(&ownProcess{r.Rome, kubelets[0]}).kill(t)
	setFinalizers(`null`)
	for _, object := range []client.Object{slice, vn, identity, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: secondNode}}} {
		eventually(t, "the second slice, its credentials, its VirtualNode and its Node are gone", func(t planetest.T) bool { return isGone(t, r, object) })
	}
	eventually(t, "the pods of the other virtual node run alone", func(t planetest.T) bool {
		remote := pods(t, r.Milan, twinsRemote, nil)
		for _, p := range remote {
			require.Contains(t, []string{"on-" + rig.Node, "later-on-" + rig.Node}, p.Name)
		}
		return len(remote) == 2
	})
}

// writtenVersions counts the versions of the objects of the remote namespace.
type writtenVersions struct {
	mu   sync.Mutex
	seen map[string]map[string]bool
}

func (v *writtenVersions) of(name string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.seen[name])
}

// watchVersions counts the versions of ConfigMaps and Services in the remote namespace until the test
// ends.
func watchVersions(t *testing.T, r *rig.Rig) *writtenVersions {
	t.Helper()
	milan, err := client.NewWithWatch(r.Milan.Config, client.Options{Scheme: r.Milan.Scheme()})
	require.NoError(t, err)
	v := &writtenVersions{seen: map[string]map[string]bool{}}
	follow := func(kind string, events <-chan watch.Event) {
		for {
			select {
			case <-t.Context().Done():
				return
			case event := <-events:
				object, ok := event.Object.(client.Object)
				if !ok || event.Type == watch.Deleted {
					continue
				}
				name := kind + " " + object.GetName()
				v.mu.Lock()
				if v.seen[name] == nil {
					v.seen[name] = map[string]bool{}
				}
				v.seen[name][object.GetResourceVersion()] = true
				v.mu.Unlock()
			}
		}
	}
	go follow("ConfigMap", planetest.Watch(t, milan, &corev1.ConfigMap{}, &corev1.ConfigMapList{}, client.InNamespace(twinsRemote)))
	go follow("Service", planetest.Watch(t, milan, &corev1.Service{}, &corev1.ServiceList{}, client.InNamespace(twinsRemote)))
	return v
}
