package virtualnode

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// shadowPod is a ShadowPod of the provider milan.
func shadowPod(namespace, name, node string) *offloadingv1beta1.ShadowPod {
	return &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "s", Labels: map[string]string{
		offloadingv1beta1.NodeNameLabel: node, offloadingv1beta1.DestinationLabel: "milan",
	}}}
}

// sharedMap is a NamespaceMap that another VirtualNode uses too.
func sharedMap() *offloadingv1beta1.NamespaceMap {
	nm := mapUsedBy("liqo-tenant-milan/mynode,liqo-tenant-milan/second")
	nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{
		"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted},
	}
	return nm
}

func second() *offloadingv1beta1.VirtualNode {
	return virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		vn.Name, vn.UID = "second", "vn-2"
		vn.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig-second"}
	})
}

func TestDeletionDeletesRemainingShadowPods(t *testing.T) {
	secondSecret := func() *corev1.Secret {
		s := peered(kubeconfig)[1].(*corev1.Secret)
		s.Name = "kubeconfig-second"
		return s
	}()
	deadSecret := peered(strings.ReplaceAll(kubeconfig, "127.0.0.1:1", "127.0.0.1:2"))[1].(*corev1.Secret)
	foreignCluster, ownSecret := peered(kubeconfig)[0], peered(kubeconfig)[1]
	dead := foreignCluster.DeepCopyObject().(*liqocorev1beta1.ForeignCluster)
	dead.Annotations = map[string]string{liqocorev1beta1.PermanentlyUnreachableAnnotation: "true"}
	for name, tc := range map[string]struct {
		existing    []client.Object
		last        bool // no other VirtualNode uses the NamespaceMap
		unreachable bool
		gone        bool // the ShadowPod
		released    bool // the VirtualNode
	}{
		"another VirtualNode keeps the namespaces":              {existing: []client.Object{foreignCluster, ownSecret, second()}, gone: true, released: true},
		"only the other VirtualNode has a Secret":               {existing: []client.Object{foreignCluster, secondSecret, second()}, gone: true, released: true},
		"only the other VirtualNode's Secret is valid":          {existing: []client.Object{foreignCluster, deadSecret, secondSecret, second()}, gone: true, released: true},
		"no Secret exists":                                      {existing: []client.Object{foreignCluster, second()}, released: true},
		"the provider does not answer":                          {existing: []client.Object{foreignCluster, ownSecret, second()}, unreachable: true},
		"the provider is permanently unreachable":               {existing: []client.Object{dead, ownSecret, second()}, unreachable: true, released: true},
		"the ForeignCluster was deleted":                        {existing: []client.Object{ownSecret, second()}, gone: true, released: true},
		"the same, and the provider does not answer":            {existing: []client.Object{ownSecret, second()}, unreachable: true},
		"another VirtualNode with its name and provider exists": {existing: []client.Object{foreignCluster, ownSecret, sameName("milan")}, released: true},
		"the last VirtualNode, whose namespaces are deleted":    {existing: []client.Object{foreignCluster, ownSecret}, last: true, unreachable: true, released: true},
	} {
		t.Run(name, func(t *testing.T) {
			daemon, other, unmapped := shadowPod("shop-rome", "agent", "mynode"), shadowPod("shop-rome", "web", "second"), shadowPod("unmapped", "agent", "mynode")
			provider := fakeclient.Builder(daemon, other, unmapped).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if tc.unreachable {
						return syscall.ECONNREFUSED
					}
					return c.List(ctx, list, opts...)
				},
			}).Build()
			vn := deleted(virtualNode(nil))
			nm := sharedMap()
			if tc.last {
				nm.RemoveVirtualNode("liqo-tenant-milan/second")
			}
			c := fakeclient.Builder(append(tc.existing, vn, nm)...).
				WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
			recorder := events.NewFakeRecorder(20)
			r := &Reconciler{Client: c, APIReader: c, Events: recorder, Clock: testclock.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
				Connect: func(config *rest.Config) (client.Client, error) {
					if config.Host == "https://127.0.0.1:2" {
						return nil, syscall.ECONNREFUSED
					}
					return provider, nil
				}}
			current := &offloadingv1beta1.VirtualNode{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(vn), current))
			result, err := r.Reconcile(t.Context(), current)
			assert.Equal(t, tc.gone, apierrors.IsNotFound(provider.Get(t.Context(), client.ObjectKeyFromObject(daemon), daemon)))
			assert.NoError(t, provider.Get(t.Context(), client.ObjectKeyFromObject(other), other))
			assert.NoError(t, provider.Get(t.Context(), client.ObjectKeyFromObject(unmapped), unmapped))
			after := &offloadingv1beta1.VirtualNode{}
			getErr := c.Get(t.Context(), client.ObjectKeyFromObject(vn), after)
			if tc.released {
				require.NoError(t, err)
				assert.True(t, apierrors.IsNotFound(getErr), "released")
				return
			}
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			assert.Zero(t, result)
			require.NoError(t, getErr)
			assert.Contains(t, conditions(after)["VirtualKubelet"], syscall.ECONNREFUSED.Error())
		})
	}
}

// The provider answers with as many ShadowPods as it likes, of which each cannot be deleted.
func TestShadowPodsThatCannotBeDeletedEndTheAttempt(t *testing.T) {
	for name, tc := range map[string]struct {
		items, pages, deletions int
		refused                 bool
	}{
		"all are deleted, page by page": {items: 7, pages: 3, deletions: 21},
		"a page that is too large":      {items: 100_000, pages: 1, deletions: maxDeletionErrors, refused: true},
		"pages without end":             {items: 1, pages: 1 << 30, deletions: maxDeletionErrors, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			page, deletions := 0, 0
			provider := fakeclient.Builder().WithInterceptorFuncs(interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					found, ok := list.(*metav1.PartialObjectMetadataList)
					require.True(t, ok, "%T", list)
					found.Items, found.Continue = make([]metav1.PartialObjectMetadata, tc.items), ""
					if page++; page < tc.pages {
						found.Continue = "more"
					}
					return nil
				},
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
					deletions++
					if tc.refused {
						return errors.New("resource name may not be empty")
					}
					return nil
				},
			}).Build()
			err := deleteShadowPods(t.Context(), provider, "shop-rome", virtualNode(nil))
			assert.Equal(t, tc.deletions, deletions)
			if !tc.refused {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "resource name may not be empty")
			assert.Less(t, len(err.Error()), 1000)
		})
	}
}
