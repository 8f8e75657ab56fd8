package hostile_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
)

// TestANamespaceMapIsBounded holds, for each field of a NamespaceMap, what an API server takes at most.
func TestANamespaceMapIsBounded(t *testing.T) {
	cluster := planetest.ForTest(t, "namespacemaps")
	built, err := scheme.New()
	require.NoError(t, err)
	config := rest.CopyConfig(cluster.RESTConfig())
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: built})
	require.NoError(t, err)
	stored := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan"}}
	require.NoError(t, c.Create(t.Context(), stored))
	a := func(n int) string { return strings.Repeat("a", n) }
	spec := func(n int, key, value string, nm *offloadingv1beta1.NamespaceMap) {
		nm.Spec.DesiredMapping = map[string]string{key: value}
		for i := range n - 1 {
			nm.Spec.DesiredMapping[strconv.Itoa(i)] = value
		}
	}
	status := func(n int, key string, value offloadingv1beta1.RemoteNamespaceStatus, nm *offloadingv1beta1.NamespaceMap) {
		value.Phase = offloadingv1beta1.MappingAccepted
		nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{key: value}
		for i := range n - 1 {
			nm.Status.CurrentMapping[strconv.Itoa(i)] = value
		}
	}
	type remote = offloadingv1beta1.RemoteNamespaceStatus
	for name, field := range map[string]struct {
		most int
		set  func(nm *offloadingv1beta1.NamespaceMap, n int)
	}{
		"spec.desiredMapping":                        {offloadingv1beta1.MaxMappings, func(nm *offloadingv1beta1.NamespaceMap, n int) { spec(n, "shop", a(63), nm) }},
		"spec.desiredMapping, key":                   {63, func(nm *offloadingv1beta1.NamespaceMap, n int) { spec(1, a(n), "shop", nm) }},
		"spec.desiredMapping.shop":                   {63, func(nm *offloadingv1beta1.NamespaceMap, n int) { spec(1, "shop", a(n), nm) }},
		"status.currentMapping":                      {offloadingv1beta1.MaxStatuses, func(nm *offloadingv1beta1.NamespaceMap, n int) { status(n, "shop", remote{}, nm) }},
		"status.currentMapping, key":                 {63, func(nm *offloadingv1beta1.NamespaceMap, n int) { status(1, a(n), remote{}, nm) }},
		"status.currentMapping.shop.message":         {1024, func(nm *offloadingv1beta1.NamespaceMap, n int) { status(1, "shop", remote{Message: a(n)}, nm) }},
		"status.currentMapping.shop.remoteNamespace": {63, func(nm *offloadingv1beta1.NamespaceMap, n int) { status(1, "shop", remote{RemoteNamespace: a(n)}, nm) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			write := func(n int) error {
				nm := stored.DeepCopy()
				field.set(nm, n)
				if strings.HasPrefix(name, "status") {
					return c.Status().Update(t.Context(), nm, client.DryRunAll)
				}
				return c.Update(t.Context(), nm, client.DryRunAll)
			}
			require.NoError(t, write(field.most))
			err := write(field.most + 1)
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, strings.TrimSuffix(name, ", key"))
		})
	}
}
