package manager_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/forge/provider"
)

// TestLongShadowEndpointSlicesAreCounted has Kubernetes' own quota controller and admission, which learn of the kind
// while the manager runs: none is refused before it is counted. It counts ResourceSlices of a consumer likewise.
func TestLongShadowEndpointSlicesAreCounted(t *testing.T) {
	const limit, name, slices = 2, "count/shadowendpointslices.offloading.liqo.io", "count/resourceslices.authentication.liqo.io"
	connection := planetest.ForTest(t, "milan").RESTConfig()
	milan := consumerOf(t, connection)
	nm := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan", Labels: map[string]string{"liqo.io/originID": "rome", "liqo.io/replicated": "true"}},
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome"}},
	}
	require.NoError(t, milan.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: nm.Namespace, Labels: map[string]string{"liqo.io/remote-cluster-id": "rome", "liqo.io/tenant-namespace": "true"},
	}}))
	require.NoError(t, milan.Create(t.Context(), nm))
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: nm.Namespace, Name: "rome"}}
	tenant.Spec.ClusterID, tenant.Spec.AuthzPolicy = "rome", ptr.To(authv1beta1.TolerateNoHandshake)
	require.NoError(t, milan.Create(t.Context(), tenant))
	app, err := manager.New(manager.Options{
		ShadowPodWorkers: 1, ShadowEndpointSliceWorkers: 1,
		ConsumerLimits: `{"perNamespace": {"services": 5, "` + name + `": 2}, "tenantNamespace": {"` + slices + `": 2}}`,
		Options:        process.Options{Config: asManager(t, connection), ClusterID: "milan", Namespace: "longshore", MetricsAddress: "0", HealthProbeAddress: "0"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(t, app.Run(ctx)) })
	t.Cleanup(func() { cancel(); done.Wait() })
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, milan.Get(t.Context(), client.ObjectKeyFromObject(nm), nm))
		return nm.Status.CurrentMapping["shop"].Phase == offloadingv1beta1.MappingAccepted
	}, soon, tick)

	asRome := rest.CopyConfig(connection)
	asRome.Impersonate = rest.ImpersonationConfig{UserName: "virtual-kubelet", Groups: []string{"rome"}}
	rome, err := client.New(asRome, client.Options{Scheme: milan.Scheme()})
	require.NoError(t, err)
	create := func(options ...client.CreateOption) error {
		return rome.Create(t.Context(), &offloadingv1beta1.ShadowEndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", GenerateName: "web-", Labels: map[string]string{offloadingv1beta1.OriginLabel: "rome"}},
			Spec:       offloadingv1beta1.ShadowEndpointSliceSpec{Template: offloadingv1beta1.EndpointSliceTemplate{AddressType: "IPv4"}},
		}, options...)
	}
	planetest.Until(t, func(planetest.T) bool { return create(client.DryRunAll) == nil }, soon, tick, "the rights are in effect")
	for range limit {
		require.NoError(t, create())
	}
	refusals := []string{}
	planetest.Until(t, func(planetest.T) bool {
		err := create(client.DryRunAll)
		if err != nil {
			refusals = append(refusals, err.Error())
		}
		return err != nil
	}, soon, 10*tick, "a further one is refused")
	for _, refusal := range refusals {
		assert.True(t, strings.Contains(refusal, "exceeded quota: "+provider.QuotaName) && strings.Contains(refusal, "used: "+name+"=2"), refusal)
	}
	slice := func(name string, options ...client.CreateOption) error {
		return milan.Create(t.Context(), &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: nm.Namespace, Name: name}}, options...)
	}
	for i := range limit {
		require.NoError(t, slice(fmt.Sprintf("pool-%d", i)))
	}
	planetest.Until(t, func(planetest.T) bool {
		err := slice("more", client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "exceeded quota: "+provider.QuotaName+", requested: "+slices+"=1, used: "+slices+"=2")
	}, soon, tick, "a further ResourceSlice is refused")
}
