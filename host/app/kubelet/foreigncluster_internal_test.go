package kubelet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/custom"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

// cachingManager is a manager that has nothing but a cache.
type cachingManager struct {
	ctrl.Manager

	informers *informertest.FakeInformers
}

func (m cachingManager) GetCache() cache.Cache { return m.informers }

// recordingNode records the ForeignClusters that a Node gets.
type recordingNode struct {
	part

	got *[]string
}

func (n recordingNode) ForeignClusterChanged(fc *liqocorev1beta1.ForeignCluster) {
	name := ""
	if fc != nil {
		name = fc.Name + "@" + fc.ResourceVersion
	}
	*n.got = append(*n.got, name)
}

// The label liqo.io/remote-cluster-id is set by a webhook that may be missing.
func TestForeignClusterIsFoundByItsClusterID(t *testing.T) {
	scheme, err := newScheme()
	require.NoError(t, err)
	informers := &informertest.FakeInformers{Scheme: scheme}
	v := &App{manager: cachingManager{informers: informers}, options: &Options{ForeignClusterID: "milan"}}
	require.NoError(t, v.watchForeignClusters(t.Context()))
	informer, err := informers.FakeInformerFor(t.Context(), &liqocorev1beta1.ForeignCluster{})
	require.NoError(t, err)
	cluster := func(name, id, version string) *liqocorev1beta1.ForeignCluster {
		return &liqocorev1beta1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version},
			Spec:       liqocorev1beta1.ForeignClusterSpec{ClusterID: liqocorev1beta1.ClusterID(id)},
		}
	}
	var got []string
	informer.Add(cluster("a", "turin", "1"))
	informer.Add(cluster("b", "milan", "2"))
	v.setSession(&session{engine: &engine.Engine{}, custom: &custom.Follower{}, node: recordingNode{got: &got}})
	informer.Update(cluster("b", "milan", "2"), cluster("b", "milan", "3"))
	informer.Delete(cluster("a", "turin", "1"))
	informer.Delete(cluster("b", "milan", "3"))
	assert.Equal(t, []string{"b@2", "b@3", ""}, got)
	assert.Nil(t, v.currentForeignCluster())
}
