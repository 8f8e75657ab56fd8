package mirror

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func define[T client.Object](k kind[T], class string) *definition[T] {
	d, _ := entry(k).Define(Options{
		Origin: remote.Origin{HomeClusterID: "rome-1", ProviderClusterID: "milan", NodeName: "milan-node"},
		Policy: offloadingv1beta1.AllowList, Workers: 3, Class: class,
	}).(*definition[T])
	return d
}

// metadata is that of the objects of these tests.
var metadata = metav1.ObjectMeta{Namespace: "shop", Name: "a"}

func managed(object client.Object) client.Object {
	object.SetLabels(map[string]string{offloadingv1beta1.OriginLabel: "rome-1", offloadingv1beta1.DestinationLabel: "milan"})
	return object
}

func deleting(object client.Object) client.Object {
	object.SetDeletionTimestamp(&metav1.Time{})
	return object
}

// input is an observation; nil objects are absent.
func input(local, current client.Object) engine.Input {
	return engine.Input{
		Key:   engine.Key{Namespace: "shop", Name: "a"},
		Facts: engine.Facts{HomeClusterID: "rome-1", ProviderClusterID: "milan", RemoteNamespace: "shop-rome"},
		Local: local, Remote: current,
	}
}

// steps returns the types of the actions of a decision, events with their reasons.
func steps(t *testing.T, d engine.Definition, in engine.Input) []string {
	t.Helper()
	actions, err := d.Decide(in)
	require.NoError(t, err)
	var out []string
	for _, action := range actions {
		switch a := action.(type) {
		case engine.Apply:
			out = append(out, "apply")
		case engine.DeleteRemote:
			out = append(out, "delete")
		case engine.RecordEvent:
			out = append(out, a.Reason)
		case engine.Keep:
			out = append(out, "keep: "+a.Reason)
		}
	}
	return out
}

// applied decodes the configuration that a decision applies.
func applied(t *testing.T, d engine.Definition, in engine.Input, into any) {
	t.Helper()
	actions, err := d.Decide(in)
	require.NoError(t, err)
	require.Len(t, actions, 1)
	require.IsType(t, engine.Apply{}, actions[0])
	body, err := json.Marshal(actions[0].(engine.Apply).Config)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, into))
}

// TestEveryKindIsMirroredTheSameWay runs the rows that do not depend on the kind.
func TestEveryKindIsMirroredTheSameWay(t *testing.T) {
	kinds := map[string]struct {
		definition engine.Definition
		object     func() client.Object
		// copied returns the remote object where its kind differs, labels are added to it.
		copied func() client.Object
		labels map[string]string
	}{
		"configmap": {definition: define(configMap, ""), object: func() client.Object { return &corev1.ConfigMap{ObjectMeta: metadata} }},
		"secret":    {definition: define(secret, ""), object: func() client.Object { return &corev1.Secret{ObjectMeta: metadata} }},
		"service":   {definition: define(service, ""), object: func() client.Object { return &corev1.Service{ObjectMeta: metadata} }},
		"ingress":   {definition: define(ingress, ""), object: func() client.Object { return &networkingv1.Ingress{ObjectMeta: metadata} }},
		"endpointslice": {
			definition: define(endpointSlice, ""),
			object:     func() client.Object { return &discoveryv1.EndpointSlice{ObjectMeta: metadata} },
			copied:     func() client.Object { return &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: metadata} },
			labels:     map[string]string{discoveryv1.LabelManagedBy: "endpointslice.reflection.liqo.io"},
		},
	}
	require.Len(t, kinds, len(Kinds()))
	for _, k := range Kinds() {
		require.Contains(t, kinds, k.Name)
	}
	skipped := func(in engine.Input, annotated bool) engine.Input {
		in.Skipped, in.SkipAnnotated = true, annotated
		return in
	}
	for name, k := range kinds {
		object, copied := k.object, k.object
		if k.copied != nil {
			copied = k.copied
		}
		tests := map[string]struct {
			in   engine.Input
			want []string
		}{
			"a new object is applied":                       {input(object(), nil), []string{"apply"}},
			"an object is applied again":                    {input(object(), managed(copied())), []string{"apply"}},
			"the copy of a deleted object is deleted":       {input(nil, managed(copied())), []string{"delete"}},
			"the copy of a skipped object is deleted":       {skipped(input(object(), managed(copied())), false), []string{"delete"}},
			"an annotation that skips is recorded":          {skipped(input(object(), managed(copied())), true), []string{"delete", engine.ReasonReflectionDisabled}},
			"a skipped object without copy is left":         {skipped(input(object(), nil), false), []string{"keep: the local object is skipped"}},
			"an unmanaged object is left, with an event":    {input(object(), copied()), []string{engine.ReasonFailedReflection}},
			"an unmanaged object without local one is left": {input(nil, copied()), []string{"keep: the remote object is not managed by reflection"}},
			"an object that is being deleted is awaited":    {input(object(), deleting(managed(copied()))), []string{"keep: the remote object is being deleted"}},
		}
		for row, tc := range tests {
			t.Run(name+": "+row, func(t *testing.T) {
				assert.Equal(t, tc.want, steps(t, k.definition, tc.in))
			})
		}
		t.Run(name+": metadata", func(t *testing.T) {
			in := input(object(), nil)
			in.Labels, in.Annotations = map[string]string{"app": "web"}, map[string]string{"note": "x"}
			var got struct{ Metadata metav1.ObjectMeta }
			applied(t, k.definition, in, &got)
			labels := map[string]string{"app": "web", offloadingv1beta1.OriginLabel: "rome-1", offloadingv1beta1.DestinationLabel: "milan"}
			maps.Copy(labels, k.labels)
			assert.Equal(t, metav1.ObjectMeta{
				Namespace: "shop-rome", Name: "a", Annotations: map[string]string{"note": "x"}, Labels: labels,
			}, got.Metadata)
		})
		t.Run(name+": resource", func(t *testing.T) {
			resource := k.definition.Resource()
			assert.Equal(t, name, resource.Name)
			assert.Equal(t, 3, resource.Workers)
			assert.Equal(t, offloadingv1beta1.AllowList, resource.Policy)
			assert.True(t, resource.Filter)
			assert.True(t, resource.LeaderOnly)
			assert.Equal(t, name == "secret", resource.LocalPerNamespace)
			assert.IsType(t, object(), resource.Local.New())
			assert.IsType(t, copied(), resource.Remote.New())
		})
	}
}

// replacement is a row about an object that an update cannot change into what is desired.
type replacement[T client.Object] struct {
	desired, current T
	want             bool
}

func testReplacements[T client.Object](t *testing.T, d *definition[T], tests map[string]replacement[T]) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, _ := d.Replaces(tc.desired, tc.current)
			assert.Equal(t, tc.want, got)
		})
	}
}
