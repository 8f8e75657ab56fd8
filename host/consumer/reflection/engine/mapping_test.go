package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// A malicious provider writes the status of the NamespaceMap: what it adds would send it the
// Secrets of any namespace.
func TestOnlyRequestedNamespacesAreMapped(t *testing.T) {
	accepted := func(remote string) offloadingv1beta1.RemoteNamespaceStatus {
		return offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offloadingv1beta1.MappingAccepted}
	}
	failing := func(remote string) offloadingv1beta1.RemoteNamespaceStatus {
		return offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offloadingv1beta1.MappingCreationLoopBackOff}
	}
	cases := map[string]struct {
		desired  map[string]string
		current  map[string]offloadingv1beta1.RemoteNamespaceStatus
		followed map[string]string
		want     map[string]string
	}{
		"what was asked for is reflected": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": accepted("shop-rome")},
			want: map[string]string{"shop": "shop-rome"},
		},
		"what was not asked for is not": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"kube-system": accepted("loot")},
			want: map[string]string{},
		},
		"nor under another name": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": accepted("loot")},
			want: map[string]string{},
		},
		"a namespace that is withdrawn continues until the provider ends it": {
			current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": accepted("shop-rome")}, followed: map[string]string{"shop": "shop-rome"},
			want: map[string]string{"shop": "shop-rome"},
		},
		"a namespace that the provider fails to restore continues": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": failing("shop-rome")},
			followed: map[string]string{"shop": "shop-rome"},
			want:     map[string]string{"shop": "shop-rome"},
		},
		"a requested namespace that a restored provider does not report yet continues": {
			desired: map[string]string{"shop": "shop-rome"}, followed: map[string]string{"shop": "shop-rome"},
			want: map[string]string{"shop": "shop-rome"},
		},
		"a requested namespace that the provider deletes and creates again continues": {
			desired:  map[string]string{"shop": "shop-rome"},
			current:  map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingTerminating}},
			followed: map[string]string{"shop": "shop-rome"}, want: map[string]string{"shop": "shop-rome"},
		},
		"a requested namespace that is not reported does not begin": {
			desired: map[string]string{"shop": "shop-rome"}, want: map[string]string{},
		},
		"nor does one continue under another name": {
			desired: map[string]string{"shop": "shop-2"}, followed: map[string]string{"shop": "shop-rome"}, want: map[string]string{},
		},
		"what is neither requested nor reported ends": {followed: map[string]string{"shop": "shop-rome"}, want: map[string]string{}},
		"what the provider has not created yet does not begin": {
			desired: map[string]string{"shop": "shop-rome"}, current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": failing("shop-rome")},
			want: map[string]string{},
		},
		"what fails and is no longer asked for caches": {
			current:  map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": failing("shop-rome")},
			followed: map[string]string{"shop": "shop-rome"},
			want:     map[string]string{},
		},
		"an empty name is none": {
			current: map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": accepted("")}, want: map[string]string{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			nm := namespaceMap(nil)
			nm.Spec.DesiredMapping, nm.Status.CurrentMapping = tc.desired, tc.current
			got, ok := mapping(t.Context(), []client.Object{nm}, tc.followed)
			require.True(t, ok)
			assert.Equal(t, tc.want, got)
		})
	}
}
