package rig_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/churn"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

const (
	disturbed       = "disturbed"
	disturbedRemote = disturbed + "-rome"
	thief           = "thief"
	// remoteVolumes is the number of volumes of the provider; the test plane creates none.
	remoteVolumes = 12
	// leaseInUse is how long ago a lease in use was renewed at most: its holder may just have been killed.
	leaseInUse = 30 * time.Second
)

// createStorage gives the provider a storage class with volumes.
func createStorage(t *testing.T, r *rig.Rig) {
	t.Helper()
	require.NoError(t, r.Milan.Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "kubernetes.io/no-provisioner",
	}))
	for i := range remoteVolumes {
		require.NoError(t, r.Milan.Create(t.Context(), &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("standard-%02d", i)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: oneGiB(), StorageClassName: "standard", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: fmt.Sprintf("/data/%02d", i)}},
			},
		}))
	}
}

func oneGiB() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

// disturbance changes what the workload of package churn does not: claims with their pods, and an
// event of a remote pod.
type disturbance struct {
	*rig.Rig

	rounds, events int
}

// disturbedInTurn kills each process of Longshore in both clusters, one after the other, and then takes
// all their leases, while objects of all kinds change. Afterwards both clusters agree, and no remote pod
// was replaced.
func disturbedInTurn(t *testing.T, r *rig.Rig) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d := &disturbance{Rig: r}
	require.NoError(t, r.Rome.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: disturbed}}))
	require.NoError(t, r.Rome.Offload(ctx, disturbed, offloadingv1beta1.RemotePodOffloadingStrategyType, quiet))
	milan, err := client.NewWithWatch(r.Milan.Config, client.Options{Scheme: r.Milan.Scheme()})
	require.NoError(t, err)
	seen := churn.WatchRemotePods(t, milan, remote.LocalPodUIDAnnotation, client.InNamespace(disturbedRemote))
	kept := disturbedPod(disturbed, "kept")
	createPod(t, r, kept)
	eventually(t, "the pod runs in the provider", func(t planetest.T) bool {
		return r.Milan.Get(t.Context(), client.ObjectKey{Namespace: disturbedRemote, Name: kept.Name}, &corev1.Pod{}) == nil
	})

	churning, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	work := &churn.Workload{
		Client: r.Rome.Client, Namespace: disturbed, Seed: uint64(time.Now().UnixNano()), Pause: 400 * time.Millisecond,
		Pod: disturbedPod, IsTransient: isWebhookAway,
	}
	t.Logf("seed %d", work.Seed)
	go func() { ended <- work.Run(churning, 1<<30) }()
	began := time.Now()
	for _, process := range d.processes(t) {
		t.Logf("%5.1fs: killing %s of %s", time.Since(began).Seconds(), process.pod.Name, process.cluster.Name)
		d.round(t)
		d.countEvent(t)
		process.kill(t)
	}
	d.round(t)
	d.countEvent(t) // The count is reflected at most every 30 seconds.
	t.Logf("%5.1fs: taking the leases", time.Since(began).Seconds())
	d.takeLeases(t)
	d.round(t)
	stop()
	require.NoError(t, <-ended)
	t.Logf("%5.1fs: the workload has ended", time.Since(began).Seconds())

	d.awaitAgreement(t)
	t.Logf("%5.1fs: both clusters agree", time.Since(began).Seconds())
	seen.AssertOneEach(t)
	assert.Greater(t, seen.Len(), d.rounds, "pods were created meanwhile")
	require.NoError(t, r.Rome.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: disturbed}}))
	eventually(t, "the namespaces are gone", func(t planetest.T) bool {
		err := r.Milan.Get(t.Context(), client.ObjectKey{Name: disturbedRemote}, &corev1.Namespace{})
		return apierrors.IsNotFound(err) && isGone(t, r, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: disturbed}})
	})
}

func disturbedPod(namespace, name string) *corev1.Pod {
	p := pod(name)
	p.Namespace, p.Spec.Containers[0].Name = namespace, "web"
	return p
}

// isWebhookAway reports whether a pod was refused because the webhook did not answer.
func isWebhookAway(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

// round creates a claim with its pod, and deletes those of an earlier round.
func (d *disturbance) round(t *testing.T) {
	t.Helper()
	class, name := "liqo", fmt.Sprintf("claim-%d", d.rounds)
	require.NoError(t, d.Rome.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: disturbed, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: oneGiB()},
		},
	}))
	writer := disturbedPod(disturbed, name)
	writer.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}}}
	createPod(t, d.Rig, writer)
	if d.rounds > 1 {
		earlier := metav1.ObjectMeta{Namespace: disturbed, Name: fmt.Sprintf("claim-%d", d.rounds-2)}
		require.NoError(t, d.Rome.Delete(t.Context(), &corev1.Pod{ObjectMeta: earlier}))
		require.NoError(t, d.Rome.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: earlier}))
	}
	d.rounds++
}

// countEvent counts an event of a remote pod up.
func (d *disturbance) countEvent(t *testing.T) {
	t.Helper()
	d.events++
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: disturbedRemote, Name: "kept.backoff"}}
	err := d.Milan.Get(t.Context(), client.ObjectKeyFromObject(event), event)
	require.NoError(t, client.IgnoreNotFound(err))
	event.Count, event.LastTimestamp, event.Type, event.Reason = int32(d.events), metav1.Now(), corev1.EventTypeWarning, "BackOff"
	event.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: disturbedRemote, Name: "kept"}
	if apierrors.IsNotFound(err) {
		require.NoError(t, d.Milan.Create(t.Context(), event))
		return
	}
	require.NoError(t, d.Milan.Update(t.Context(), event))
}

// ownProcess is a process of Longshore.
type ownProcess struct {
	cluster *rig.Cluster
	pod     corev1.Pod
}

// disturbedNamespaces are those with processes and leases of Longshore.
func (d *disturbance) disturbedNamespaces() map[*rig.Cluster][]string {
	return map[*rig.Cluster][]string{d.Rome: {rig.Namespace, rig.Pair.ConsumerTenant()}, d.Milan: {rig.Namespace}}
}

func (d *disturbance) processes(t *testing.T) []ownProcess {
	t.Helper()
	var all []ownProcess
	for cluster, namespaces := range d.disturbedNamespaces() {
		for _, namespace := range namespaces {
			for _, p := range pods(t, cluster, namespace, nil) {
				if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp.IsZero() {
					all = append(all, ownProcess{cluster, p})
				}
			}
		}
	}
	require.GreaterOrEqual(t, len(all), 5, "manager (with the replicator) and webhook of both clusters, and a virtual kubelet")
	return all
}

// kill kills the process and waits until its container runs again.
func (p *ownProcess) kill(t *testing.T) {
	t.Helper()
	before := p.pod.Status.ContainerStatuses[0]
	var pid int
	_, err := fmt.Sscanf(before.ContainerID, "process://%d", &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, p.pod.Name+" of "+p.cluster.Name+" runs again", func(t planetest.T) bool {
		now := &corev1.Pod{}
		require.NoError(t, p.cluster.Get(t.Context(), client.ObjectKeyFromObject(&p.pod), now))
		return now.Status.ContainerStatuses[0].RestartCount > before.RestartCount && ready(now)
	})
}

// takeLeases gives all leases in use to a holder that does not renew them, and waits until each has another.
func (d *disturbance) takeLeases(t *testing.T) {
	t.Helper()
	type lease struct {
		cluster *rig.Cluster
		object  coordinationv1.Lease
	}
	var taken []lease
	for cluster, namespaces := range d.disturbedNamespaces() {
		for _, namespace := range namespaces {
			list := &coordinationv1.LeaseList{}
			require.NoError(t, cluster.List(t.Context(), list, client.InNamespace(namespace)))
			for i := range list.Items {
				object := &list.Items[i]
				now := metav1.NowMicro()
				if object.Spec.RenewTime == nil || now.Sub(object.Spec.RenewTime.Time) > leaseInUse {
					continue // of a virtual node that an earlier step deleted
				}
				before := object.DeepCopy()
				object.Spec.HolderIdentity, object.Spec.RenewTime, object.Spec.AcquireTime = ptr.To(thief), &now, &now
				require.NoError(t, cluster.Patch(t.Context(), object, client.MergeFrom(before)))
				taken = append(taken, lease{cluster, *object})
			}
		}
	}
	require.GreaterOrEqual(t, len(taken), 3, "managers of both clusters, and a virtual kubelet")
	for i := range taken {
		eventually(t, "lease "+taken[i].object.Name+" of "+taken[i].cluster.Name+" has a holder that renews it", func(t planetest.T) bool {
			now := &coordinationv1.Lease{}
			require.NoError(t, taken[i].cluster.Get(t.Context(), client.ObjectKeyFromObject(&taken[i].object), now))
			return ptr.Deref(now.Spec.HolderIdentity, thief) != thief
		})
	}
}

// awaitAgreement waits until both clusters have the same objects.
func (d *disturbance) awaitAgreement(t *testing.T) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		remotes := churn.Contents(t, d.Milan, disturbedRemote)
		maps.DeleteFunc(remotes, func(key string, _ any) bool { // The tokens of pods have no local object.
			name, isSecret := strings.CutPrefix(key, "Secret ")
			return isSecret && remote.TokenSecretPod(name, func() metav1.Object { return nil }) != ""
		})
		require.Equal(t, churn.Contents(t, d.Rome, disturbed), remotes)
		return true
	}, patience, every, "the same mirrored objects")
	planetest.Until(t, func(t planetest.T) bool {
		locals, remotes := map[string]types.UID{}, map[string]types.UID{}
		for _, p := range pods(t, d.Rome, disturbed, nil) {
			require.Equal(t, corev1.PodRunning, p.Status.Phase, "local pod %s", p.Name)
			locals[p.Name] = p.UID
		}
		for _, p := range pods(t, d.Milan, disturbedRemote, nil) {
			require.Equal(t, corev1.PodRunning, p.Status.Phase, "remote pod %s", p.Name)
			remotes[p.Name] = types.UID(p.Annotations[remote.LocalPodUIDAnnotation])
		}
		require.Equal(t, locals, remotes)
		return true
	}, patience, every, "the same pods, which run")
	planetest.Until(t, func(t planetest.T) bool {
		locals, remotes := d.claims(t, d.Rome, disturbed), d.claims(t, d.Milan, disturbedRemote)
		require.Len(t, locals, 2, "those of the last rounds")
		require.Equal(t, locals, remotes)
		return true
	}, patience, every, "the same claims, which are bound")
	planetest.Until(t, func(t planetest.T) bool {
		event := &corev1.Event{}
		require.NoError(t, d.Rome.Get(t.Context(), client.ObjectKey{Namespace: disturbed, Name: "kept.backoff"}, event))
		return event.Count == int32(d.events)
	}, patience, every, "the event with its count")
}

// claims returns the phases of the claims of a namespace by name. A claim that is being deleted counts.
func (d *disturbance) claims(t planetest.T, cluster *rig.Cluster, namespace string) map[string]corev1.PersistentVolumeClaimPhase {
	t.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	require.NoError(t, cluster.List(t.Context(), list, client.InNamespace(namespace)))
	phases := map[string]corev1.PersistentVolumeClaimPhase{}
	for i := range list.Items {
		require.Equal(t, corev1.ClaimBound, list.Items[i].Status.Phase, list.Items[i].Name)
		phases[list.Items[i].Name] = list.Items[i].Status.Phase
	}
	return phases
}
