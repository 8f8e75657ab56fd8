package rig_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/hack/demo/application"
)

// TestTheExamplePolicyConcernsTheApplication: a user who loads the example policy into the demo
// as it is shipped sees it decide.
func TestTheExamplePolicyConcernsTheApplication(t *testing.T) {
	content, err := os.ReadFile("../../../plugins/registryrewrite/policy.yaml")
	require.NoError(t, err)
	var spec struct {
		Settings struct {
			Rewrites []struct{ From, To string }
		}
	}
	require.NoError(t, yaml.Unmarshal(content, &spec))
	objects, err := application.Objects()
	require.NoError(t, err)
	images := 0
	for _, object := range objects {
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		require.NoError(t, err)
		for _, container := range containers {
			image, _, err := unstructured.NestedString(container.(map[string]any), "image")
			require.NoError(t, err)
			rewritten := false
			for _, rewrite := range spec.Settings.Rewrites {
				rewritten = rewritten || strings.HasPrefix(image, rewrite.From+"/")
			}
			assert.True(t, rewritten, "%s of %s comes from a registry that policy.yaml knows", image, object.GetName())
			images++
		}
	}
	assert.NotZero(t, images)
}
