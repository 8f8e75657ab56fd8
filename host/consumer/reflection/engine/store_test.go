package engine

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func configMap(name, uid, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: version,
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "another-manager"}},
	}}
}

var storeTests = map[string]struct {
	steps func(t *testing.T, s *store)
	// want is the resource version of "a" at the end, "" for absent.
	want        string
	wantChanges int
}{
	"what the reflector sees is news": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Add(configMap("a", "u1", "10")))
			require.NoError(t, s.Update(configMap("a", "u1", "11")))
		},
		want: "11", wantChanges: 2,
	},
	"our own write is known at once, and no news when it comes back": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			s.Assume(configMap("a", "u1", "10"))
			require.NoError(t, s.Add(configMap("a", "u1", "10")))
		},
		want: "10", wantChanges: 0,
	},
	"an event older than our write does not undo it": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Add(configMap("a", "u1", "8")))
			s.Assume(configMap("a", "u1", "10"))
			require.NoError(t, s.Update(configMap("a", "u1", "9")))
		},
		want: "10", wantChanges: 2,
	},
	"a deletion that the answer to our write has is news": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Add(configMap("a", "u1", "8")))
			deleted := func(version string) *corev1.ConfigMap {
				object := configMap("a", "u1", version)
				object.DeletionTimestamp = &metav1.Time{}
				return object
			}
			s.Assume(deleted("10")) // decided before the deletion
			require.NoError(t, s.Update(deleted("9")))
			require.NoError(t, s.Update(deleted("10")))
		},
		want: "10", wantChanges: 2,
	},
	"the events of our own writes are none": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			s.Assume(configMap("a", "u1", "10"))
			s.Assume(configMap("a", "u1", "11"))
			s.Assume(configMap("a", "u1", "12"))
			for _, version := range []string{"10", "11", "12"} {
				require.NoError(t, s.Update(configMap("a", "u1", version)))
			}
		},
		want: "12", wantChanges: 0,
	},
	"one of another writer between them is": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			s.Assume(configMap("a", "u1", "10"))
			s.Assume(configMap("a", "u1", "12"))
			for _, version := range []string{"10", "11", "12"} {
				require.NoError(t, s.Update(configMap("a", "u1", version)))
			}
		},
		want: "12", wantChanges: 1,
	},
	"a list that has our write may lack the event of another writer": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "8")}, "8"))
			s.Assume(configMap("a", "u1", "10"))
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "10")}, "20"))
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "10")}, "30"))
		},
		want: "10", wantChanges: 2,
	},
	"so may one that was read beside the watch": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "8")}, "8"))
			s.Assume(configMap("a", "u1", "10"))
			assert.True(t, s.refresh([]any{configMap("a", "u1", "10")}, "20"))
		},
		want: "10", wantChanges: 2,
	},
	"versions are compared as numbers": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Add(configMap("a", "u1", "9")))
			require.NoError(t, s.Update(configMap("a", "u1", "10")))
		},
		want: "10", wantChanges: 2,
	},
	"the end of an earlier object does not remove what we created since": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Add(configMap("a", "u1", "8")))
			s.Assume(configMap("a", "u2", "12"))
			require.NoError(t, s.Delete(configMap("a", "u1", "11")))
		},
		want: "12", wantChanges: 1,
	},
	"a write whose object was deleted before it was seen is refuted by the deletion": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			s.Assume(configMap("a", "u1", "10"))
			require.NoError(t, s.Delete(configMap("a", "u1", "11")))
		},
		want: "", wantChanges: 1,
	},
	"a write whose object is seen to come and go before our answer is read stays gone": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Add(configMap("a", "u1", "10")))
			require.NoError(t, s.Delete(configMap("a", "u1", "11")))
			s.Assume(configMap("a", "u1", "10"))
		},
		want: "", wantChanges: 2,
	},
	"so does one that a later event of another object overtakes": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Add(configMap("b", "u2", "12")))
			s.Assume(configMap("a", "u1", "10"))
		},
		want: "", wantChanges: 1,
	},
	"so does one that a bookmark or a list overtakes": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Replace(nil, "9"))
			require.NoError(t, s.Bookmark("12"))
			s.Assume(configMap("a", "u1", "10"))
			require.NoError(t, s.Replace(nil, "20"))
			s.Assume(configMap("a", "u1", "15"))
		},
		want: "", wantChanges: 0,
	},
	"a list that goes back in time takes our writes for news again": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Bookmark("30"))
			require.NoError(t, s.Replace(nil, "20"))
			s.Assume(configMap("a", "u1", "25"))
		},
		want: "25", wantChanges: 0,
	},
	"a list of a server that was restored from a backup replaces newer objects": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "40"), configMap("b", "u2", "10")}, "50"))
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "20"), configMap("b", "u2", "10")}, "30"))
		},
		want: "20", wantChanges: 4,
	},
	"a list of a restored server lacks what we wrote after its backup": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Replace(nil, "50"))
			s.Assume(configMap("a", "u1", "51"))
			require.NoError(t, s.Replace(nil, "30"))
		},
		want: "", wantChanges: 1,
	},
	"a restored server that has reached the version again has older objects": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "40")}, "50"))
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "20")}, "60"))
		},
		want: "20", wantChanges: 2,
	},
	"a restored server that has reached the version again lost a deletion": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "10")}, "50"))
			s.AssumeDeleted("ns", "a", "u1", metav1.Now())
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "10")}, "60"))
			assert.Nil(t, s.Get("ns", "a").GetDeletionTimestamp())
		},
		want: "10", wantChanges: 2,
	},
	"a server that is behind our last write lacks it": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Replace(nil, "20"))
			s.Assume(configMap("a", "u1", "40"))
			assert.False(t, s.detectRestore("40"))
			assert.True(t, s.detectRestore("30"))
			require.NoError(t, s.Replace(nil, "31"))
			assert.False(t, s.detectRestore("31"))
		},
		want: "", wantChanges: 1,
	},
	"a deletion that a restored server lost is not assumed": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "10")}, "50"))
			s.AssumeDeleted("ns", "a", "u1", metav1.Now())
			assert.True(t, s.detectRestore("30"))
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "10")}, "50"))
			assert.Nil(t, s.Get("ns", "a").GetDeletionTimestamp())
		},
		want: "10", wantChanges: 2,
	},
	"what a restored server deletes is gone": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "40")}, "50"))
			require.NoError(t, s.Replace([]any{configMap("a", "u1", "20")}, "30"))
			require.NoError(t, s.Delete(configMap("a", "u1", "31")))
		},
		want: "", wantChanges: 3,
	},
	"a write that never comes back is refuted by a newer bookmark": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			s.Assume(configMap("a", "u1", "10"))
			require.NoError(t, s.Bookmark("11"))
		},
		want: "", wantChanges: 1,
	},
	"an older bookmark refutes nothing": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			s.Assume(configMap("a", "u1", "10"))
			require.NoError(t, s.Bookmark("9"))
		},
		want: "10", wantChanges: 0,
	},
	"a bookmark leaves what was seen": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			s.Assume(configMap("a", "u1", "10"))
			require.NoError(t, s.Add(configMap("a", "u1", "10")))
			require.NoError(t, s.Bookmark("99"))
		},
		want: "10", wantChanges: 0,
	},
	"a list removes what it lacks": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Add(configMap("a", "u1", "10")))
			require.NoError(t, s.Replace([]any{configMap("b", "u2", "5")}, "20"))
		},
		want: "", wantChanges: 3,
	},
	"a list older than our write leaves it": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			s.Assume(configMap("a", "u1", "30"))
			require.NoError(t, s.Replace(nil, "20"))
		},
		want: "30", wantChanges: 0,
	},
	"a list newer than our write refutes it": {
		steps: func(t *testing.T, s *store) {
			t.Helper()
			s.Assume(configMap("a", "u1", "10"))
			require.NoError(t, s.Replace(nil, "20"))
		},
		want: "", wantChanges: 1,
	},
}

func TestStore(t *testing.T) {
	for name, tc := range storeTests {
		for encoding, isEncoded := range map[string]bool{"objects": false, "encoded": true} {
			t.Run(name+", "+encoding, func(t *testing.T) {
				changes := 0
				kind := Kind{New: func() client.Object { return &corev1.ConfigMap{} }, Encoded: isEncoded}
				s := newStore(kind, func(client.Object) { changes++ })
				tc.steps(t, s)
				got := s.Get("ns", "a")
				if tc.want == "" {
					assert.Nil(t, got)
				} else {
					require.NotNil(t, got)
					assert.Equal(t, tc.want, got.GetResourceVersion())
					assert.Empty(t, got.GetManagedFields(), "managed fields are not cached")
				}
				assert.Equal(t, tc.wantChanges, changes, "changes")
			})
		}
	}
}

// A heartbeat of a Node decides nothing again: what changed was trimmed.
func TestAChangeOfWhatIsTrimmedIsNoNews(t *testing.T) {
	changes := 0
	s := newStore(Kind{Trim: func(object client.Object) { object.(*corev1.ConfigMap).Data = nil }}, func(client.Object) { changes++ })
	version := func(version, data, label string) *corev1.ConfigMap {
		object := configMap("a", "u1", version)
		object.Data, object.Labels = map[string]string{"beat": data}, map[string]string{"label": label}
		return object
	}
	require.NoError(t, s.Add(version("10", "1", "x")))
	require.NoError(t, s.Update(version("11", "2", "x")))
	assert.Equal(t, 1, changes)
	assert.Equal(t, "11", s.Get("ns", "a").GetResourceVersion())
	require.NoError(t, s.Update(version("12", "2", "y")))
	assert.Equal(t, 2, changes)

	s.Assume(version("14", "2", "z"))
	require.NoError(t, s.Update(version("13", "2", "z")))
	assert.Equal(t, 3, changes, "what another writer changed before an answer is decided")
}

func TestStoreAssumeDeleted(t *testing.T) {
	s := newStore(Kind{}, func(client.Object) {})
	original := configMap("a", "u1", "10")
	require.NoError(t, s.Add(original))

	s.AssumeDeleted("ns", "a", "another", metav1.Now())
	assert.Nil(t, s.Get("ns", "a").GetDeletionTimestamp(), "another object's deletion")

	s.AssumeDeleted("ns", "a", "u1", metav1.Now())
	assert.NotNil(t, s.Get("ns", "a").GetDeletionTimestamp())
	assert.Nil(t, original.DeletionTimestamp, "what others hold is not altered")
}

func TestStoreSyncsOnce(t *testing.T) {
	s := newStore(Kind{}, func(client.Object) {})
	require.NoError(t, s.Replace(nil, "1"))
	require.NoError(t, s.Replace(nil, "2"))
	assert.True(t, waitFor(t.Context(), s.synced))
}

// A reader gets what was stored, and may change it.
func TestEncodedObjectsAreReadAsTheyWereStored(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: "ns", Name: "a", UID: "u1", ResourceVersion: "10", Generation: 3,
		CreationTimestamp: metav1.Unix(1_700_000_000, 0), Labels: map[string]string{"app": "web", "example.org/tier": "front", "empty": ""},
		ManagedFields: appliedEntry(metav1.NewFieldsV1(`{"f:data":{"f:key":{}}}`)),
	}
	pod := corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "main", Image: "nginx", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
		}},
		TerminationGracePeriodSeconds: new(int64),
	}
	for name, object := range map[string]client.Object{
		"a built-in kind":   &corev1.Pod{ObjectMeta: meta, Spec: pod, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
		"binary data":       &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"key": {0, 255}}},
		"a custom resource": &offloadingv1beta1.ShadowPod{ObjectMeta: meta, Spec: offloadingv1beta1.ShadowPodSpec{Pod: pod}},
		"no labels":         &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u1", ResourceVersion: "10"}},
		"an unstructured kind with labels": &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Database", "metadata": map[string]any{
			"namespace": "ns", "name": "a", "uid": "u1", "resourceVersion": "10", "labels": map[string]any{"app": "web"},
			"managedFields": []any{map[string]any{"manager": FieldManager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}},
		}}},
		"an unstructured kind": &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Database", "metadata": map[string]any{"namespace": "ns", "name": "a", "uid": "u1", "resourceVersion": "10"}, "spec": map[string]any{"size": int64(3)}}},
	} {
		t.Run(name, func(t *testing.T) {
			kind := Kind{Encoded: true, New: func() client.Object {
				return reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
			}}
			s := newStore(kind, func(client.Object) {})
			added := object.DeepCopyObject()
			require.NoError(t, s.Add(added))
			assert.True(t, equality.Semantic.DeepEqual(object, added), "what subscribers get: %#v", added)
			got := s.Get("ns", "a")
			assert.True(t, equality.Semantic.DeepEqual(object, got), "%#v", got)
			got.SetLabels(map[string]string{"changed": "by the reader"})
			assert.Equal(t, object.GetLabels(), s.Get("ns", "a").GetLabels())
		})
	}
}
