package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/planner"
)

// onNode are the pods of a Deployment, of another one, and one that has ended.
const onNode = `{"items":[
	{"metadata":{"name":"web-7b7d9d77d9-a","namespace":"shop","labels":{"pod-template-hash":"7b7d9d77d9"},"ownerReferences":[{"kind":"ReplicaSet","name":"web-7b7d9d77d9","controller":true}]},
	 "spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"2"}}}]}},
	{"metadata":{"name":"web-7b7d9d77d9-b","namespace":"shop","labels":{"pod-template-hash":"7b7d9d77d9"},"ownerReferences":[{"kind":"ReplicaSet","name":"web-7b7d9d77d9","controller":true}]},
	 "spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"1"}}}]}},
	{"metadata":{"name":"db-0","namespace":"shop","ownerReferences":[{"kind":"StatefulSet","name":"db","controller":true}]},
	 "spec":{"containers":[{"name":"db","resources":{"requests":{"cpu":"4"}}}]}},
	{"metadata":{"name":"job","namespace":"shop"},"spec":{"containers":[{"name":"job","resources":{"requests":{"cpu":"8"}}}]},"status":{"phase":"Succeeded"}}]}`

func TestThePodsOfPlannedWorkloadsAreReadApart(t *testing.T) {
	l := &Live{reader: &pages{answers: []string{onNode}}}
	web := planner.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"}
	f := &planner.Facts{Requested: map[string]corev1.ResourceList{}}
	require.NoError(t, l.readRequested(t.Context(), f, []string{"milan"}, map[planner.Workload]bool{web: true}))
	assert.Equal(t, "7", quantity(f.Requested["milan"], corev1.ResourceCPU))
	assert.Equal(t, "3", quantity(f.Requested["milan"], corev1.ResourcePods))
	require.Len(t, f.Replaced, 1, "only the pods of planned workloads are counted")
	assert.Equal(t, "3", quantity(f.Replaced[web]["milan"], corev1.ResourceCPU))
	assert.Equal(t, "2", quantity(f.Replaced[web]["milan"], corev1.ResourcePods))
}

func quantity(list corev1.ResourceList, name corev1.ResourceName) string {
	found := list[name]
	return found.String()
}

func TestThePodsOfAVirtualNodeInTheFilesCount(t *testing.T) {
	answers := []string{
		`{"items":[{"metadata":{"name":"rome"},"data":{"CLUSTER_ID":"rome"}}]}`, `{}`, `{}`, `{}`,
		`{"items":[{"metadata":{"name":"milan"},"spec":{"clusterID":"milan"}}]}`, `{"items":[{"metadata":{"name":"milan"}}]}`, `{}`, onNode,
	}
	l, f := &Live{reader: &pages{answers: answers}}, newFacts("shop", true)
	vn := &offloadingv1beta1.VirtualNode{}
	vn.Name, vn.Namespace = "milan", "tenant"
	require.NoError(t, l.read(t.Context(), f, []runtime.Object{vn}))
	assert.Equal(t, "7", quantity(f.Requested["milan"], corev1.ResourceCPU))
}
