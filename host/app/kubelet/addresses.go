package kubelet

import (
	"context"
	"net/netip"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/ipam"
)

// watchConfigurations passes changes of the Configurations of peers to the translation of
// addresses, which all objects are decided again for. It returns after the first list.
func (a *App) watchConfigurations(ctx context.Context) error {
	changed := func(object any) {
		configuration, ok := object.(*networkingv1beta1.Configuration)
		if ok && a.addresses.Set(configuration) {
			a.decideAgain()
		}
	}
	return watch(ctx, a.manager.GetCache(), &networkingv1beta1.Configuration{}, changed, func(name string) {
		if a.addresses.Remove(client.ObjectKey{Namespace: a.options.TenantNamespace, Name: name}) {
			a.decideAgain()
		}
	})
}

func (a *App) provider() liqocorev1beta1.ClusterID {
	return liqocorev1beta1.ClusterID(a.options.ForeignClusterID)
}

// addressOfRemotePod returns the address under which the consumer reaches an address of the
// provider, or "" while it is not known.
func (a *App) addressOfRemotePod(original string) string {
	translated, err := a.addresses.Of(a.provider()).Translate(original)
	if err != nil {
		ctrl.Log.V(1).Info("Address of a remote pod is not known yet", "address", original, "reason", err.Error())
		return ""
	}
	return translated
}

// localPods returns the pod CIDRs of the consumer, and whether addresses of endpoints are
// translated for the provider.
func (a *App) localPods() ([]netip.Prefix, bool) {
	pods, isTranslated := a.addresses.LocalPods(a.provider())
	for _, cidr := range a.options.LocalPodCIDRs {
		if prefix, err := ipam.ParseCIDR(cidr); err == nil { // IPv6 addresses are not translated
			pods = append(pods[:len(pods):len(pods)], prefix)
		}
	}
	return pods, isTranslated
}
