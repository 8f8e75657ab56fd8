package kubelet_test

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
)

func TestErrorsOfTheStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chartrights.GrantVirtualKubelet(t, r.rome, virtualNode())
	log := logr.Discard()
	for name, tc := range map[string]struct {
		objects   []client.Object
		alter     func(*kubelet.Options)
		want      string
		wantEvent bool
	}{
		"no VirtualNode": {
			nil, func(*kubelet.Options) {}, "VirtualNode liqo-tenant-milan/milan-1 does not exist", false,
		},
		"a VirtualNode of another cluster": {
			[]client.Object{virtualNode()}, func(o *kubelet.Options) { o.ForeignClusterID = "paris" },
			`is of cluster "milan" and --foreign-cluster-id is "paris"`, false,
		},
		"no Secret": {
			[]client.Object{virtualNode()}, func(*kubelet.Options) {},
			"kubeconfig Secret liqo-tenant-milan/" + secretName + " does not exist: create it", true,
		},
		"a Secret without a kubeconfig": {
			[]client.Object{virtualNode(), r.secret([]byte("invalid"))}, func(*kubelet.Options) {}, `key "kubeconfig"`, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, object := range tc.objects {
				require.NoError(t, r.rome.Create(t.Context(), object))
				t.Cleanup(func() {
					assert.NoError(t, r.rome.Delete(context.WithoutCancel(t.Context()), object))
				})
			}
			o := r.options()
			o.VKLeaseEnabled = false
			tc.alter(&o)
			app, err := kubelet.New(t.Context(), o)
			require.NoError(t, err)
			err = app.Run(logr.NewContext(t.Context(), log))
			require.ErrorContains(t, err, tc.want)
			assert.ErrorContains(t, err, `running the virtual kubelet of node "milan-1"`)
			if tc.wantEvent {
				r.awaitEvent("BrokenKubeconfig", tc.want)
			}
		})
	}
}

func TestUnregisteredNodeIsReportedOnTheVirtualNode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runApprover()
	vn := virtualNode()
	vn.Spec.Labels = map[string]string{"a b": "c"} // without the webhook
	unreachable := strings.ReplaceAll(string(r.kubeconfig), r.provider.Endpoint(), r.provider.Address()+":1")
	require.NotEqual(t, unreachable, string(r.kubeconfig))
	secret := r.secret([]byte(unreachable))
	require.NoError(t, r.rome.Create(t.Context(), vn))
	r.create(r.rome, secret)
	o := r.options()
	o.Config.Impersonate.Groups = []string{"system:masters"} // It creates the Node, which the manager does otherwise.
	o.HealthPort = 10248
	ended := r.runKubelet(o)

	r.awaitEvent("ProviderUnreachable", "The Node is not registered or not renewed, because the provider cannot be reached")
	for _, path := range []string{"/healthz", "/readyz"} {
		url := "http://" + net.JoinHostPort(o.NodeIP, strconv.Itoa(o.HealthPort)) + path
		require.Eventually(t, func() bool { return isHealthy(t.Context(), url) }, soon, tick, "%s does not depend on the provider", path)
	}
	_, err := r.node()
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	secret.Data["kubeconfig"] = r.kubeconfig
	require.NoError(t, r.rome.Update(t.Context(), secret))
	r.awaitEvent("NodeRefused", "The API server rejects the Node. Correct the VirtualNode")
	_, err = r.node()
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	before := vn.DeepCopy()
	vn.Spec.Labels = map[string]string{"ab": "c"}
	require.NoError(t, r.rome.Patch(t.Context(), vn, client.MergeFrom(before)))
	require.Eventually(t, func() bool {
		node, err := r.node()
		return err == nil && isReady(node) && node.Labels["ab"] == "c"
	}, soon, tick, "the node becomes ready")
	assert.Empty(t, ended, "the virtual kubelet has not ended")
}

// isHealthy reports whether a probe of a URL succeeds.
func isHealthy(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}
