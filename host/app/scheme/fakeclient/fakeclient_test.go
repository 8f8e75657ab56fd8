package fakeclient_test

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/charts"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func TestKindsHaveAStatusSubresourceIfTheirDefinitionHas(t *testing.T) {
	files, err := fs.Glob(charts.Longshore, "longshore/crds/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		raw, err := charts.Longshore.ReadFile(file)
		require.NoError(t, err)
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name         string
					Subresources map[string]any
				}
			}
		}
		require.NoError(t, yaml.Unmarshal(raw, &crd))
		for _, version := range crd.Spec.Versions {
			kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			c := fakeclient.Builder().Build()
			object, err := c.Scheme().New(kind)
			require.NoError(t, err)
			o, ok := object.(client.Object)
			require.True(t, ok)
			o.SetName("a")
			require.NoError(t, c.Create(t.Context(), o))
			_, want := version.Subresources["status"]
			err = c.Status().Update(t.Context(), o)
			assert.Equal(t, want, !apierrors.IsNotFound(err), "%s: %v", kind, err)
		}
	}
}
