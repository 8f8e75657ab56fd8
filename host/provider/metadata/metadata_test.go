package metadata

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const manager = "shadow-pod"

// managed returns the managed fields of one manager.
func managed(name, fields string) []metav1.ManagedFieldsEntry {
	entry := metav1.ManagedFieldsEntry{
		Manager: name, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{},
	}
	entry.FieldsV1.SetRawString(fields)
	return []metav1.ManagedFieldsEntry{entry}
}

// ours are the managed fields after the creation by this controller.
var ours = managed(manager, `{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:old":{}},"f:annotations":{".":{},"f:note":{},"f:gone":{}}},"f:spec":{"f:containers":{}}}`)

func TestCompare(t *testing.T) {
	type metadata = map[string]string
	tests := map[string]struct {
		labels, annotations         metadata
		wantLabels, wantAnnotations metadata
		fields                      []metav1.ManagedFieldsEntry
		// want is the patch: "+key=value" and "-key", labels before annotations.
		want    []string
		removes bool
	}{
		"nothing differs": {
			labels: metadata{"app": "web"}, annotations: metadata{"note": "x"},
			wantLabels: metadata{"app": "web"}, wantAnnotations: metadata{"note": "x"}, fields: ours,
		},
		"missing and different keys are set": {
			labels: metadata{"app": "web"}, wantLabels: metadata{"app": "shop", "new": "x"}, wantAnnotations: metadata{"note": "x"}, fields: ours,
			want: []string{"+app=shop", "+new=x", "+note=x"},
		},
		"keys of this controller that are no longer desired are removed (T22)": {
			labels: metadata{"app": "web", "old": "x"}, annotations: metadata{"note": "x", "gone": "y"},
			wantLabels: metadata{"app": "web"}, wantAnnotations: metadata{"note": "x"}, fields: ours,
			want: []string{"-old", "-gone"}, removes: true,
		},
		"keys of another manager stay": {
			labels: metadata{"app": "web", "theirs": "x"}, annotations: metadata{"cni": "10.0.0.1/32"}, wantLabels: metadata{"app": "web"},
			fields: append(slices.Clone(ours), managed("cni", `{"f:metadata":{"f:labels":{"f:theirs":{}},"f:annotations":{"f:cni":{}}}}`)...),
		},
		"keys of an admission webhook have no manager and stay": {
			labels: metadata{"app": "web", "mesh": "x"}, wantLabels: metadata{"app": "web"}, fields: ours,
		},
		"keys with a second manager stay": {
			labels: metadata{"app": "web", "old": "x"}, wantLabels: metadata{"app": "web"},
			fields: append(managed("kubectl", `{"f:metadata":{"f:labels":{"f:old":{}}}}`), ours...),
		},
		"other keys of another manager do not matter": {
			labels: metadata{"app": "web", "old": "x", "theirs": "x"}, wantLabels: metadata{"app": "web"},
			fields: append(managed("kubectl", `{"f:metadata":{"f:labels":{"f:theirs":{}}}}`), ours...),
			want:   []string{"-old"}, removes: true,
		},
		"an annotation and a label of the same key are different": {
			labels: metadata{"app": "web", "note": "x"}, wantLabels: metadata{"app": "web"}, fields: ours,
		},
		"keys with slashes and dots": {
			labels: metadata{"example.com/team": "x"}, fields: managed(manager, `{"f:metadata":{"f:labels":{"f:example.com/team":{}}}}`),
			want: []string{"-example.com/team"}, removes: true,
		},
		"keys of the reference system's controller, set by apply": {
			labels: metadata{"old": "x"},
			fields: []metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: managed("", `{"f:metadata":{"f:labels":{"f:old":{}}}}`)[0].FieldsV1}},
			want:   []string{"-old"}, removes: true,
		},
		"without managed fields nothing is removed": {
			labels: metadata{"app": "web", "old": "x"}, wantLabels: metadata{"app": "web"},
		},
		"an entry without fields": {
			labels: metadata{"old": "x"}, fields: []metav1.ManagedFieldsEntry{{Manager: manager}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations, ManagedFields: tc.fields}}
			before := pod.DeepCopy()
			want := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.wantLabels, Annotations: tc.wantAnnotations}}
			got, err := Compare(pod, want, manager)
			require.NoError(t, err)
			assert.Equal(t, tc.want, append(listed(got.Labels), listed(got.Annotations)...))
			assert.Equal(t, tc.removes, got.Removes)
			assert.Equal(t, len(tc.want) == 0, got.IsEmpty())
			assert.Equal(t, before, pod)
		})
	}
	t.Run("managed fields that cannot be parsed", func(t *testing.T) {
		for _, other := range []string{manager, "kubectl"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: metadata{"old": "x"}, ManagedFields: managed(other, `{"f:metadata":{"f:labels":[]}}`)}}
			_, err := Compare(pod, &corev1.Pod{}, manager)
			assert.ErrorContains(t, err, other)
		}
	})
}

// listed returns a sorted patch.
func listed(patch map[string]*string) []string {
	var out []string
	for key, value := range patch {
		if value == nil {
			out = append(out, "-"+key)
			continue
		}
		out = append(out, "+"+key+"="+*value)
	}
	slices.Sort(out)
	return out
}

func TestTrim(t *testing.T) {
	status := managed("kubelet", `{"f:status":{"f:phase":{}}}`)
	others := managed("kubectl", `{"f:metadata":{"f:annotations":{"f:x":{}}}}`)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: slices.Concat(status, ours, others)}}
	got, err := Trim(pod)
	require.NoError(t, err)
	assert.Equal(t, slices.Concat(ours, others), got.(*corev1.Pod).ManagedFields)

	type tombstone struct{}
	got, err = Trim(tombstone{})
	require.NoError(t, err)
	assert.Equal(t, tombstone{}, got)
}
