package feed

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/longshore-dev/longshore/host/kit/feed"
)

func TestPasses(t *testing.T) {
	shows := func(namespace string) bool { return namespace == "mine" }
	for name, test := range map[string]struct {
		raw  string
		want bool
	}{
		"an object of the caller":       {`{"type":"ADDED","object":{"metadata":{"namespace":"mine"}}}`, true},
		"a change":                      {`{"type":"MODIFIED","object":{"metadata":{"namespace":"mine"}}}`, true},
		"a deletion":                    {`{"type":"DELETED","object":{"metadata":{"namespace":"mine"}}}`, true},
		"an object of another consumer": {`{"type":"ADDED","object":{"metadata":{"namespace":"other"}}}`, false},
		"the deletion of another":       {`{"type":"DELETED","object":{"metadata":{"namespace":"other"}}}`, false},
		"an object without a namespace": {`{"type":"ADDED","object":{"metadata":{"name":"mine"}}}`, false},
		"the namespace at another path": {`{"type":"ADDED","object":{"namespace":"mine","metadata":{"namespace":"other"}}}`, false},
		"a bookmark":                    {`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}`, true},
		"an error":                      {`{"type":"ERROR","object":{"kind":"Status","code":410}}`, true},
		"a bookmark with an object":     {`{"type":"BOOKMARK","object":{"metadata":{"namespace":"other"}}}`, false},
		"an unknown type":               {`{"type":"OTHER","object":{"metadata":{"namespace":"mine"}}}`, false},
		"no type":                       {`{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := parseJSON([]byte(test.raw))
			require.NoError(t, err)
			assert.Equal(t, test.want, passes(e, shows))
		})
	}
	for _, raw := range []string{`{"type":1}`, `[]`, `{"type":"ADDED","object":{"metadata":{"namespace":"mine"}}`, ``} {
		_, err := parseJSON([]byte(raw))
		assert.Error(t, err, raw)
	}
}

func TestTheEndOfTheInitialEvents(t *testing.T) {
	const annotated = `"object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`
	for raw, want := range map[string]bool{
		`{"type":"BOOKMARK",` + annotated:                                   true,
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}`: false,
		`{"type":"ADDED",` + annotated:                                      false,
	} {
		e, err := parseJSON([]byte(raw))
		require.NoError(t, err)
		assert.Equal(t, want, e.endsInitial, raw)
	}
}

func TestObjectsHaveNoManagedFieldsOfUpdates(t *testing.T) {
	const fields = `[{"manager":"kubelet","fieldsV1":{"f:status":{}}}]`
	for name, test := range map[string]struct{ raw, want string }{
		"last, as in built-in kinds": {
			`{"type":"ADDED","object":{"metadata":{"name":"a","managedFields":` + fields + `},"spec":{}}}`,
			`{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{}}}`,
		},
		"in the middle, as in custom resources": {
			`{"type":"ADDED","object":{"metadata":{"generation":1,"managedFields":` + fields + `,"name":"a"}}}`,
			`{"type":"ADDED","object":{"metadata":{"generation":1,"name":"a"}}}`,
		},
		"first": {
			`{"type":"ADDED","object":{"metadata":{"managedFields":` + fields + `,"name":"a"}}}`,
			`{"type":"ADDED","object":{"metadata":{"name":"a"}}}`,
		},
		"alone": {
			`{"type":"ADDED","object":{"metadata":{"managedFields":` + fields + `}}}`,
			`{"type":"ADDED","object":{"metadata":{}}}`,
		},
		"none": {`{"type":"ADDED","object":{"metadata":{"name":"a"}}}`, `{"type":"ADDED","object":{"metadata":{"name":"a"}}}`},
		"in an annotation, which has a copy": {
			`{"type":"ADDED","object":{"metadata":{"annotations":{"copy":"{\"managedFields\":` + `[]}"},"managedFields":` + fields + `}}}`,
			`{"type":"ADDED","object":{"metadata":{"annotations":{"copy":"{\"managedFields\":[]}"}}}}`,
		},
		"beside those of an embedded object": {
			`{"type":"ADDED","object":{"a":{"managedFields":[1]},"metadata":{"managedFields":` + fields + `},"b":{"managedFields":[2]}}}`,
			`{"type":"ADDED","object":{"a":{"managedFields":[1]},"metadata":{},"b":{"managedFields":[2]}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := parseJSON([]byte(test.raw))
			require.NoError(t, err)
			assert.Equal(t, test.want+"\n", string(e.raw))
		})
	}
}

func TestParseProtobuf(t *testing.T) {
	updated := metav1.ManagedFieldsEntry{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)}
	applied := metav1.ManagedFieldsEntry{Manager: "me", Operation: metav1.ManagedFieldsOperationApply}
	pod := func(managed ...metav1.ManagedFieldsEntry) *corev1.Pod {
		return &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "a", ResourceVersion: "7", Labels: map[string]string{"app": "web"}, ManagedFields: managed},
			Spec:       corev1.PodSpec{NodeName: "worker", Containers: []corev1.Container{{Name: "c"}}},
		}
	}
	ended := &corev1.Pod{TypeMeta: pod().TypeMeta, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, ListMeta: metav1.ListMeta{Continue: "mine"}, Reason: metav1.StatusReasonExpired, Code: 410}
	for name, test := range map[string]struct {
		kind   watch.EventType
		object runtime.Object
		want   event
		sent   runtime.Object
	}{
		"an object":                         {watch.Added, pod(), event{namespace: "mine", version: "7"}, pod()},
		"managed fields of updates":         {watch.Modified, pod(updated, updated), event{namespace: "mine", version: "7"}, pod()},
		"managed fields of an apply":        {watch.Deleted, pod(updated, applied), event{namespace: "mine", version: "7"}, pod(updated, applied)},
		"the end of the initial events":     {watch.Bookmark, ended, event{version: "9", endsInitial: true}, ended},
		"an object that has the annotation": {watch.Added, ended, event{version: "9"}, ended},
		"an error, whose object is no pod":  {watch.Error, status, event{}, status},
		"an event of an unknown type":       {watch.EventType("OTHER"), pod(), event{namespace: "mine", version: "7"}, pod()},
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := feed.ProtobufEvent(test.kind, test.object)
			require.NoError(t, err)
			received := feed.Protobuf.Events(bytes.NewReader(encoded))
			require.True(t, received.Scan())
			e, err := parse(feed.Protobuf, received.Bytes())
			require.NoError(t, err)
			want, err := feed.ProtobufEvent(test.kind, test.sent)
			require.NoError(t, err)
			assert.Equal(t, want, e.raw)
			test.want.kind, test.want.raw = test.kind, want
			assert.Equal(t, test.want, e)
		})
	}
}

// TestMetadataOfEachBuiltInKind shows that they are in the field that parseProtobuf reads.
func TestMetadataOfEachBuiltInKind(t *testing.T) {
	for _, resource := range feed.Resources() {
		kind, _ := feed.KindOf(resource)
		if !clientgoscheme.Scheme.Recognizes(kind) {
			continue // Custom resources are JSON.
		}
		created, err := clientgoscheme.Scheme.New(kind)
		require.NoError(t, err)
		created.GetObjectKind().SetGroupVersionKind(kind)
		object, err := meta.Accessor(created)
		require.NoError(t, err)
		object.SetNamespace("mine")
		object.SetResourceVersion("7")
		whole, err := feed.ProtobufEvent(watch.Added, created)
		require.NoError(t, err)
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate}})
		sent, err := feed.ProtobufEvent(watch.Added, created)
		require.NoError(t, err)
		received := feed.Protobuf.Events(bytes.NewReader(sent))
		require.True(t, received.Scan())
		e, err := parse(feed.Protobuf, received.Bytes())
		require.NoError(t, err)
		assert.Equal(t, event{kind: watch.Added, namespace: "mine", version: "7", raw: whole}, e, resource)
	}
}

// FuzzParseProtobuf checks that an event means the same after it was read, and that all else is refused.
func FuzzParseProtobuf(f *testing.F) {
	encoded, err := feed.ProtobufEvent(watch.Added, &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{ManagedFields: make([]metav1.ManagedFieldsEntry, 1)}})
	require.NoError(f, err)
	f.Add(encoded[4:])
	f.Add([]byte(`{"type":"ADDED"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := parse(feed.Protobuf, raw)
		if err != nil {
			return
		}
		read := feed.Protobuf.Events(bytes.NewReader(e.raw))
		require.True(t, read.Scan())
		again, err := parse(feed.Protobuf, read.Bytes())
		require.NoError(t, err)
		assert.Equal(t, []string{string(e.kind), e.namespace, e.version}, []string{string(again.kind), again.namespace, again.version})
	})
}

// FuzzParseJSON checks that an event means the same without managedFields.
func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"name":"a","managedFields":[{"manager":"kubelet"}]},"spec":{}}}`))
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"managedFields":[],"name":"\"managedFields\":[]"}}}`))
	f.Add([]byte(`{"object":{"spec":{"managedFields":null},"metadata":{"managedFields":null}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := parseJSON(raw)
		if err != nil {
			return
		}
		var before, after any
		require.NoError(t, json.Unmarshal(raw, &before))
		require.NoError(t, json.Unmarshal(e.raw, &after))
		if !assert.ObjectsAreEqual(before, after) {
			assert.Equal(t, without(before), without(after), "%s", e.raw)
		}
	})
}

// without removes the managedFields from all objects.
func without(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if strings.EqualFold(key, "managedFields") {
				delete(v, key)
				continue
			}
			v[key] = without(inner)
		}
	case []any:
		for i := range v {
			v[i] = without(v[i])
		}
	}
	return value
}
