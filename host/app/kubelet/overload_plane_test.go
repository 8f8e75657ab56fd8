package kubelet_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/app/kubelet"
)

// An overloaded provider answers the check too late, but other requests of the process.
func TestLongANodeOfAnOverloadedProviderIsRenewed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	certificate, key, err := r.provider.IssueClientCert("milan-1-through-a-proxy", []string{"rome"})
	require.NoError(t, err)
	user := rest.AnonymousClientConfig(r.provider.RESTConfig())
	user.CertData, user.KeyData = certificate, key
	proxy := startProxy(t, r.provider, user)
	kubeconfig, err := r.provider.KubeconfigFor(proxy.URL(), certificate, key)
	require.NoError(t, err)
	r.runManager()
	r.create(r.rome, virtualNode(), r.secret(kubeconfig), r.settings("settings", "0"))
	r.mapNamespace()
	o := r.options()
	o.CertificateType, o.NodeLeaseDuration = string(kubelet.CertificateSelfSigned), nodeLeaseDuration
	ended := r.runKubelet(o)
	r.awaitRemote("settings", "0")
	lease := &coordinationv1.Lease{}
	renewed := func(t planetest.T) bool {
		return r.rome.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: nodeName}, lease) == nil
	}
	planetest.Until(t, renewed, soon, tick, "the Node has a lease")

	proxy.Break(faultproxy.Silent, func(request *http.Request) bool { return request.URL.Path == "/livez" })
	before, changes := lease.Spec.RenewTime.Time, 0
	planetest.Until(t, func(t planetest.T) bool {
		changes++
		// The virtual kubelet writes each change in the provider.
		err := r.rome.Update(t.Context(), r.settings("settings", strconv.Itoa(changes)))
		return err == nil && renewed(t) && lease.Spec.RenewTime.Sub(before) > 2*nodeLeaseDuration
	}, soon, tick, "the lease is renewed")
	node, err := r.node()
	require.NoError(t, err)
	assert.True(t, isReady(node))
	assert.Empty(t, ended)
}
