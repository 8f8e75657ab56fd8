package kubelet

import (
	"context"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// watchForeignClusters passes changes of the provider's ForeignCluster to the Node. The spec is compared,
// because the label is set by a webhook that may be missing. It returns after the first list.
func (a *App) watchForeignClusters(ctx context.Context) error {
	return watch(ctx, a.manager.GetCache(), &liqocorev1beta1.ForeignCluster{}, func(object any) {
		fc, ok := object.(*liqocorev1beta1.ForeignCluster)
		if ok && string(fc.Spec.ClusterID) == a.options.ForeignClusterID {
			a.setForeignCluster(fc)
		}
	}, func(name string) {
		if fc := a.currentForeignCluster(); fc != nil && fc.Name == name {
			a.setForeignCluster(nil)
		}
	})
}

// setForeignCluster is called by the informer. It calls a session under the lock under which sessions are
// set, so that none gets an earlier ForeignCluster last.
func (a *App) setForeignCluster(fc *liqocorev1beta1.ForeignCluster) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.foreignCluster = fc
	if a.session != nil {
		a.session.foreignClusterChanged(fc)
	}
}

func (a *App) currentForeignCluster() *liqocorev1beta1.ForeignCluster {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.foreignCluster
}
