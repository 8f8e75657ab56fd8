package networkpolicy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func offloadingOf(namespace string) *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName}}
}

func pod(name, app string, offloaded bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}}}
	if offloaded {
		p.Labels[offloadingv1beta1.LocalPodLabel] = "true"
	}
	return p
}

func policy(namespace string, app string) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deny"}}
	if app != "" {
		p.Spec.PodSelector.MatchLabels = map[string]string{"app": app}
	}
	return p
}

func TestNetworkPoliciesThatSelectOffloadedPodsAreReported(t *testing.T) {
	const message = "Warning NotAppliedRemotely The NetworkPolicy does not apply to pods that run in other clusters, such as %s: NetworkPolicies are not reflected. " +
		"The administrator of the other cluster can create one in the remote namespace, where the pods have the same labels."
	for name, tc := range map[string]struct {
		policy *networkingv1.NetworkPolicy
		pods   []client.Object
		// want are the pods that the event names; empty for no event.
		want  string
		again time.Duration
	}{
		"a pod that is offloaded":           {policy("shop", "web"), []client.Object{pod("web-1", "web", true)}, "web-1", reportInterval},
		"all pods of the namespace":         {policy("shop", ""), []client.Object{pod("db-1", "db", true), pod("web-1", "web", true)}, "db-1, web-1", reportInterval},
		"many pods":                         {policy("shop", ""), []client.Object{pod("a", "x", true), pod("b", "x", true), pod("c", "x", true), pod("d", "x", true)}, "a, b, c, and others", reportInterval},
		"a pod that runs here":              {policy("shop", "web"), []client.Object{pod("web-1", "web", false)}, "", lookInterval},
		"another pod is offloaded":          {policy("shop", "web"), []client.Object{pod("db-1", "db", true)}, "", lookInterval},
		"a namespace that is not offloaded": {policy("lab", ""), []client.Object{pod("web-1", "web", true)}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			c := fakeclient.Builder(append(tc.pods, tc.policy, offloadingOf("shop"))...).Build()
			r := &Reconciler{Client: c, APIReader: c, Events: recorder}
			result, err := r.Reconcile(t.Context(), tc.policy)
			require.NoError(t, err)
			assert.Equal(t, reconcile.Result{RequeueAfter: tc.again}, result)
			if tc.want == "" {
				assert.Empty(t, recorder.Events)
				return
			}
			require.Len(t, recorder.Events, 1)
			assert.Equal(t, fmt.Sprintf(message, tc.want), <-recorder.Events)
		})
	}
}

func TestAnOffloadedNamespaceEnqueuesItsPolicies(t *testing.T) {
	c := fakeclient.Builder(policy("shop", ""), policy("lab", "")).Build()
	r := &Reconciler{Client: c, APIReader: c}
	assert.Equal(t, []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "deny"}}}, r.policiesOf(t.Context(), offloadingOf("shop")))
}
