package policies_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func TestTheReportOfElectedReplicasHasTheLastOneAsOwner(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "manager-1", UID: "1"}}
	identity := policies.OfElected(fakeclient.Builder(pod).Build(), "manager", client.ObjectKeyFromObject(pod))
	assert.Equal(t, "manager", identity.Name)
	assert.Equal(t, client.ObjectKey{Namespace: "longshore", Name: "manager"}, identity.Object, "all replicas write one object")
	owner, err := identity.Owner(t.Context())
	require.NoError(t, err)
	assert.Equal(t, &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "manager-1", UID: "1"}, owner)

	outside := policies.OfElected(fakeclient.Builder().Build(), "manager", client.ObjectKey{Namespace: "longshore"})
	assert.Nil(t, outside.Owner)
}
