package document_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/document"
)

type inner struct {
	Zeta  string            `json:"zeta"`
	Alpha map[string]string `json:"alpha,omitempty"`
	Skip  string            `json:"-"`
}

// stamp marshals itself, like metav1.Time.
type stamp struct{ time.Time }

func (s stamp) MarshalJSON() ([]byte, error) {
	return []byte(`"<` + s.Format(time.DateOnly) + `>"`), nil
}

type (
	key   string
	shout string
)

// MarshalText makes encoding/json ignore that the type is a string.
func (s shout) MarshalText() ([]byte, error) { return []byte(string(s) + "!"), nil }

type outer struct {
	inner    `json:",inline"`
	Number   int32           `json:"number,omitempty"`
	Float    float64         `json:"float"`
	Small    float32         `json:"small,omitempty"`
	Exact    json.Number     `json:"exact,omitempty"`
	Shout    shout           `json:"shout,omitempty"`
	List     []inner         `json:"list"`
	Nested   *inner          `json:"nested,omitempty"`
	Keys     map[key]int     `json:"keys,omitempty"`
	Pairs    [2]bool         `json:"pairs"`
	Raw      json.RawMessage `json:"raw,omitempty"`
	When     stamp           `json:"when,omitzero"`
	Bytes    []byte          `json:"bytes,omitempty"`
	Any      any             `json:"any,omitempty"`
	Flag     *bool           `json:"flag,omitempty"`
	Untagged uint8
	hidden   string
}

func full() *outer {
	flag := false
	return &outer{
		inner: inner{Zeta: "a\"\\\n\t\r\x01\x7fé<>&\u2028", Alpha: map[string]string{"b": "1", "a": "2", "é<": ""}, Skip: "x"},
		Float: 1.5, Small: 0.1, Exact: "1.50", Shout: "hey", List: []inner{{}, {Zeta: "z"}}, Nested: &inner{Zeta: "n"},
		Keys: map[key]int{"k2": 2, "k1": 1}, Raw: json.RawMessage(`{ "z":1, "a":[1.50,null,1e21], "n":null }`),
		When: stamp{time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}, Bytes: []byte("hi"), Any: map[string]any{"y": nil, "x": true},
		Flag: &flag, Untagged: 3, hidden: "h",
	}
}

func pod() *corev1.Pod {
	grace := int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", CreationTimestamp: metav1.Unix(1_700_000_000, 0), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace, DNSPolicy: corev1.DNSDefault, Affinity: &corev1.Affinity{},
			Containers: []corev1.Container{{
				Name:          "c",
				Resources:     corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
				LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}},
			}},
		},
	}
}

// canonical is what Append must append, by way of encoding/json.
func canonical(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	decoded, err := jsonvalue.Decode(text)
	require.NoError(t, err)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(withoutNulls(decoded)))
	return string(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
}

func withoutNulls(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if withoutNulls(member) == nil {
				delete(v, name)
			}
		}
	case []any:
		for _, item := range v {
			withoutNulls(item)
		}
	}
	return value
}

// Structs are read by their tags like encoding/json reads them.
func TestStructsAndMapsAreEncodedAlike(t *testing.T) {
	for name, value := range map[string]any{
		"a struct": full(), "an empty struct": &outer{}, "a struct by value": *full(), "a list of structs": []outer{*full()}, "a nil pointer": (*outer)(nil),
		"a pod": pod(), "an empty pod": &corev1.Pod{}, "a nil map": map[string]any(nil), "a nil list": []any(nil), "nil JSON": json.RawMessage(nil),
		"nil members": map[string]any{"a": (*outer)(nil), "b": json.RawMessage("null"), "c": []any{nil}, "null": "null"},
		"integers":    []any{1, int8(2), int64(math.MinInt64), uint64(math.MaxUint64)}, "texts": []string{"a", "null", ""},
		"large texts": map[string]string{"<é>": strings.Repeat("é", 10_000)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := document.Append([]byte("before"), value)
			require.NoError(t, err)
			assert.Equal(t, "before"+canonical(t, value), string(got))
			text, err := json.Marshal(value)
			require.NoError(t, err)
			decoded, err := jsonvalue.Decode(text)
			require.NoError(t, err)
			assert.True(t, document.Equal(value, decoded))
			assert.True(t, document.Equal(decoded, value))
		})
	}
	for _, value := range []any{math.Inf(1), map[string]any{"x": math.NaN()}, []any{func() {}}, json.RawMessage("{"), map[string]any{"x": []any{json.RawMessage("")}}} {
		_, err := document.Append(nil, value)
		require.Error(t, err)
	}
	got, err := document.Append(nil, &inner{Zeta: "\xff\xfe"})
	require.NoError(t, err)
	assert.Equal(t, canonical(t, &inner{Zeta: "\xff\xfe"}), string(got), "invalid UTF-8")
	assert.False(t, document.Equal(json.RawMessage("{"), json.RawMessage("{")))
}

func FuzzAppend(f *testing.F) {
	for _, seed := range []string{`{"a":{"b":[1,-0,1e300,{"c":"d\"}<"}]},"e":null,"é":"\u2028\ud800"}`, `[]`, `"x"`, `9223372036854775808`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value, err := jsonvalue.Decode([]byte(text))
		if err != nil || !json.Valid([]byte(text)) {
			return
		}
		got, err := document.Append(nil, value)
		require.NoError(t, err)
		raw, err := document.Append(nil, json.RawMessage(text))
		require.NoError(t, err)
		require.Equal(t, string(got), string(raw))
		require.Equal(t, canonical(t, value), string(got))
	})
}

func TestOpenConvertsOneLevel(t *testing.T) {
	p := pod()
	members, err := document.Object(p)
	require.NoError(t, err)
	require.Same(t, &p.Spec, members["spec"])
	spec, err := document.Member(members, "spec")
	require.NoError(t, err)
	assert.Equal(t, "Default", spec["dnsPolicy"])
	items, err := document.List(spec["containers"])
	require.NoError(t, err)
	require.Same(t, &p.Spec.Containers[0], items[0])
	none, err := document.Member(spec, "volumes")
	require.NoError(t, err)
	assert.Nil(t, none)

	_, err = document.Member(spec, "containers")
	require.EqualError(t, err, "reading containers: found a list, want an object")
	_, err = document.List(true)
	require.Equal(t, &document.TypeError{Found: "a boolean", Want: "a list"}, err)
	_, err = document.Object(json.RawMessage("{"))
	require.Error(t, err)
}

func TestChangedAndWith(t *testing.T) {
	spec := pod().Spec
	before, err := document.Object(&spec)
	require.NoError(t, err)
	assert.Empty(t, document.Changed(before, before))
	same := document.With(before, "dnsPolicy", "Default")
	assert.Empty(t, document.Changed(before, same), "scalars are compared")
	after := document.With(document.With(before, "hostname", "h"), "containers", nil)
	assert.Equal(t, []string{"containers", "hostname"}, document.Changed(before, after))
	assert.Contains(t, before, "containers", "the object is not altered")
	assert.Equal(t, []string{"a"}, document.Changed(map[string]any{"a": nil}, map[string]any{"a": []any{}}))
	assert.Empty(t, document.Changed(map[string]any{"a": nil}, map[string]any{"a": nil}))
	assert.Equal(t, []string{"affinity"}, document.Changed(before, document.With(before, "affinity", &corev1.Affinity{})), "memory is compared")
}

func TestEqual(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b any
		want bool
	}{
		"a number in two types": {a: int64(1), b: 1.0, want: true},
		"a large number":        {a: int64(1<<53 + 1), b: float64(1 << 53)},
		"a number and a text":   {a: int64(1), b: "1"},
		"a null member":         {a: map[string]any{"x": nil, "y": int64(1)}, b: map[string]any{"y": int64(1)}, want: true},
		"null JSON":             {a: map[string]any{}, b: map[string]any{"x": json.RawMessage("null")}, want: true},
		"another member":        {a: map[string]any{"y": int64(1)}, b: map[string]any{"x": int64(1)}},
		"lists in two types":    {a: []string{"a"}, b: []any{"a"}, want: true},
		"a longer list":         {a: []any{"a"}, b: []any{"a", "b"}},
		"an object and a list":  {a: map[string]any{}, b: []any{}},
		"a scalar and a list":   {a: true, b: []any{}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, document.Equal(tc.a, tc.b))
			assert.Equal(t, tc.want, document.Equal(tc.b, tc.a))
		})
	}
}

func TestCopyMember(t *testing.T) {
	from, to := pod().Spec, corev1.PodSpec{}
	require.NoError(t, document.CopyMember(&to, &from, "containers"))
	assert.Equal(t, corev1.PodSpec{Containers: from.Containers}, to)
	require.ErrorContains(t, document.CopyMember(&to, &from, "nothing"), `no field "nothing"`)
	require.ErrorContains(t, document.CopyMember(&to, pod(), "spec"), "cannot copy")
}
