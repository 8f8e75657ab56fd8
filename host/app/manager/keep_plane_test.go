package manager_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/forge/provider"
)

// keptObjects are what the consumer rome, and an administrator of the provider, have in a namespace. The API
// server refuses some of what rome has, but did not always.
func keptObjects(namespace string) (deleted, kept []client.Object) {
	meta := func(name, origin string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: namespace, Name: name}
		if origin != "" {
			m.Labels = map[string]string{offloadingv1beta1.OriginLabel: origin}
		}
		return m
	}
	claim := func(name, policy string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: meta(name, "rome"), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}
		c.Annotations = map[string]string{offloadingv1beta1.ReclaimPolicyAnnotation: policy}
		return c
	}
	backend := networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: meta("web", "rome")}
	shadow.Spec.Pod.Containers = []corev1.Container{{Name: "web", Image: "example.com/web:1"}}
	held := shadow.DeepCopy()
	held.Name, held.Finalizers = "held", []string{"example.com/stays"}
	token := &corev1.Secret{ObjectMeta: meta("of-a-service-account", ""), Type: corev1.SecretTypeServiceAccountToken}
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	deleted = []client.Object{
		shadow, held, token, &corev1.ConfigMap{ObjectMeta: meta("settings", "rome")}, &corev1.Secret{ObjectMeta: meta("password", "rome")},
		&corev1.Service{ObjectMeta: meta("web", "rome"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&networkingv1.Ingress{ObjectMeta: meta("web", "rome"), Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &backend}}},
		&offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: meta("web", "rome"), Spec: offloadingv1beta1.ShadowEndpointSliceSpec{
			Template: offloadingv1beta1.EndpointSliceTemplate{AddressType: "IPv4"},
		}},
		claim("scratch", "Delete"),
	}
	return deleted, []client.Object{claim("data", "Retain"), &corev1.ConfigMap{ObjectMeta: meta("of-milan", "")}}
}

// A remote namespace that the provider keeps loses the objects of the consumer, with the rights that
// the chart grants the manager.
func TestAKeptNamespaceIsCleanedUpOnARealAPIServer(t *testing.T) {
	plane := planetest.ForTest(t, "milan")
	connection := plane.RESTConfig()
	milan := consumerOf(t, connection)
	create := func(objects ...client.Object) {
		t.Helper()
		for _, object := range objects {
			require.NoError(t, milan.Create(t.Context(), object), "%T %s", object, object.GetName())
		}
	}
	nm := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan", Labels: map[string]string{"liqo.io/originID": "rome", "liqo.io/replicated": "true"}},
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome"}},
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: nm.Namespace, Labels: map[string]string{"liqo.io/remote-cluster-id": "rome", "liqo.io/tenant-namespace": "true"},
	}}, nm)
	app, err := manager.New(manager.Options{
		ShadowPodWorkers: 1, ShadowEndpointSliceWorkers: 1,
		ConsumerLimits: `{"perNamespace": {"services": 5, "services.nodeports": 2, "configmaps": 10}, "perConsumer": {"services.nodeports": 2}}`,
		Options:        process.Options{Config: asManager(t, connection), ClusterID: "milan", Namespace: "longshore", MetricsAddress: "0", HealthProbeAddress: "0"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(t, app.Run(ctx)) })
	t.Cleanup(func() { cancel(); done.Wait() })
	phase := func(t planetest.T) offloadingv1beta1.MappingPhase {
		require.NoError(t, milan.Get(t.Context(), client.ObjectKeyFromObject(nm), nm))
		return nm.Status.CurrentMapping["shop"].Phase
	}
	planetest.Until(t, func(t planetest.T) bool { return phase(t) == offloadingv1beta1.MappingAccepted }, soon, tick)

	// The consumer creates its objects with its own rights, which end with the mapping.
	asRome := rest.CopyConfig(connection)
	asRome.Impersonate = rest.ImpersonationConfig{UserName: "virtual-kubelet", Groups: []string{"rome"}}
	rome, err := client.New(asRome, client.Options{Scheme: milan.Scheme()})
	require.NoError(t, err)
	deleted, kept := keptObjects("shop-rome")
	for _, object := range deleted {
		planetest.Until(t, func(t planetest.T) bool {
			return rome.Create(t.Context(), object.DeepCopyObject().(client.Object)) == nil
		}, soon, tick, "%T", object)
	}
	takesNoMorePorts(t, rome)
	create(kept...)
	deleted = append(deleted, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "held"}})
	planetest.Until(t, func(t planetest.T) bool { return !isGone(t, milan, deleted[len(deleted)-1]) }, soon, tick, "the pod of the ShadowPod runs")
	keep := func(value string) {
		t.Helper()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}}
		patch := `{"metadata":{"annotations":{"` + offloadingv1beta1.KeepNamespaceAnnotation + `":` + value + `}}}`
		require.NoError(t, milan.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	keep(`"true"`)
	// The manager may see the mapping before the annotation: its caches are not in order.
	require.NoError(t, milan.Patch(t.Context(), nm, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredMapping":null}}`))))
	planetest.Until(t, func(t planetest.T) bool { return phase(t) == "" }, soon, tick, "the consumer does not wait")
	for _, object := range deleted {
		planetest.Until(t, func(t planetest.T) bool { return isGone(t, milan, object) }, soon, tick, "%T %s is gone", object, object.GetName())
	}
	for _, object := range kept {
		require.NoError(t, milan.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		assert.Nil(t, object.GetDeletionTimestamp())
	}
	planetest.Until(t, func(t planetest.T) bool {
		return apierrors.IsForbidden(rome.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", GenerateName: "late-"}}, client.DryRunAll))
	}, soon, tick, "the consumer has no access")

	keep("null")
	planetest.Until(t, func(t planetest.T) bool {
		namespace := &corev1.Namespace{}
		err := milan.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, namespace)
		return apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil
	}, soon, tick, "without the annotation the namespace is deleted")
}

// takesNoMorePorts holds that the ResourceQuota of the namespace shop-rome is in effect, and that the
// consumer cannot change it.
func takesNoMorePorts(t *testing.T, rome client.Client) {
	t.Helper()
	service := func(ports int32) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", GenerateName: "ports-"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}}
		for i := range ports {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: 80 + i})
		}
		return s
	}
	err := rome.Create(t.Context(), service(3))
	require.ErrorContains(t, err, "exceeded quota: "+provider.QuotaName)
	require.NoError(t, rome.Create(t.Context(), service(2), client.DryRunAll))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: provider.QuotaName}}
	assert.True(t, apierrors.IsForbidden(rome.Delete(t.Context(), quota)))
	assert.True(t, apierrors.IsForbidden(rome.Patch(t.Context(), quota, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":null}}`)))))
}

func isGone(t planetest.T, c client.Client, object client.Object) bool {
	err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	require.NoError(t, client.IgnoreNotFound(err))
	return apierrors.IsNotFound(err)
}
