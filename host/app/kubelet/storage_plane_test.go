package kubelet_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/storage"
	"github.com/longshore-dev/longshore/host/kit/events"
)

// storageClass is a class; its provisioner is that of volumes which exist, unless it is virtual.
func storageClass(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

// volumes are volumes of a class that claims are bound to: there is no provisioner in the planes.
func volumes(class string, n int) []client.Object {
	var all []client.Object
	for i := range n {
		all = append(all, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: class + "-" + strconv.Itoa(i)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, StorageClassName: class,
				AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data/" + class + strconv.Itoa(i)}},
			},
		})
	}
	return all
}

// statefulSet has one pod, with a claim, on the nodes of a selector.
func statefulSet(name, class string, selector map[string]string, annotations map[string]string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labels}, Replicas: ptr.To[int32](1),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: selector, TerminationGracePeriodSeconds: new(int64), Tolerations: webPod().Spec.Tolerations,
					Containers: []corev1.Container{{
						Name: "db", Image: "example.com/db:1", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data", Annotations: annotations},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
		},
	}
}

// runStorage runs the consumer's controllers of claims and volumes.
func (r *rig) runStorage() {
	r.t.Helper()
	mgr, err := ctrl.NewManager(r.asManager(r.consumer), ctrl.Options{
		Scheme: r.runtimeTypes, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(r.t, err)
	require.NoError(r.t, (&storage.Claims{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: events.New(mgr, "longshore-manager", time.Now), RealClass: "disk", Namespace: "liqo-storage",
	}).SetupWithManager(mgr))
	require.NoError(r.t, (&storage.Volumes{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Namespace: "liqo-storage"}).SetupWithManager(mgr))
	r.background(mgr.Start)
}

// newStorageRig is a rig with storage classes, where pods are scheduled to the virtual node, which
// offers the class "standard", and to the node rome-worker.
func newStorageRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.runManager()
	r.runApprover()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	planetest.SimulateNodes(t, r.consumer, "rome-worker")
	r.create(r.milan, storageClass("standard", "kubernetes.io/no-provisioner", storagev1.VolumeBindingImmediate))
	r.create(r.milan, volumes("standard", 4)...)
	r.create(r.rome,
		storageClass("disk", "kubernetes.io/no-provisioner", storagev1.VolumeBindingImmediate),
		storageClass("liqo", offloadingv1beta1.StorageProvisioner, storagev1.VolumeBindingWaitForFirstConsumer))
	r.create(r.rome, volumes("disk", 2)...)
	vn := virtualNode()
	vn.Spec.StorageClasses = []authv1beta1.StorageType{{StorageClassName: "standard", Default: true}}
	r.create(r.rome, vn, r.secret(r.kubeconfig))
	r.mapNamespace()
	r.runStorage()
	options := r.options()
	options.EnableStorage, options.RemoteRealStorageClassName = true, "standard"
	r.runKubelet(options)
	return r
}

// until waits for a condition of an object.
func until[T client.Object](t *testing.T, c client.Client, namespace, name string, object T, what string, ok func(T) bool) T {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
		if err != nil {
			require.True(t, apierrors.IsNotFound(err), "%v", err)
		}
		return err == nil && ok(object)
	}, soon, tick, what)
	return object
}

// untilGone waits until an object does not exist.
func untilGone(t *testing.T, c client.Client, namespace, name string, object client.Object) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
	}, soon, tick, "%T %s is gone", object, name)
}

func isRunning(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

func isBound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == corev1.ClaimBound
}

var onVirtualNodes = map[string]string{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual}

// StatefulSets with claims run on virtual nodes and on others, their data stays where it is, and
// is deleted by the reclaim policy only.
func TestVolumesOfStatefulSets(t *testing.T) {
	t.Parallel()
	r := newStorageRig(t)
	t.Run("the volume of a pod on a virtual node is in the provider", func(t *testing.T) { r.testRemoteVolume(t) })
	t.Run("a volume with policy Delete is deleted with its claim", func(t *testing.T) { r.testDeletePolicy(t) })
	t.Run("a volume with policy Retain is not deleted, and can be used again", func(t *testing.T) { r.testRetainPolicy(t) })
	t.Run("an ephemeral volume is in the provider, and goes with its pod", func(t *testing.T) { r.testEphemeralVolume(t) })
	t.Run("the volume of a pod on another node is in the consumer", func(t *testing.T) { r.testLocalVolume(t) })
	t.Run("claims that cannot work are refused with an event", func(t *testing.T) { r.testRefusedClaims(t) })
}

func (r *rig) testRemoteVolume(t *testing.T) {
	r.create(r.rome, statefulSet("db", "liqo", onVirtualNodes, nil))
	pod := until(t, r.rome, "shop", "db-0", &corev1.Pod{}, "the pod runs", isRunning)
	assert.Equal(t, nodeName, pod.Spec.NodeName)
	claim := until(t, r.rome, "shop", "data-db-0", &corev1.PersistentVolumeClaim{}, "the claim is bound", isBound)
	volume := &corev1.PersistentVolume{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Name: "pvc-" + string(claim.UID)}, volume))
	assert.Equal(t, volume.Name, claim.Spec.VolumeName)
	assert.Equal(t, "milan", volume.Labels[offloadingv1beta1.StorageClusterLabel])

	remoteClaim := until(t, r.milan, "shop-rome", "data-db-0", &corev1.PersistentVolumeClaim{}, "the remote claim is bound", isBound)
	assert.Equal(t, "standard", *remoteClaim.Spec.StorageClassName)
	assert.Equal(t, "Delete", remoteClaim.Annotations[offloadingv1beta1.ReclaimPolicyAnnotation])
	assert.NotContains(t, remoteClaim.Labels, offloadingv1beta1.RemoteClaimLabel)
	remotePod := until(t, r.milan, "shop-rome", "db-0", &corev1.Pod{}, "the remote pod runs", isRunning)
	assert.Equal(t, "data-db-0", remotePod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)

	// Another pod of the claim follows the data, although it could be scheduled elsewhere.
	set := &appsv1.StatefulSet{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "db"}, set))
	before := set.DeepCopy()
	set.Spec.Template.Spec.NodeSelector = nil
	// The controllers write the status meanwhile: a patch does not conflict.
	require.NoError(t, r.rome.Patch(t.Context(), set, client.MergeFrom(before)))
	again := until(t, r.rome, "shop", "db-0", &corev1.Pod{}, "another pod runs", func(p *corev1.Pod) bool { return p.UID != pod.UID && isRunning(p) })
	assert.Equal(t, nodeName, again.Spec.NodeName)
	same := &corev1.PersistentVolumeClaim{}
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(remoteClaim), same))
	assert.Equal(t, remoteClaim.UID, same.UID)
}

// remove deletes a StatefulSet and its claim.
func (r *rig) remove(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, r.rome.Delete(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}))
	require.NoError(t, r.rome.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-" + name + "-0"}}))
	require.NoError(t, client.IgnoreNotFound(r.rome.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name + "-0"}})))
	untilGone(t, r.rome, "shop", "data-"+name+"-0", &corev1.PersistentVolumeClaim{})
}

func (r *rig) testDeletePolicy(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data-db-0"}, claim))
	r.remove(t, "db")
	err := r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "data-db-0"}, &corev1.PersistentVolumeClaim{})
	assert.True(t, apierrors.IsNotFound(err), "the remote claim is deleted before the claim: %v", err)
	untilGone(t, r.rome, "", claim.Spec.VolumeName, &corev1.PersistentVolume{})
}

func (r *rig) testRetainPolicy(t *testing.T) {
	r.create(r.rome, statefulSet("kept", "liqo", onVirtualNodes, nil))
	until(t, r.rome, "shop", "kept-0", &corev1.Pod{}, "the pod runs", isRunning)
	claim := until(t, r.rome, "shop", "data-kept-0", &corev1.PersistentVolumeClaim{}, "the claim is bound", isBound)
	volume := &corev1.PersistentVolume{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume))
	before := volume.DeepCopy()
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	require.NoError(t, r.rome.Patch(t.Context(), volume, client.MergeFrom(before)))
	remoteClaim := until(t, r.milan, "shop-rome", "data-kept-0", &corev1.PersistentVolumeClaim{}, "the remote claim has the policy",
		func(c *corev1.PersistentVolumeClaim) bool {
			return c.Annotations[offloadingv1beta1.ReclaimPolicyAnnotation] == "Retain"
		})
	r.remove(t, "kept")
	until(t, r.rome, "", volume.Name, volume, "the volume is released", func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeReleased })
	kept := &corev1.PersistentVolumeClaim{}
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(remoteClaim), kept))
	assert.Equal(t, remoteClaim.UID, kept.UID)
	assert.Nil(t, kept.DeletionTimestamp)

	// A claim of the same name that names the volume gets the data.
	require.NoError(t, r.rome.Patch(t.Context(), volume, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"claimRef":null}}`))))
	again := statefulSet("kept", "liqo", onVirtualNodes, nil)
	newClaim := again.Spec.VolumeClaimTemplates[0].DeepCopy()
	newClaim.Namespace, newClaim.Name, newClaim.Spec.VolumeName = "shop", "data-kept-0", volume.Name
	r.create(r.rome, newClaim, again)
	until(t, r.rome, "shop", "kept-0", &corev1.Pod{}, "the pod runs again", isRunning)
	until(t, r.milan, "shop-rome", "data-kept-0", kept, "the remote claim is that of the new claim", func(c *corev1.PersistentVolumeClaim) bool {
		return c.UID == remoteClaim.UID && c.Annotations[offloadingv1beta1.ClaimUIDAnnotation] == string(newClaim.UID)
	})
}

// testEphemeralVolume is for KEP-1698: the controllers of the consumer own the claim.
func (r *rig) testEphemeralVolume(t *testing.T) {
	set := statefulSet("batch", "liqo", onVirtualNodes, nil)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "batch"}, Spec: set.Spec.Template.Spec}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: set.Spec.VolumeClaimTemplates[0].Spec},
	}}}}
	r.create(r.rome, pod)
	until(t, r.rome, "shop", "batch", &corev1.Pod{}, "the pod runs", isRunning)
	remoteClaim := until(t, r.milan, "shop-rome", "batch-data", &corev1.PersistentVolumeClaim{}, "the remote claim is bound", isBound)
	assert.Equal(t, "standard", *remoteClaim.Spec.StorageClassName)
	assert.Empty(t, remoteClaim.OwnerReferences, "no controller of the provider made it")
	require.NoError(t, r.rome.Delete(t.Context(), pod))
	untilGone(t, r.milan, "shop-rome", "batch-data", &corev1.PersistentVolumeClaim{})
	untilGone(t, r.rome, "shop", "batch-data", &corev1.PersistentVolumeClaim{})
}

func (r *rig) testLocalVolume(t *testing.T) {
	r.create(r.rome, statefulSet("near", "liqo", map[string]string{corev1.LabelHostname: "rome-worker"}, nil))
	until(t, r.rome, "shop", "near-0", &corev1.Pod{}, "the pod runs", isRunning)
	claim := until(t, r.rome, "shop", "data-near-0", &corev1.PersistentVolumeClaim{}, "the claim is bound", isBound)
	volume := &corev1.PersistentVolume{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume))
	assert.True(t, strings.HasPrefix(volume.Spec.HostPath.Path, "/data/disk"), volume.Spec.HostPath.Path)
	realClaim := &corev1.PersistentVolumeClaim{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: "liqo-storage", Name: string(claim.UID)}, realClaim))
	err := r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "data-near-0"}, &corev1.PersistentVolumeClaim{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
	r.remove(t, "near")
	untilGone(t, r.rome, "", volume.Name, volume)
	untilGone(t, r.rome, "liqo-storage", realClaim.Name, realClaim)
}

// eventOf reports whether an event with a reason is on a claim.
func (r *rig) eventOf(ctx context.Context, claim, reason string) bool {
	list := &eventsv1.EventList{}
	if r.rome.List(ctx, list, client.InNamespace("shop")) != nil {
		return false
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Kind == "PersistentVolumeClaim" && e.Regarding.Name == claim && e.Reason == reason {
			return true
		}
	}
	return false
}

func (r *rig) testRefusedClaims(t *testing.T) {
	r.create(r.rome, statefulSet("gold", "liqo", onVirtualNodes, map[string]string{offloadingv1beta1.RemoteStorageClassAnnotation: "gold"}))
	r.create(r.rome, statefulSet("modes", "liqo", onVirtualNodes, map[string]string{offloadingv1beta1.RemoteAccessModesAnnotation: "ReadWriteTwice"}))
	r.create(r.milan, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "data-taken-0"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("none"),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}})
	r.create(r.rome, statefulSet("taken", "liqo", onVirtualNodes, nil))
	for claim, reason := range map[string]string{"data-gold-0": "ReschedulingRequired", "data-modes-0": "ProvisioningFailed", "data-taken-0": "FailedReflection"} {
		planetest.Until(t, func(t planetest.T) bool { return r.eventOf(t.Context(), claim, reason) }, soon, tick, "%s has an event", claim)
		pending := &corev1.PersistentVolumeClaim{}
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: claim}, pending))
		assert.Empty(t, pending.Spec.VolumeName, claim)
	}
}
