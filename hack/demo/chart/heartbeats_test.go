package chart_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/chart"
)

func TestHeartbeatsOfVirtualNodesCanBeLikeAnyOtherRequest(t *testing.T) {
	objects, err := chart.Render(map[string]any{"clusterID": "rome", "virtualKubelet": map[string]any{"heartbeatPriorityLevel": ""}}, chart.Options{})
	require.NoError(t, err)
	for _, object := range objects {
		assert.NotEqual(t, "FlowSchema", object.GetKind())
	}
}

// testHeartbeats asks a real API server by which FlowSchema it classifies requests. It says so in a header,
// also for a request that it refuses.
func testHeartbeats(t *testing.T, admin client.Client, config *rest.Config, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == "FlowSchema" {
			require.NoError(t, apply(t, admin, object))
		}
	}
	const lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/milan"
	virtualKubelet := rest.ImpersonationConfig{
		UserName: "system:serviceaccount:liqo-tenant-milan:milan",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:liqo-tenant-milan", "system:authenticated"},
	}
	kubelet := rest.ImpersonationConfig{UserName: "system:node:worker", Groups: []string{"system:nodes", "system:authenticated"}}
	for name, tc := range map[string]struct {
		user               rest.ImpersonationConfig
		method, path, want string
	}{
		"the lease of a virtual node":    {virtualKubelet, http.MethodPut, lease, "longshore-virtual-nodes"},
		"the status of a virtual node":   {virtualKubelet, http.MethodPatch, "/api/v1/nodes/milan/status", "longshore-virtual-nodes"},
		"the virtual node itself":        {virtualKubelet, http.MethodPatch, "/api/v1/nodes/milan", "service-accounts"},
		"the status of a pod":            {virtualKubelet, http.MethodPatch, "/api/v1/namespaces/shop/pods/web/status", "service-accounts"},
		"another lease":                  {virtualKubelet, http.MethodPut, strings.ReplaceAll(lease, "kube-node-lease", "liqo-tenant-milan"), "service-accounts"},
		"the lease of a node of its own": {kubelet, http.MethodPut, lease, "system-node-high"},
	} {
		t.Run(name, func(t *testing.T) {
			planetest.Until(t, func(t planetest.T) bool {
				return flowSchemaOf(t, admin, config, tc.user, tc.method, tc.path) == tc.want
			}, established, poll, tc.want)
		})
	}
	schema := &flowcontrolv1.FlowSchema{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "longshore-virtual-nodes"}, schema))
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(schema), schema))
		for _, c := range schema.Status.Conditions {
			if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
				return c.Status == flowcontrolv1.ConditionFalse
			}
		}
		return false
	}, established, poll, "the priority level exists")
}

// flowSchemaOf returns the name of the FlowSchema of a request.
func flowSchemaOf(t planetest.T, admin client.Client, config *rest.Config, user rest.ImpersonationConfig, method, path string) string {
	t.Helper()
	as := rest.CopyConfig(config)
	as.Impersonate = user
	sender, err := rest.HTTPClientFor(as)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), method, as.Host+path, http.NoBody)
	require.NoError(t, err)
	response, err := sender.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	list := &flowcontrolv1.FlowSchemaList{}
	require.NoError(t, admin.List(t.Context(), list))
	for i := range list.Items {
		if string(list.Items[i].UID) == response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) {
			return list.Items[i].Name
		}
	}
	return ""
}
