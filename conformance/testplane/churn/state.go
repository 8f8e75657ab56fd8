package churn

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// Contents returns the contents of the mirrored objects of a namespace by kind and name, without those
// that Kubernetes creates in each namespace and for each Service.
func Contents(t planetest.T, reader client.Reader, namespace string) map[string]any {
	t.Helper()
	all := map[string]any{}
	configMaps, secrets, services := &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceList{}
	ingresses, slices := &networkingv1.IngressList{}, &discoveryv1.EndpointSliceList{}
	for _, list := range []client.ObjectList{configMaps, secrets, services, ingresses, slices} {
		require.NoError(t, reader.List(t.Context(), list, client.InNamespace(namespace)))
	}
	for i := range configMaps.Items {
		if name := configMaps.Items[i].Name; !strings.HasPrefix(name, "kube-root-ca.crt") {
			all["ConfigMap "+name] = []any{configMaps.Items[i].Data, configMaps.Items[i].Labels["change"]}
		}
	}
	for i := range secrets.Items {
		all["Secret "+secrets.Items[i].Name] = []any{secrets.Items[i].Data, secrets.Items[i].Labels["change"]}
	}
	for i := range services.Items {
		spec := services.Items[i].Spec
		all["Service "+services.Items[i].Name] = []any{spec.Selector, spec.Ports, services.Items[i].Labels["change"]}
	}
	for i := range ingresses.Items {
		all["Ingress "+ingresses.Items[i].Name] = []any{ingresses.Items[i].Spec.DefaultBackend, ingresses.Items[i].Labels["change"]}
	}
	for i := range slices.Items {
		slice := &slices.Items[i]
		if !strings.HasPrefix(slice.Name, slicePrefix) {
			continue
		}
		content := []any{slice.Labels["change"], *slice.Ports[0].Port}
		for _, endpoint := range slice.Endpoints {
			content = append(content, endpoint.Addresses)
		}
		all["EndpointSlice "+slice.Name] = content
	}
	return all
}

// RemoteUIDs has the UIDs of all remote pods that have existed, by the UID of their local pod.
type RemoteUIDs struct {
	annotation string
	mu         sync.Mutex
	uids       map[string]map[types.UID]bool
}

// WatchRemotePods records remote pods until the test ends. The annotation of a remote pod has the UID
// of its local pod.
func WatchRemotePods(t *testing.T, provider client.WithWatch, annotation string, options ...client.ListOption) *RemoteUIDs {
	t.Helper()
	r := &RemoteUIDs{annotation: annotation, uids: map[string]map[types.UID]bool{}}
	planetest.WatchPods(t, provider, r.add, options...)
	return r
}

func (r *RemoteUIDs) add(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	local := pod.Annotations[r.annotation]
	if r.uids[local] == nil {
		r.uids[local] = map[types.UID]bool{}
	}
	r.uids[local][pod.UID] = true
}

// Len returns the number of local pods that have had a remote pod.
func (r *RemoteUIDs) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.uids)
}

// Has reports whether the local pod with a UID has had a remote pod.
func (r *RemoteUIDs) Has(local string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.uids[local]) > 0
}

// AssertOneEach checks that no local pod has had a second remote pod.
func (r *RemoteUIDs) AssertOneEach(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(t, r.uids)
	for local, uids := range r.uids {
		assert.NotEmpty(t, local, "remote pods without a local pod: %v", uids)
		assert.Len(t, uids, 1, "remote pods of the local pod with UID %s", local)
	}
}
