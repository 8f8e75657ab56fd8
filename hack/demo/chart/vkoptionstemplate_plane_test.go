package chart_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// testTemplates writes templates with and without both halves of the address of the API server.
func testTemplates(t *testing.T, c client.Client, objects []*unstructured.Unstructured) {
	t.Helper()
	const refusal = "arguments --home-api-server-host and --home-api-server-port must be set together"
	template := func(name string, arguments ...string) *offloadingv1beta1.VkOptionsTemplate {
		return &offloadingv1beta1.VkOptionsTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: name}, Spec: offloadingv1beta1.VkOptionsTemplateSpec{ContainerImage: "i", ExtraArgs: arguments},
		}
	}
	before := template("before", "--home-api-server-host=api")
	require.NoError(t, c.Create(t.Context(), before), "stored before the policy was in force")
	for _, object := range objects {
		if object.GetName() == "longshore-vkoptionstemplates" {
			require.NoError(t, apply(t, c, object))
		}
	}
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		assert.ErrorContains(ct, c.Create(t.Context(), template("half", "--home-api-server-host=api"), client.DryRunAll), refusal)
	}, established, poll)
	const host, port = "--home-api-server-host=api", "--home-api-server-port=6443"
	for name, tc := range map[string]struct {
		arguments []string
		refused   bool
	}{
		"no arguments":             {nil, false},
		"other arguments":          {[]string{"--home-api-server-hosts=api", "-v=2"}, false},
		"both":                     {[]string{port, "-v=2", host}, false},
		"a host":                   {[]string{"-v=2", host}, true},
		"a port":                   {[]string{port}, true},
		"an empty port":            {[]string{host, "--home-api-server-port="}, true},
		"both empty":               {[]string{"--home-api-server-host=", "--home-api-server-port="}, false},
		"a flag without its value": {[]string{"--home-api-server-host", "api"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), template("new", tc.arguments...), client.DryRunAll)
			if tc.refused {
				assert.ErrorContains(t, err, refusal)
				return
			}
			assert.NoError(t, err)
		})
	}
	patch := func(name, arguments string) error {
		return c.Patch(t.Context(), template(name), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"extraArgs":`+arguments+`}}`)))
	}
	require.NoError(t, patch("before", `["--home-api-server-host=other"]`), "one that was incomplete before can be changed")
	require.NoError(t, patch("before", `["`+host+`","`+port+`"]`))
	assert.ErrorContains(t, patch("before", `["`+port+`"]`), refusal)
	require.NoError(t, c.Delete(t.Context(), before))
}
