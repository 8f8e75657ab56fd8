package kubelet

import (
	"context"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// watchForeignClusters passes changes of the provider's ForeignCluster to the Node. The spec is compared,
// because the label is set by a webhook that may be missing. It returns after the first list.
func (v *virtualNode) watchForeignClusters(ctx context.Context) error {
	return watch(ctx, v.manager.GetCache(), &liqocorev1beta1.ForeignCluster{}, func(object any) {
		fc, ok := object.(*liqocorev1beta1.ForeignCluster)
		if ok && string(fc.Spec.ClusterID) == v.options.ForeignClusterID {
			v.setForeignCluster(fc)
		}
	}, func(name string) {
		if fc := v.currentForeignCluster(); fc != nil && fc.Name == name {
			v.setForeignCluster(nil)
		}
	})
}

// setForeignCluster is called by the informer. It calls a session under the lock under which sessions are
// set, so that none gets an earlier ForeignCluster last.
func (v *virtualNode) setForeignCluster(fc *liqocorev1beta1.ForeignCluster) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.foreignCluster = fc
	if v.session != nil {
		v.session.foreignClusterChanged(fc)
	}
}

func (v *virtualNode) currentForeignCluster() *liqocorev1beta1.ForeignCluster {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.foreignCluster
}
