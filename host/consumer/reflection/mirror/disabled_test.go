package mirror

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// A kind with 0 workers is not reflected, and what an earlier process sent is removed.
func TestADisabledKindIsRemovedFromTheProvider(t *testing.T) {
	origin := remote.Origin{HomeClusterID: "rome-1", ProviderClusterID: "milan"}
	for _, k := range Kinds() {
		d := k.Define(Options{Origin: origin, Workers: 0})
		resource := d.Resource()
		assert.Equal(t, k.Name, resource.Name)
		assert.True(t, resource.LocalUnwatched && resource.RemoteOnce && resource.LeaderOnly, "%s: nothing is watched", k.Name)
		assert.Empty(t, resource.Related, k.Name)
		current := func() client.Object {
			object := resource.Remote.New()
			object.SetNamespace("shop-rome")
			object.SetName("a")
			return object
		}
		for name, tc := range map[string]struct {
			in   engine.Input
			want []string
		}{
			"a managed object is deleted":     {input(nil, managed(current())), []string{"delete"}},
			"an unmanaged object is left":     {input(nil, current()), []string{"keep: the remote object is not managed by reflection"}},
			"an object that is being deleted": {input(nil, deleting(managed(current()))), []string{"keep: the remote object is being deleted"}},
		} {
			t.Run(k.Name+": "+name, func(t *testing.T) { assert.Equal(t, tc.want, steps(t, d, tc.in)) })
		}
	}
	t.Run("Secrets with tokens of pods are kept", func(t *testing.T) {
		token := managed(&corev1.Secret{ObjectMeta: metadata})
		token.SetAnnotations(map[string]string{remote.TokenPodKey: "web", remote.TokenAccountKey: "default"})
		assert.Equal(t, []string{"keep: the remote object is for the tokens of a remote pod"}, steps(t, entry(secret).Define(Options{Origin: origin}), input(nil, token)))
	})
	t.Run("names are translated", func(t *testing.T) {
		d, ok := entry(configMap).Define(Options{Origin: origin}).(engine.Remapper)
		require.True(t, ok)
		assert.Equal(t, remote.RootCAConfigMapName, d.ToLocal(d.ToRemote(remote.RootCAConfigMapName), nil))
		assert.NotEqual(t, remote.RootCAConfigMapName, d.ToRemote(remote.RootCAConfigMapName))
	})
}
