package quota

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// goneUser had a ResourceSlice.
const goneUser = "old-a8a4c692b93b"

// podOf returns a pod of one CPU that is being deleted, for a ShadowPod with a UID.
func podOf(user string, owner types.UID, change func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "shop-rome", Labels: map[string]string{offloadingv1beta1.CreatorUserLabel: user},
		DeletionTimestamp: ptr.To(metav1.Unix(1e9, 0)),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: "web", UID: owner, Controller: ptr.To(true),
		}},
	}}
	pod.Spec = shadowPod("web", "1").Spec.Pod
	if change != nil {
		change(&pod)
	}
	return pod
}

func TestWhatAConsumerHasAbandoned(t *testing.T) {
	beyond := observedAs(goneUser, "web", "1")
	beyond.Status.Requests = list("3", 1)
	finished := observedAs(goneUser, "web", "1")
	finished.Status.Phase = corev1.PodSucceeded
	unlabelled := observedAs("", "web", "1")
	for name, tc := range map[string]struct {
		shadow *offloadingv1beta1.ShadowPod
		pods   []corev1.Pod
		want   string
	}{
		"nothing":                                 {want: "0"},
		"a ShadowPod":                             {shadow: observedAs(goneUser, "web", "1"), want: "1"},
		"one whose pod has more":                  {shadow: beyond, want: "3"},
		"one that has finished":                   {shadow: finished, want: "0"},
		"one that a Quota counts":                 {shadow: observedAs(testUser, "web", "1"), want: "0"},
		"one of a time without Quotas":            {shadow: unlabelled, want: "0"},
		"the pod of a deleted one":                {pods: []corev1.Pod{podOf(goneUser, "gone", nil)}, want: "1"},
		"two of them":                             {pods: []corev1.Pod{podOf(goneUser, "gone", nil), podOf(goneUser, "gone-2", nil)}, want: "2"},
		"a ShadowPod and its pod":                 {shadow: observedAs(goneUser, "web", "1"), pods: []corev1.Pod{podOf(goneUser, "old-a8a4c692b93b/web", nil)}, want: "1"},
		"a ShadowPod and the pod before":          {shadow: observedAs(goneUser, "web", "1"), pods: []corev1.Pod{podOf(goneUser, "gone", nil)}, want: "2"},
		"a pod that has ended":                    {pods: []corev1.Pod{podOf(goneUser, "gone", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, want: "0"},
		"a pod that a Quota counts":               {pods: []corev1.Pod{podOf(testUser, "gone", nil)}, want: "0"},
		"a pod that awaits its garbage collector": {pods: []corev1.Pod{podOf(goneUser, "gone", func(p *corev1.Pod) { p.DeletionTimestamp = nil })}, want: "1"},
		"a pod that an administrator has kept": {
			pods: []corev1.Pod{podOf(goneUser, "gone", func(p *corev1.Pod) { p.DeletionTimestamp, p.OwnerReferences = nil, nil })}, want: "0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var shadows []offloadingv1beta1.ShadowPod
			if tc.shadow != nil {
				shadows = append(shadows, *tc.shadow)
			}
			held := abandonedBy(map[string]bool{testUser: true}, shadows, tc.pods)
			assert.Equal(t, tc.want, held.Cpu().String())
		})
	}
}

// A consumer has pods with hundreds of resources that it named, of slices that are gone.
func TestWithin(t *testing.T) {
	held := corev1.ResourceList{"example.com/a": *one(), corev1.ResourceCPU: *one()}
	granted := corev1.ResourceList{corev1.ResourceCPU: *one(), corev1.ResourceMemory: *one()}
	assert.Equal(t, corev1.ResourceList{corev1.ResourceCPU: *one()}, Within(granted, held))
	assert.Len(t, held, 2)
	assert.Empty(t, Within(granted, nil))
	assert.Empty(t, Within(nil, held))
}

func quotaOf(namespace, user string, owner types.UID) *offloadingv1beta1.Quota {
	quota := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: namespace}}
	quota.Spec.User = user
	if owner != "" {
		quota.OwnerReferences = []metav1.OwnerReference{{Kind: "ResourceSlice", UID: owner, Controller: ptr.To(true)}}
	}
	return quota
}

func TestAQuotaCountsWhileItsSliceExists(t *testing.T) {
	existing := []authv1beta1.ResourceSlice{{ObjectMeta: metav1.ObjectMeta{UID: "slice-1"}}}
	counted := countedUsers([]offloadingv1beta1.Quota{
		*quotaOf("liqo-tenant-rome", "one@rome", "slice-1"), *quotaOf("liqo-tenant-rome", "old", "slice-0"),
		*quotaOf("liqo-tenant-rome", "by-hand", ""), *quotaOf("liqo-tenant-oslo", "oslo", "slice-2"),
	}, "liqo-tenant-rome", existing)
	assert.Equal(t, map[string]bool{"one-rome": true, "by-hand": true, "oslo": true}, counted)
}

func TestAbandonedPodsAreThoseOfTheConsumer(t *testing.T) {
	namespaceOf := func(name, peer string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: peer}}}
	}
	in := func(namespace, user, cpu string) *offloadingv1beta1.ShadowPod {
		shadow := shadowPod("web", cpu)
		shadow.Namespace, shadow.UID, shadow.Labels[offloadingv1beta1.CreatorUserLabel] = namespace, types.UID(namespace), user
		return shadow
	}
	c := fakeclient.Builder(
		namespaceOf("liqo-tenant-rome", "rome"), namespaceOf("shop-rome", "rome"), namespaceOf("bank-rome", "rome"),
		namespaceOf("liqo-tenant-oslo", "oslo"), namespaceOf("shop-oslo", "oslo"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		quotaOf("liqo-tenant-rome", "gpu", ""), quotaOf("liqo-tenant-oslo", "oslo", ""), quotaOf("default", "hand", ""),
		in("shop-rome", goneUser, "1"), in("bank-rome", goneUser, "2"), in("shop-oslo", "older", "4"), in("default", goneUser, "8"),
	).Build()
	for name, tc := range map[string]struct{ tenant, user, want string }{
		"in all its namespaces":                 {"liqo-tenant-rome", "gpu", "3"},
		"a user that is about to get its Quota": {"liqo-tenant-rome", goneUser, "0"},
		"another consumer":                      {"liqo-tenant-oslo", "oslo", "4"},
		"a Quota of no consumer":                {"default", "hand", "0"},
		"a namespace that is gone":              {"liqo-tenant-bern", "bern", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			held, err := Abandoned(t.Context(), c, tc.tenant, tc.user)
			require.NoError(t, err)
			assert.Equal(t, tc.want, held.Cpu().String())
		})
	}
	quotas, err := OfConsumer(t.Context(), c, "shop-rome")
	require.NoError(t, err)
	require.Len(t, quotas, 1)
	assert.Equal(t, client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "gpu"}, client.ObjectKeyFromObject(&quotas[0]))
	for _, none := range []string{"default", "liqo-tenant-bern"} {
		quotas, err := OfConsumer(t.Context(), c, none)
		require.NoError(t, err)
		assert.Empty(t, quotas)
	}
}
