package namespaceoffloading_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/consumer/namespaceoffloading"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
)

// TestPodsOfOneApplyAreCountedAtARealAPIServer has the rights of the chart, and the API server's own selectors and
// managed fields.
func TestPodsOfOneApplyAreCountedAtARealAPIServer(t *testing.T) {
	connection := planetest.ForTest(t, "rome").RESTConfig()
	planetest.InstallCRDs(t, connection)
	chartrights.Install(t, connection)
	types, err := scheme.New()
	require.NoError(t, err)
	rome, err := client.New(connection, client.Options{Scheme: types})
	require.NoError(t, err)
	manager, err := client.New(chartrights.As(t, connection, chartrights.Namespace, chartrights.Manager), client.Options{Scheme: types})
	require.NoError(t, err)

	const name = "one-apply"
	nso := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: offloadingv1beta1.NamespaceOffloadingName}}
	nso.Spec.PodOffloadingStrategy = offloadingv1beta1.RemotePodOffloadingStrategyType
	virtual := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual}}}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nso, virtual} {
		require.NoError(t, rome.Create(t.Context(), object))
	}
	for pod, node := range map[string]string{"at-home": "worker", "there": virtual.Name} {
		planetest.Until(t, func(planetest.T) bool {
			return rome.Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: pod},
				Spec:       corev1.PodSpec{NodeName: node, AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			}) == nil
		}, 2*time.Minute, 25*time.Millisecond, "the namespace gets its service account")
	}
	recorder := events.NewFakeRecorder(10)
	r := &namespaceoffloading.Reconciler{Client: manager, APIReader: manager, Events: recorder, Clock: clock.RealClock{}, ClusterID: "rome"}
	_, err = r.Reconcile(t.Context(), nso)
	require.NoError(t, err)

	require.NoError(t, rome.Get(t.Context(), client.ObjectKeyFromObject(nso), nso))
	found := meta.FindStatusCondition(nso.Status.Conditions, offloadingv1beta1.PodsFollowStrategyCondition)
	require.NotNil(t, found)
	assert.Equal(t, offloadingv1beta1.CreatedBeforeOffloadingReason, found.Reason)
	assert.Contains(t, found.Message, "although the strategy is Remote: 1;")
	assert.Contains(t, found.Message, "kubectl delete pod -n one-apply at-home")
	assert.Len(t, recorder.Events, 2, "on the NamespaceOffloading and on the pod")

	namespace := &corev1.Namespace{}
	require.NoError(t, rome.Get(t.Context(), client.ObjectKey{Name: name}, namespace))
	assert.False(t, namespaceoffloading.OffloadedAt(namespace, nso).Before(nso.CreationTimestamp.Time))
	assert.NotEqual(t, namespaceoffloading.OffloadedAt(nil, &offloadingv1beta1.NamespaceOffloading{}),
		namespaceoffloading.OffloadedAt(namespace, &offloadingv1beta1.NamespaceOffloading{}), "the managed fields of the namespace tell when its label was set")
}
