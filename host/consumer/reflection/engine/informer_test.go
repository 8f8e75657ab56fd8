package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/watchlist"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// another is [maps] under another name, for objects of another reflection.
type another struct{}

func (another) Resource() Resource {
	resource := maps{}.Resource()
	resource.Name = "another"
	return resource
}

func (another) Decide(Input) ([]Action, error) { return nil, nil }

// trimming is [maps], or [another], whose objects are trimmed.
type trimming struct {
	maps
	name, trimName string
}

func (d trimming) Resource() Resource {
	resource := maps{}.Resource()
	resource.Name = d.name
	for _, kind := range []*Kind{&resource.Local, &resource.Remote} {
		kind.Trim, kind.TrimName = func(client.Object) {}, d.trimName
	}
	return resource
}

func (d trimming) Decide(in Input) ([]Action, error) {
	if d.name != "configmap" {
		return nil, nil
	}
	return d.maps.Decide(in)
}

func twoNamespaces(t *testing.T, objects ...client.Object) (local, remote *cluster) {
	t.Helper()
	return newCluster(append(objects, namespaceMap(map[string]string{"shop": "shop-rome", "bank": "bank-rome"}))...), newCluster()
}

func TestDefinitionsThatTrimObjectsDoNotShareThem(t *testing.T) {
	local, remote := twoNamespaces(t, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, remote, trimming{name: "configmap"}, trimming{name: "another"})
	w.remoteData(t, "settings", "1")
	require.Eventually(t, func() bool { return local.openWatches() == 3 && remote.openWatches() == 4 }, soon, tick)
}

func TestInformersAreShared(t *testing.T) {
	tests := map[string]struct {
		definitions   []Definition
		local, remote int
	}{
		// One local informer is that of the NamespaceMap.
		"one local informer serves all namespaces":       {[]Definition{maps{}}, 2, 2},
		"definitions of one kind share their informers":  {[]Definition{maps{}, another{}}, 2, 2},
		"those that trim alike share them, too":          {[]Definition{trimming{name: "configmap", trimName: "all"}, trimming{name: "another", trimName: "all"}}, 2, 2},
		"a kind that may not be read everywhere has two": {[]Definition{perNamespace{}}, 3, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			local, remote := twoNamespaces(t, localMap("settings", map[string]string{"k": "1"}))
			w := start(t, local, remote, tc.definitions...)
			w.remoteData(t, "settings", "1")
			require.Eventually(t, func() bool { return local.openWatches() == tc.local && remote.openWatches() == tc.remote }, soon, tick)
			w.remap(t, map[string]string{"bank": "bank-rome"})
			require.Eventually(t, func() bool { return remote.openWatches() == tc.remote-1 }, soon, tick, "the informers of a namespace stop with it")
			w.remap(t, nil)
			require.Eventually(t, func() bool { return local.openWatches() == 1 && remote.openWatches() == 0 }, soon, tick)
			w.remap(t, map[string]string{"shop": "shop-rome"})
			require.NoError(t, local.Create(t.Context(), localMap("late", map[string]string{"k": "2"})))
			w.remoteData(t, "late", "2")
		})
	}
}

// linked is [maps] that takes its data from the Secret of the same name.
type linked struct{}

func (linked) Resource() Resource {
	resource := maps{}.Resource()
	resource.Related = []Related{{
		Kind: Kind{New: func() client.Object { return &corev1.Secret{} }, NewList: func() client.ObjectList { return &corev1.SecretList{} }},
		Keys: func(changed client.Object, locals []client.Object) (keys []string) {
			for _, local := range locals {
				if local.GetName() == changed.GetName() {
					keys = append(keys, local.GetName())
				}
			}
			return keys
		},
	}}
	return resource
}

func (linked) Decide(in Input) ([]Action, error) {
	if in.Local == nil {
		return nil, nil
	}
	value := "absent"
	if secret, ok := in.Related[0](in.Key.Name).(*corev1.Secret); ok {
		value = string(secret.Data["k"])
	}
	return []Action{Apply{Config: corev1apply.ConfigMap(in.Key.Name, in.Facts.RemoteNamespace).
		WithLabels(owned).WithData(map[string]string{"k": value})}}, nil
}

func TestARelatedObjectThatChangesDecidesAgain(t *testing.T) {
	local, remote := mapped(t, localMap("settings", nil), localMap("alone", nil))
	w := start(t, local, remote, linked{})
	w.remoteData(t, "settings", "absent")
	w.remoteData(t, "alone", "absent")

	in := metav1.ObjectMeta{Namespace: "shop", Name: "settings"}
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "settings"}, Data: map[string][]byte{"k": []byte("wrong")}}
	secret := &corev1.Secret{ObjectMeta: in, Data: map[string][]byte{"k": []byte("1")}}
	require.NoError(t, local.Create(t.Context(), other))
	require.NoError(t, local.Create(t.Context(), secret))
	w.remoteData(t, "settings", "1")
	secret.Data["k"] = []byte("2")
	require.NoError(t, local.Update(t.Context(), secret))
	w.remoteData(t, "settings", "2")
	require.NoError(t, local.Delete(t.Context(), secret))
	w.remoteData(t, "settings", "absent")
	w.remoteData(t, "alone", "absent")
	assert.Empty(t, w.journal.all())
}

// awaiting mirrors Secrets whose ConfigMap of the same name is reflected.
type awaiting struct{}

func (awaiting) Resource() Resource {
	kind := linked{}.Resource().Related[0].Kind
	related := Related{Kind: maps{}.Resource().Remote, IsRemote: true, Keys: linked{}.Resource().Related[0].Keys}
	return Resource{Name: "secret", Local: kind, Remote: kind, Policy: offloadingv1beta1.DenyList, Workers: 1, Related: []Related{related}}
}

func (awaiting) Decide(in Input) ([]Action, error) {
	switch {
	case in.Local == nil:
		return nil, nil
	case in.Related[0](in.Key.Name) == nil:
		return []Action{DeleteRemote{}}, nil
	}
	return []Action{Apply{Config: corev1apply.Secret(in.Key.Name, in.Facts.RemoteNamespace).WithLabels(owned)}}, nil
}

// What this process writes is no news for the definition that wrote it, but for those that depend on it.
func TestARelatedObjectOfTheProviderThatIsReflectedDecidesAgain(t *testing.T) {
	local, remote := mapped(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}})
	w := start(t, local, remote, maps{}, awaiting{})
	w.fence(t, "fence")
	isThere := func() bool {
		_, ok := get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.Secret{})
		return ok
	}
	assert.False(t, isThere())
	require.Eventually(t, func() bool { return remote.openWatches() == 2 }, soon, tick, "the informer is shared")
	parent := localMap("settings", map[string]string{"k": "1"})
	require.NoError(t, local.Create(t.Context(), parent))
	require.Eventually(t, isThere, soon, tick)
	require.NoError(t, local.Delete(t.Context(), parent))
	require.Eventually(t, func() bool { return !isThere() }, soon, tick)
	assert.Empty(t, w.journal.all())
}

// untyped is [maps] without a Go type.
type untyped struct{}

func (untyped) Resource() Resource {
	resource := maps{}.Resource()
	kind := Kind{
		New: func() client.Object {
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		},
		NewList: func() client.ObjectList {
			return &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMapList"}}
		},
	}
	resource.Local, resource.Remote = kind, kind
	return resource
}

func (untyped) Decide(in Input) ([]Action, error) {
	local, ok := in.Local.(*unstructured.Unstructured)
	switch {
	case !ok && in.Remote != nil:
		return []Action{DeleteRemote{}}, nil
	case !ok:
		return nil, nil
	}
	data, _, err := unstructured.NestedStringMap(local.Object, "data")
	if err != nil {
		return nil, err
	}
	return []Action{Apply{Config: corev1apply.ConfigMap(in.Key.Name, in.Facts.RemoteNamespace).
		WithLabels(labels.Merge(in.Labels, owned)).WithData(data)}}, nil
}

func TestAKindWithoutAGoTypeIsReflected(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, remote, untyped{})
	w.remoteData(t, "settings", "1")
	changed := localMap("settings", map[string]string{"k": "2"})
	require.NoError(t, local.Update(t.Context(), changed))
	w.remoteData(t, "settings", "2")
	require.NoError(t, local.Delete(t.Context(), changed))
	w.remoteGone(t, "settings")
}

func TestLostObjectsAreRememberedForTheirSubscribersOnly(t *testing.T) {
	kind := Kind{New: func() client.Object { return &corev1.Pod{} }, HasEnded: func(client.Object) bool { return false }}
	i := &informer{subscribers: map[string][]subscriber{}}
	i.store = newStore(kind, i.changed)
	i.add(subscriber{role: &role{isRemote: true, changed: func(*namespaceCaches, client.Object) {}}, caches: &namespaceCaches{ns: &namespace{remote: "shop"}, runner: &runner{engine: &Engine{}}}})
	for _, namespace := range []string{"shop", "bank"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", ResourceVersion: "1"}}
		require.NoError(t, i.store.Add(pod))
		gone := pod.DeepCopy()
		gone.ResourceVersion = "2"
		require.NoError(t, i.store.Delete(gone))
	}
	assert.True(t, i.store.isLost("shop", "web"))
	assert.False(t, i.store.isLost("bank", "web"), "no subscriber asks about it")
}

// An API server finds the pods of a node by an index, but not for the initial events of a watch.
func TestObjectsThatFieldsSelectAreListed(t *testing.T) {
	c, err := client.NewWithWatch(&rest.Config{Host: "https://127.0.0.1:1"}, client.Options{Mapper: meta.NewDefaultRESTMapper(nil)})
	require.NoError(t, err)
	all := selection{client: c, kind: another{}.Resource().Local}
	some := all
	some.options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", "milan")
	ignored := func(error) {}
	assert.False(t, watchlist.DoesClientNotSupportWatchListSemantics(all.source(ignored)))
	assert.True(t, watchlist.DoesClientNotSupportWatchListSemantics(some.source(ignored)))
}
