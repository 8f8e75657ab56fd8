package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// back copies ConfigMaps from remote to local.
type back struct{}

func (back) Resource() Resource {
	resource := maps{}.Resource()
	resource.LocalUnwatched, resource.RemoteUnmanaged, resource.Filter = true, true, false
	return resource
}

func (back) Decide(in Input) ([]Action, error) {
	remote, ok := in.Remote.(*corev1.ConfigMap)
	if !ok || in.Skipped {
		return []Action{Keep{Reason: "nothing to copy"}}, nil
	}
	return []Action{ApplyLocal{Config: corev1apply.ConfigMap(in.Key.Name, in.Key.Namespace).WithLabels(owned).WithData(remote.Data)}}, nil
}

func providerMap(name, value string) *corev1.ConfigMap {
	object := localMap(name, map[string]string{"k": value})
	object.Namespace = "shop-rome"
	return object
}

func (w *env) localData(t *testing.T, name, want string) {
	t.Helper()
	require.Eventually(t, func() bool {
		object, ok := get(t.Context(), w.local.WithWatch, "shop", name, &corev1.ConfigMap{})
		return ok && object.Data["k"] == want
	}, soon, tick, "local ConfigMap %s with %q", name, want)
}

func TestObjectsAreCopiedFromRemoteToLocal(t *testing.T) {
	unmanaged := localMap("taken", map[string]string{"k": "kept"})
	local, remote := mapped(t, unmanaged)
	skipped := providerMap("skipped", "1")
	skipped.Annotations = map[string]string{offloadingv1beta1.SkipReflectionAnnotation: ""}
	for _, object := range []client.Object{providerMap("settings", "1"), providerMap("taken", "1"), skipped} {
		require.NoError(t, remote.Create(t.Context(), object))
	}
	w := start(t, local, remote, back{})
	w.localData(t, "settings", "1")
	require.NoError(t, remote.Update(t.Context(), providerMap("settings", "2")))
	w.localData(t, "settings", "2")
	require.Eventually(t, func() bool { return local.count("get ConfigMap") > 0 }, soon, tick)
	w.localData(t, "taken", "kept")
	_, found := get(t.Context(), local.WithWatch, "shop", "skipped", &corev1.ConfigMap{})
	assert.False(t, found)
	assert.Zero(t, local.count("watch ConfigMapList"))

	// The same again costs no request, and a new process continues with its objects.
	writes := local.count("patch ConfigMap")
	touched := providerMap("settings", "2")
	touched.Annotations = map[string]string{"touched": "yes"}
	require.NoError(t, remote.Update(t.Context(), touched))
	require.NoError(t, remote.Create(t.Context(), providerMap("fence", "1")))
	w.localData(t, "fence", "1")
	assert.Equal(t, writes+1, local.count("patch ConfigMap"))
	w.end()
	require.NoError(t, remote.Update(t.Context(), providerMap("settings", "3")))
	w = start(t, local, remote, back{})
	w.localData(t, "settings", "3")
	require.NoError(t, remote.Delete(t.Context(), touched))
	require.NoError(t, remote.Create(t.Context(), providerMap("fence-2", "1")))
	w.localData(t, "fence-2", "1")
	w.localData(t, "settings", "3")
}

// exempt is [maps] that applies without policies.
type exempt struct{ maps }

func (e exempt) Decide(in Input) ([]Action, error) {
	actions, err := e.maps.Decide(in)
	for i := range actions {
		if apply, ok := actions[i].(Apply); ok {
			apply.SkipPolicies = true
			actions[i] = apply
		}
	}
	return actions, err
}

func TestAnObjectCanBeAppliedWithoutPolicies(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	w := startWith(t, local, remote, func(o *Options) {
		o.Mutate = func(context.Context, client.Object, client.Object, map[string]any, func() client.Object) (*Mutation, error) {
			t.Error("the policies are asked")
			return nil, nil
		}
	}, exempt{})
	w.remoteData(t, "settings", "1")
}
