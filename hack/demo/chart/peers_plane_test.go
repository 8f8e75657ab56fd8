package chart_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// labelsOf is the labels of an object with some of them changed; those of value "" are absent.
func labelsOf(base, changes map[string]string) map[string]string {
	changed := map[string]string{}
	maps.Copy(changed, base)
	maps.Copy(changed, changes)
	maps.DeleteFunc(changed, func(_, value string) bool { return value == "" })
	return changed
}

var (
	// copyOfRome has the labels that the replicator of rome, be it the reference's, gives its copies.
	copyOfRome = map[string]string{
		liqocorev1beta1.ReplicationLabel: "false", liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: "rome",
		liqocorev1beta1.RemoteClusterIDLabel: "rome", liqocorev1beta1.RemoteIDLabel: "milan",
	}
	// requestToRome has the labels of what milan asks rome for.
	requestToRome = map[string]string{
		liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: "rome", liqocorev1beta1.RemoteClusterIDLabel: "rome",
	}
	// reflectedFromRome has the labels of what virtual kubelets create in remote namespaces.
	reflectedFromRome = map[string]string{offloadingv1beta1.OriginLabel: "rome", offloadingv1beta1.DestinationLabel: "milan"}
)

// requests are an object of each kind with which clusters ask each other.
func requests(name string, labels map[string]string, finalizers ...string) []client.Object {
	of := metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name, Labels: labels, Finalizers: finalizers}
	return []client.Object{
		&offloadingv1beta1.NamespaceMap{ObjectMeta: of}, &authv1beta1.Renew{ObjectMeta: of},
		&authv1beta1.ResourceSlice{ObjectMeta: of, Spec: authv1beta1.ResourceSliceSpec{ConsumerClusterID: ptr.To(liqocorev1beta1.ClusterID("rome"))}},
	}
}

// hostileRequests are requests whose names are those that a peer may choose.
func hostileRequests(labels map[string]string, finalizers ...string) []client.Object {
	all := requests("hostile", labels, finalizers...)
	all[0].SetName("milan")
	return all
}

// createCopy creates a copy: a NamespaceMap beside the one that a peer has is the administrator's.
func (p *provider) createCopy(t *testing.T, control client.Client, request client.Object) {
	t.Helper()
	by := control
	if _, isMap := request.(*offloadingv1beta1.NamespaceMap); isMap {
		err := control.Create(t.Context(), copyOf(request))
		assert.True(t, isOfOthers(err), "it has a further NamespaceMap: %v", err)
		require.ErrorContains(t, err, "a consumer has one NamespaceMap")
		by = p.admin
	}
	require.NoError(t, by.Create(t.Context(), request), "%T", request)
}

// reflected are an object of each kind that virtual kubelets write.
func reflected(name string, labels map[string]string, finalizers ...string) []client.Object {
	of := metav1.ObjectMeta{Namespace: "shop-rome", Name: name, Labels: labels, Finalizers: finalizers}
	shadow := shadowPod(name, nil)
	shadow.Labels, shadow.Finalizers = labelsOf(labels, map[string]string{"offloading.liqo.io/nodename": "milan"}), finalizers
	slice := &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: of}
	slice.Labels = labelsOf(labels, map[string]string{"endpointslice.kubernetes.io/managed-by": "endpointslice.reflection.liqo.io"})
	slice.Spec.Template.AddressType = discoveryv1.AddressTypeIPv4
	claim := romeClaim(name, nil)
	claim.Labels, claim.Finalizers = labels, finalizers
	token := of.DeepCopy()
	token.Name += "-token"
	token.Annotations = map[string]string{"offloading.liqo.io/service-account-for-pod-name": name}
	return []client.Object{
		shadow, slice, claim, &corev1.ConfigMap{ObjectMeta: of}, &corev1.Secret{ObjectMeta: of}, &corev1.Secret{ObjectMeta: *token, Type: corev1.SecretTypeOpaque},
		&corev1.Service{ObjectMeta: of, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&networkingv1.Ingress{ObjectMeta: of, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "shop.example.com"}}}},
	}
}

// isOfOthers reports whether the API server has refused what is not a peer's to write. It names one of the
// policies that refuse it: that of cordons is about some of the same labels.
func isOfOthers(err error) bool {
	return apierrors.IsForbidden(err) && slices.ContainsFunc([]string{"longshore-peers", "longshore-cordon"}, func(policy string) bool {
		return strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+policy+"'")
	})
}

func metadataPatch(t *testing.T, field string, value any) client.Patch {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{field: value}})
	require.NoError(t, err)
	return client.RawPatch(types.MergePatchType, patch)
}

func copyOf(object client.Object) client.Object { return object.DeepCopyObject().(client.Object) }

// testOwnership has a peer write what is not its own, with the credentials of its control plane and of
// its virtual kubelets, and then what peers write, be they Longshore's or the reference's.
func (p *provider) testOwnership(t *testing.T, control, kubelet client.Client) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		// The API server takes a moment to learn of the policy.
		return isOfOthers(kubelet.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "early"}}, client.DryRunAll))
	}, established, poll, "the policy is in effect")
	t.Run("requests of the provider", func(t *testing.T) { p.testRequestsOfTheProvider(t, control) })
	t.Run("copies", func(t *testing.T) { p.testCopies(t, control) })
	t.Run("sizes of copies", func(t *testing.T) { p.testSizesOfCopies(t, control) })
	t.Run("sizes of events", func(t *testing.T) { p.testSizesOfEvents(t, kubelet) })
	t.Run("remote namespaces", func(t *testing.T) { p.testReflectedObjects(t, kubelet) })
	t.Run("what a peer needs", func(t *testing.T) { p.testWhatPeersWrite(t, control, kubelet) })
}

// testRequestsOfTheProvider is about what milan asks rome for, as a consumer of rome.
func (p *provider) testRequestsOfTheProvider(t *testing.T, control client.Client) {
	for _, request := range requests("request-of-milan", requestToRome, liqocorev1beta1.ReplicatorFinalizer) {
		require.NoError(t, p.admin.Create(t.Context(), request))
		for what, patch := range map[string]client.Patch{
			"the spec":       client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredMapping":{"bank":"bank-milan"},"class":"other"}}`)),
			"the labels":     metadataPatch(t, "labels", map[string]any{liqocorev1beta1.ReplicationLabel: nil}),
			"to a copy":      metadataPatch(t, "labels", map[string]any{liqocorev1beta1.ReplicationLabel: "false", liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: "rome", liqocorev1beta1.RemoteClusterIDLabel: "rome", liqocorev1beta1.RemoteIDLabel: "milan"}),
			"the finalizers": metadataPatch(t, "finalizers", nil),
		} {
			err := control.Patch(t.Context(), copyOf(request), patch)
			assert.True(t, isOfOthers(err), "%T, change of %s: %v", request, what, err)
		}
		err := control.Delete(t.Context(), copyOf(request))
		assert.True(t, isOfOthers(err), "%T, deletion: %v", request, err)
		err = control.DeleteAllOf(t.Context(), copyOf(request), client.InNamespace(request.GetNamespace()), client.MatchingLabels(requestToRome))
		assert.True(t, isOfOthers(err), "%T, deletion of all: %v", request, err)

		require.NoError(t, p.admin.Get(t.Context(), client.ObjectKeyFromObject(request), request))
		assert.Nil(t, request.GetDeletionTimestamp())
		assert.Equal(t, requestToRome, request.GetLabels())
		require.NoError(t, p.admin.Patch(t.Context(), request, metadataPatch(t, "finalizers", nil)))
		require.NoError(t, p.admin.Delete(t.Context(), request))
	}
}

// testCopies is about copies that could be taken for requests of the provider, or that stay.
func (p *provider) testCopies(t *testing.T, control client.Client) {
	others := map[string]map[string]string{
		"without labels":               {liqocorev1beta1.ReplicatedLabel: "", liqocorev1beta1.ReplicationLabel: ""},
		"of the provider":              {liqocorev1beta1.ReplicatedLabel: "", liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: "rome"},
		"as well of the provider":      {liqocorev1beta1.ReplicationLabel: "true"},
		"to be replicated to itself":   {liqocorev1beta1.RemoteIDLabel: "rome"},
		"that is not quite replicated": {liqocorev1beta1.ReplicatedLabel: "True"},
		"of another consumer":          {liqocorev1beta1.OriginIDLabel: "oslo"},
		"shown for another consumer":   {liqocorev1beta1.RemoteClusterIDLabel: "oslo"},
		"shown for none":               {liqocorev1beta1.RemoteClusterIDLabel: ""},
	}
	for what, changes := range others {
		for _, request := range hostileRequests(labelsOf(copyOfRome, changes)) {
			err := control.Create(t.Context(), request)
			assert.True(t, isOfOthers(err), "%T %s: %v", request, what, err)
		}
	}
	for _, request := range hostileRequests(copyOfRome, "example.com/stays") {
		err := control.Create(t.Context(), request)
		assert.True(t, isOfOthers(err), "%T with a finalizer: %v", request, err)
	}
	for _, request := range requests("copy", copyOfRome) {
		p.createCopy(t, control, request)
		require.NoError(t, p.admin.Patch(t.Context(), copyOf(request), metadataPatch(t, "finalizers", []string{"example.com/of-milan"})))
		for what, patch := range map[string]client.Patch{
			"takes the finalizers away": metadataPatch(t, "finalizers", nil),
			"adds a finalizer":          metadataPatch(t, "finalizers", []string{"example.com/of-milan", "example.com/stays"}),
			"makes it a request":        metadataPatch(t, "labels", map[string]any{liqocorev1beta1.ReplicationLabel: "true"}),
			"sends it to itself":        metadataPatch(t, "labels", map[string]any{liqocorev1beta1.RemoteIDLabel: "rome"}),
			"hides it":                  metadataPatch(t, "labels", map[string]any{liqocorev1beta1.RemoteClusterIDLabel: nil}),
		} {
			err := control.Patch(t.Context(), copyOf(request), patch)
			assert.True(t, isOfOthers(err), "%T, it %s: %v", request, what, err)
		}
		require.NoError(t, control.Delete(t.Context(), copyOf(request)))
		err := control.Patch(t.Context(), copyOf(request), metadataPatch(t, "finalizers", nil))
		assert.True(t, isOfOthers(err), "%T, it ends it before milan does: %v", request, err)
		require.NoError(t, p.admin.Patch(t.Context(), copyOf(request), metadataPatch(t, "finalizers", nil)))
	}
}

// testSizesOfCopies is about copies that would fill the memory of the manager.
func (p *provider) testSizesOfCopies(t *testing.T, control client.Client) {
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprintf("example.com/%d", i)] = "x"
	}
	long := strings.Repeat("x", 254)
	id := liqocorev1beta1.ClusterID(long[:64])
	large := []func(client.Object){
		func(o client.Object) { o.SetLabels(labelsOf(copyOfRome, many)) },
		func(o client.Object) { o.SetAnnotations(many) },
		func(o client.Object) { o.SetAnnotations(map[string]string{"a": strings.Repeat("x", 16385)}) },
		func(o client.Object) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: types.UID(strings.Repeat("1", 1024))}})
		},
		func(o client.Object) { // of a NamespaceMap the CustomResourceDefinition bounds each field
			switch request := o.(type) {
			case *authv1beta1.ResourceSlice:
				request.Spec.Class = authv1beta1.ResourceSliceClass(long)
			case *authv1beta1.Renew:
				request.Spec.PublicKey = bytes.Repeat([]byte("x"), 4096)
			case *offloadingv1beta1.NamespaceMap:
				request.Labels = labelsOf(copyOfRome, many)
			}
		},
		func(o client.Object) {
			switch request := o.(type) {
			case *authv1beta1.ResourceSlice:
				request.Spec.Resources = corev1.ResourceList{corev1.ResourceName(long + long): resource.MustParse("1")}
			case *authv1beta1.Renew:
				request.Spec.ResourceSliceRef = &corev1.LocalObjectReference{Name: long}
			case *offloadingv1beta1.NamespaceMap:
				request.Labels = labelsOf(copyOfRome, many)
			}
		},
		func(o client.Object) {
			switch request := o.(type) {
			case *authv1beta1.ResourceSlice:
				request.Spec.ProviderClusterID = &id
			case *authv1beta1.Renew:
				request.Spec.ConsumerClusterID = id
			case *offloadingv1beta1.NamespaceMap:
				request.Labels = labelsOf(copyOfRome, many)
			}
		},
	}
	for i, change := range large {
		for _, request := range hostileRequests(copyOfRome) {
			change(request)
			err := control.Create(t.Context(), request, client.DryRunAll)
			require.Error(t, err, "%T %d", request, i)
			assert.Regexp(t, "a request .*of a peer|a peer may give no owner to its objects|ClusterID: Too long", err.Error(), "%T %d", request, i)
		}
	}
	for what, fields := range largeManagedFields(authv1beta1.GroupVersion.String()) {
		for _, request := range hostileRequests(copyOfRome)[1:] { // of NamespaceMaps there is one
			request.SetManagedFields(fields)
			err := control.Create(t.Context(), request, client.DryRunAll)
			assert.True(t, isTooLarge(err), "%T, %s: %v", request, what, err)
		}
	}
}

// largeManagedFields are managedFields that the API server would store.
func largeManagedFields(version string) map[string][]metav1.ManagedFieldsEntry {
	of := func(set string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{
			Manager: "x", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: version, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(set),
		}}
	}
	many, deep := "{", strings.Repeat(`{"f:a":`, 3000)+"{}"+strings.Repeat("}", 3000)
	for i := range 20_000 {
		many += fmt.Sprintf(`"f:%d-%s":{},`, i, strings.Repeat("x", 30))
	}
	return map[string][]metav1.ManagedFieldsEntry{
		"a long path": of(`{"f:` + strings.Repeat("x", 16384) + `":{}}`), "many paths": of(strings.TrimSuffix(many, ",") + "}"), "a deep path": of(deep),
	}
}

// isTooLarge reports whether the API server has refused managedFields.
func isTooLarge(err error) bool {
	return err != nil && strings.Contains(err.Error(), "metadata.managedFields of a request, an event or a ShadowEndpointSlice of a peer may have 16384 characters")
}

// testSizesOfEvents is about events that would fill the provider's etcd.
func (p *provider) testSizesOfEvents(t *testing.T, kubelet client.Client) {
	long := strings.Repeat("x", 4097)
	of := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop-rome", Name: name} }
	about := corev1.ObjectReference{Namespace: "shop-rome", Kind: "Pod", Name: "shop"}
	events := map[string]client.Object{
		"a message":      &corev1.Event{ObjectMeta: of("a"), InvolvedObject: about, Message: long},
		"a reason":       &corev1.Event{ObjectMeta: of("a"), InvolvedObject: about, Reason: long},
		"a source":       &corev1.Event{ObjectMeta: of("a"), InvolvedObject: about, Source: corev1.EventSource{Host: long}},
		"an object":      &corev1.Event{ObjectMeta: of("a"), InvolvedObject: corev1.ObjectReference{Namespace: "shop-rome", FieldPath: long}},
		"another object": &corev1.Event{ObjectMeta: of("a"), InvolvedObject: about, Related: &corev1.ObjectReference{Name: long}},
	}
	for what, event := range events {
		err := kubelet.Create(t.Context(), event, client.DryRunAll)
		assert.ErrorContains(t, err, "the message of a peer's event may have 4096 characters", what)
	}
	labeled := &corev1.Event{ObjectMeta: of("a"), InvolvedObject: about}
	labeled.Annotations = map[string]string{"a": strings.Repeat(long, 5)}
	assert.ErrorContains(t, kubelet.Create(t.Context(), labeled, client.DryRunAll), "a request or an event of a peer may have 64 labels")
	generated := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", GenerateName: long}, InvolvedObject: about}
	assert.ErrorContains(t, kubelet.Create(t.Context(), generated, client.DryRunAll), "a request or an event of a peer may have 64 labels")
	for what, fields := range largeManagedFields("v1") {
		event := &corev1.Event{ObjectMeta: of("a"), InvolvedObject: about}
		event.ManagedFields = fields
		err := kubelet.Create(t.Context(), event, client.DryRunAll)
		assert.True(t, isTooLarge(err), "%s: %v", what, err)
	}
	for what, fields := range largeManagedFields(offloadingv1beta1.GroupVersion.String()) {
		slice := &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: of("a")}
		slice.Labels, slice.ManagedFields = maps.Clone(reflectedFromRome), fields
		err := kubelet.Create(t.Context(), slice, client.DryRunAll)
		assert.True(t, isTooLarge(err), "ShadowEndpointSlice, %s: %v", what, err)
	}
	usual := &corev1.Event{
		ObjectMeta: of("a"), InvolvedObject: about, Message: long[1:], Reason: "Failed", Type: "Warning",
		Source: corev1.EventSource{Component: "liqo"}, Series: &corev1.EventSeries{Count: 2},
	}
	assert.NoError(t, kubelet.Create(t.Context(), usual, client.DryRunAll))
}

// testReflectedObjects is about objects in a remote namespace.
func (p *provider) testReflectedObjects(t *testing.T, kubelet client.Client) {
	for what, labels := range map[string]map[string]string{
		"without origin": {"app": "shop"}, "of another": {offloadingv1beta1.OriginLabel: "oslo"}, "of its provider": {offloadingv1beta1.OriginLabel: "milan"},
	} {
		for _, object := range reflected("hostile", labels) {
			if _, isSlice := object.(*offloadingv1beta1.ShadowEndpointSlice); isSlice && what == "without origin" {
				continue
			}
			err := kubelet.Create(t.Context(), object)
			assert.True(t, isOfOthers(err), "%T %s: %v", object, what, err)
		}
	}
	for _, finalizer := range []string{"example.com/stays", "kubernetes.io/pvc-protection", "foregroundDeletion"} {
		for _, object := range reflected("hostile", reflectedFromRome, finalizer) {
			if _, isClaim := object.(*corev1.PersistentVolumeClaim); isClaim && finalizer == "kubernetes.io/pvc-protection" {
				continue
			}
			err := kubelet.Create(t.Context(), object)
			assert.True(t, isOfOthers(err), "%T with %s: %v", object, finalizer, err)
		}
	}
	// The garbage collector, which all users of the cluster share, looks for each owner.
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "1"}
	large := owner
	large.Kind = strings.Repeat("K", 1024)
	for what, owners := range map[string][]metav1.OwnerReference{"an owner": {owner}, "a large one": {large}} {
		for _, object := range append(reflected("mine", reflectedFromRome), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "mine"}, InvolvedObject: corev1.ObjectReference{Namespace: "shop-rome"},
		}) {
			object.SetOwnerReferences(owners)
			assert.ErrorContains(t, kubelet.Create(t.Context(), object, client.DryRunAll), "a peer may give no owner to its objects", "%T with %s", object, what)
		}
	}
	for _, object := range reflected("mine", reflectedFromRome) {
		require.NoError(t, kubelet.Create(t.Context(), object))
		for what, patch := range map[string]client.Patch{
			"hides it":         metadataPatch(t, "labels", map[string]any{offloadingv1beta1.OriginLabel: "oslo"}),
			"adds a finalizer": metadataPatch(t, "finalizers", append([]string{"example.com/stays"}, object.GetFinalizers()...)),
		} {
			err := kubelet.Patch(t.Context(), copyOf(object), patch)
			assert.True(t, isOfOthers(err), "%T, it %s: %v", object, what, err)
		}
		require.NoError(t, kubelet.Delete(t.Context(), object))
	}
	for _, object := range reflected("of-milan", map[string]string{"app": "shop"}) {
		if _, isSlice := object.(*offloadingv1beta1.ShadowEndpointSlice); isSlice {
			continue
		}
		require.NoError(t, p.admin.Create(t.Context(), object), "an administrator needs no origin")
		for what, err := range map[string]error{
			"takes it":   kubelet.Patch(t.Context(), copyOf(object), metadataPatch(t, "labels", reflectedFromRome)),
			"changes it": kubelet.Patch(t.Context(), copyOf(object), metadataPatch(t, "annotations", map[string]string{"a": "b"})),
			"deletes it": kubelet.Delete(t.Context(), copyOf(object)),
		} {
			assert.True(t, isOfOthers(err), "%T of milan, it %s: %v", object, what, err)
		}
		require.NoError(t, p.admin.Delete(t.Context(), object))
	}
}

// testWhatPeersWrite writes as peers do.
func (p *provider) testWhatPeersWrite(t *testing.T, control, kubelet client.Client) {
	for _, request := range requests("accepted", copyOfRome) {
		request.SetAnnotations(map[string]string{"liqo.io/create-virtual-node": "true"})
		p.createCopy(t, control, request)
		// The provider adds its finalizer meanwhile; the replicator sends all of the object that it has read.
		planetest.Until(t, func(t planetest.T) bool {
			require.NoError(t, control.Get(t.Context(), client.ObjectKeyFromObject(request), request))
			switch r := request.(type) {
			case *offloadingv1beta1.NamespaceMap:
				r.Spec.DesiredMapping = map[string]string{"late": "accepted-rome"}
			case *authv1beta1.ResourceSlice:
				r.Spec.Class = "other"
			case *authv1beta1.Renew:
				r.Spec.ConsumerClusterID = "rome"
			}
			err := control.Update(t.Context(), request)
			require.True(t, err == nil || apierrors.IsConflict(err), "%T: %v", request, err)
			return err == nil
		}, established, poll, "%T", request)
		require.NoError(t, control.Delete(t.Context(), request))
		planetest.Until(t, func(t planetest.T) bool {
			return apierrors.IsNotFound(control.Get(t.Context(), client.ObjectKeyFromObject(request), copyOf(request)))
		}, established, poll, "%T", request)
	}
	for _, object := range reflected("accepted", reflectedFromRome) {
		for _, team := range []string{"", "a"} { // created, and then changed
			object.SetAnnotations(map[string]string{"team": team})
			require.NoError(t, kubelet.Apply(t.Context(), p.applyConfiguration(t, object), client.FieldOwner("reflection.liqo.io"), client.ForceOwnership), "%T", object)
		}
		require.NoError(t, kubelet.Delete(t.Context(), copyOf(object)), "%T", object)
	}
	for _, object := range reflected("updated", reflectedFromRome)[:2] {
		require.NoError(t, kubelet.Create(t.Context(), object), "%T", object)
		planetest.Until(t, func(t planetest.T) bool {
			require.NoError(t, kubelet.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			object.SetLabels(labelsOf(object.GetLabels(), map[string]string{"app": "shop"}))
			err := kubelet.Update(t.Context(), object)
			require.True(t, err == nil || apierrors.IsConflict(err), "%T: %v", object, err)
			return err == nil
		}, established, poll, "%T", object)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "updated"}}
	planetest.Until(t, func(t planetest.T) bool {
		return kubelet.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil
	}, established, poll, "the pod of its ShadowPod")
	node := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "worker"}}
	require.NoError(t, p.admin.SubResource("binding").Create(t.Context(), pod, node))
	assert.True(t, isOfOthers(kubelet.Delete(t.Context(), pod, client.GracePeriodSeconds(0))), "by force")
	require.NoError(t, kubelet.Delete(t.Context(), pod, client.GracePeriodSeconds(5)))
	for _, object := range reflected("updated", reflectedFromRome)[:2] {
		require.NoError(t, kubelet.Delete(t.Context(), object), "%T", object)
	}
	// labelsNotReflected may take the origin of these.
	slice := &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "without-origin"}}
	slice.Spec.Template.AddressType = discoveryv1.AddressTypeIPv4
	require.NoError(t, kubelet.Create(t.Context(), slice))
	require.NoError(t, kubelet.Patch(t.Context(), copyOf(slice), metadataPatch(t, "labels", reflectedFromRome)))
	require.NoError(t, kubelet.Delete(t.Context(), slice))
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "accepted"}, InvolvedObject: corev1.ObjectReference{Namespace: "shop-rome"}}
	require.NoError(t, kubelet.Create(t.Context(), event))
	require.NoError(t, kubelet.Delete(t.Context(), event))
	require.NoError(t, kubelet.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "shop-rome", Verb: "get", Resource: "pods"},
	}}), "objects of the cluster are not concerned")
	require.NoError(t, p.admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-rome", Name: "of-milan", Finalizers: []string{"example.com/of-milan"},
	}}, client.DryRunAll), "others are not concerned")
}

// applyConfiguration returns an object for server-side apply.
func (p *provider) applyConfiguration(t *testing.T, object client.Object) runtime.ApplyConfiguration {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)
	applied := &unstructured.Unstructured{Object: content}
	gvk, err := apiutil.GVKForObject(object, p.scheme)
	require.NoError(t, err)
	applied.SetGroupVersionKind(gvk)
	unstructured.RemoveNestedField(applied.Object, "status")
	unstructured.RemoveNestedField(applied.Object, "metadata", "creationTimestamp")
	return client.ApplyConfigurationFromUnstructured(applied)
}
