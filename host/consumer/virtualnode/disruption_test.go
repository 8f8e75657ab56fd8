package virtualnode

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func TestADisruptionBudgetFollowsTheReplicas(t *testing.T) {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan", UID: "1", Labels: map[string]string{"a": "b"}},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
	}
	c := fakeclient.Builder().Build()
	r := &process{Client: c}
	scale := func(replicas int32) {
		t.Helper()
		deployment.Spec.Replicas = ptr.To(replicas)
		require.NoError(t, r.ensureDisruptionBudget(t.Context(), deployment))
	}
	budget := func() (*policyv1.PodDisruptionBudget, error) {
		found := &policyv1.PodDisruptionBudget{}
		return found, c.Get(t.Context(), client.ObjectKeyFromObject(deployment), found)
	}
	scale(1)
	_, err := budget()
	assert.True(t, apierrors.IsNotFound(err), "one replica has none")

	scale(2)
	found, err := budget()
	require.NoError(t, err)
	assert.Equal(t, 1, found.Spec.MaxUnavailable.IntValue())
	assert.Equal(t, deployment.Spec.Selector, found.Spec.Selector)
	assert.True(t, metav1.IsControlledBy(found, deployment))
	scale(2)

	scale(1)
	_, err = budget()
	assert.True(t, apierrors.IsNotFound(err))

	require.NoError(t, c.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}))
	scale(1)
	_, err = budget()
	assert.NoError(t, err, "an unmanaged budget stays")
}
