package podupdate_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

func amounts(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

func spec(edit func(*corev1.PodSpec)) *corev1.PodSpec {
	s := &corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "prepare", Image: "prepare:1"}},
		Containers: []corev1.Container{
			{Name: "sidecar", Image: "sidecar:1"},
			{Name: "web", Image: "web:1", Resources: corev1.ResourceRequirements{Requests: amounts("1", "1Gi"), Limits: amounts("", "1Gi")}},
		},
		Tolerations: []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}},
	}
	if edit != nil {
		edit(s)
	}
	return s
}

func debug(name, image string) corev1.EphemeralContainer {
	return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: image}}
}

// difference is one between two pod specs.
type difference struct {
	current, desired func(*corev1.PodSpec)
	want             map[string]string // operations by subresource
}

func web(s *corev1.PodSpec) *corev1.Container { return &s.Containers[1] }

// differencesOfContainers are those of images and resources.
var differencesOfContainers = map[string]difference{
	"nothing changed": {want: map[string]string{}},
	"an image": {
		desired: func(s *corev1.PodSpec) { web(s).Image = "web:2" },
		want:    map[string]string{"": `[{"op":"test","path":"/spec/containers/1/name","value":"web"},{"op":"replace","path":"/spec/containers/1/image","value":"web:2"}]`},
	},
	"the image of an init container": {
		desired: func(s *corev1.PodSpec) { s.InitContainers[0].Image = "prepare:2" },
		want:    map[string]string{"": `[{"op":"test","path":"/spec/initContainers/0/name","value":"prepare"},{"op":"replace","path":"/spec/initContainers/0/image","value":"prepare:2"}]`},
	},
	"requests and limits": {
		desired: func(s *corev1.PodSpec) {
			web(s).Resources = corev1.ResourceRequirements{Requests: amounts("2", "1Gi"), Limits: amounts("", "2Gi")}
		},
		want: map[string]string{"resize": `[{"op":"test","path":"/spec/containers/1/name","value":"web"},` +
			`{"op":"add","path":"/spec/containers/1/resources","value":{"limits":{"memory":"2Gi"},"requests":{"cpu":"2","memory":"1Gi"}}}]`},
	},
	"a request that the API server made of the limit follows it": {
		current: func(s *corev1.PodSpec) {
			web(s).Resources = corev1.ResourceRequirements{Requests: amounts("1", ""), Limits: amounts("1", "")}
		},
		desired: func(s *corev1.PodSpec) { web(s).Resources = corev1.ResourceRequirements{Limits: amounts("2", "")} },
		want: map[string]string{"resize": `[{"op":"test","path":"/spec/containers/1/name","value":"web"},` +
			`{"op":"add","path":"/spec/containers/1/resources","value":{"limits":{"cpu":"2"},"requests":{"cpu":"2"}}}]`},
	},
	"amounts that are removed stay, other resources are never changed": {
		desired: func(s *corev1.PodSpec) {
			web(s).Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}
		},
		want: map[string]string{"resize": `null`},
	},
	"the resources of the pod": {
		current: func(s *corev1.PodSpec) { s.Resources = &corev1.ResourceRequirements{Requests: amounts("1", "")} },
		desired: func(s *corev1.PodSpec) { s.Resources = &corev1.ResourceRequirements{Requests: amounts("2", "")} },
		want:    map[string]string{"resize": `[{"op":"add","path":"/spec/resources","value":{"requests":{"cpu":"2"}}}]`},
	},
	"resources of a pod that had none": {
		desired: func(s *corev1.PodSpec) { s.Resources = &corev1.ResourceRequirements{Requests: amounts("2", "")} },
		want:    map[string]string{"resize": `null`},
	},
}

var otherDifferences = map[string]difference{
	"the first ephemeral container": {
		desired: func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{debug("a", "busybox")}
		},
		want: map[string]string{"ephemeralcontainers": `[{"op":"add","path":"/spec/ephemeralContainers","value":[{"name":"a","image":"busybox","resources":{}}]}]`},
	},
	"a further ephemeral container; the provider's own stay": {
		current: func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{debug("admin", "tools"), debug("a", "busybox")}
		},
		desired: func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{debug("a", "other"), debug("b", "busybox")}
		},
		want: map[string]string{"ephemeralcontainers": `[{"op":"add","path":"/spec/ephemeralContainers/-","value":{"name":"b","image":"busybox","resources":{}}}]`},
	},
	"a deadline": {
		desired: func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To(int64(60)) },
		want:    map[string]string{"": `[{"op":"add","path":"/spec/activeDeadlineSeconds","value":60}]`},
	},
	"a longer deadline": {
		current: func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To(int64(30)) },
		desired: func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To(int64(60)) },
		want:    map[string]string{"": `null`},
	},
	"a toleration is added, those of the provider stay": {
		current: func(s *corev1.PodSpec) {
			s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: "provider", Operator: corev1.TolerationOpExists})
		},
		desired: func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "new", Operator: corev1.TolerationOpExists}}
		},
		want: map[string]string{"": `[{"op":"add","path":"/spec/tolerations","value":[{"key":"pool","operator":"Exists"},` +
			`{"key":"provider","operator":"Exists"},{"key":"new","operator":"Exists"}]}]`},
	},
	"the seconds of a toleration": {
		desired: func(s *corev1.PodSpec) { s.Tolerations[0].TolerationSeconds = ptr.To(int64(5)) },
		want:    map[string]string{"": `[{"op":"add","path":"/spec/tolerations","value":[{"key":"pool","operator":"Exists","tolerationSeconds":5}]}]`},
	},
	"a container that the pod does not have": {
		desired: func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "new", Image: "new:1"})
		},
		want: map[string]string{"": `null`},
	},
}

// Which differences may be applied, and by which subresource.
func TestCompare(t *testing.T) {
	all := maps.Clone(differencesOfContainers)
	maps.Copy(all, otherDifferences)
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			edit := func(s *corev1.PodSpec) {
				if tc.current != nil {
					tc.current(s)
				}
			}
			current, desired := spec(edit), spec(edit)
			if tc.desired != nil {
				tc.desired(desired)
			}
			changed := podupdate.FieldsOf(desired).Changed(podupdate.FieldsOf(current))
			got := map[string]string{}
			for _, step := range podupdate.Compare(current, desired, changed, "/spec") {
				raw, err := json.Marshal(step.Operations)
				require.NoError(t, err)
				got[step.Subresource] = string(raw)
				assert.NotEmpty(t, step.Fields)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

// A field that the consumer has not changed keeps what the provider's admission has made of it.
func TestFieldsThatHaveNotChangedAreNotCompared(t *testing.T) {
	sent := spec(nil)
	applied := podupdate.FieldsOf(sent)
	current := spec(func(s *corev1.PodSpec) { s.Containers[0].Image = "mirror.example.com/sidecar:1" })
	desired := spec(func(s *corev1.PodSpec) { s.Containers[1].Image = "web:2" })
	changed := podupdate.FieldsOf(desired).Changed(applied)
	assert.Equal(t, []string{"image/web"}, changed)
	steps := podupdate.Compare(current, desired, changed, "/spec")
	require.Len(t, steps, 1)
	assert.Len(t, steps[0].Operations, 2, "the image of the sidecar is not among them")
}

func TestFieldsAreRecordedInAnAnnotation(t *testing.T) {
	with := spec(func(s *corev1.PodSpec) {
		s.EphemeralContainers = []corev1.EphemeralContainer{debug("a", "busybox")}
		s.ActiveDeadlineSeconds = ptr.To(int64(60))
	})
	fields := podupdate.FieldsOf(with)
	assert.Equal(t, fields, podupdate.Decode(fields.Encode()))
	assert.Equal(t, []string{"ephemeral/a"}, fields.Changed(fields.AtCreation()), "a pod is created without ephemeral containers")
	assert.Equal(t, []string{"activeDeadlineSeconds", "ephemeral/a"}, podupdate.FieldsOf(spec(nil)).Changed(fields))
	applied := podupdate.FieldsOf(spec(nil))
	applied.Take(fields, []string{"ephemeral/a"})
	assert.Equal(t, []string{"activeDeadlineSeconds"}, fields.Changed(applied))
	applied.Take(podupdate.FieldsOf(spec(nil)), []string{"ephemeral/a"})
	assert.Equal(t, podupdate.FieldsOf(spec(nil)), applied)
	assert.Empty(t, podupdate.Decode("rubbish"))
}

// TestNoRequestHidesAnother has a consumer that frees its quota by requests whose digest of 32 bits is that
// of the requests of its pod: they were found in two minutes.
func TestNoRequestHidesAnother(t *testing.T) {
	requests := func(cpu, memory string) *corev1.PodSpec {
		resources := corev1.ResourceRequirements{Requests: amounts(cpu, memory)}
		return &corev1.PodSpec{Resources: &resources, Containers: []corev1.Container{{Name: "web", Resources: resources}}}
	}
	applied, desired := podupdate.FieldsOf(requests("4", "8Gi")), podupdate.FieldsOf(requests("1m", "1174245712"))
	assert.Equal(t, []string{"resources", "resources/web"}, desired.Changed(applied))
}

// TestFieldsOfAnEarlierVersion has an annotation with digests of 32 bits only.
func TestFieldsOfAnEarlierVersion(t *testing.T) {
	const earlier = "image/prepare=1x9kaip,image/sidecar=12q55nh,image/web=1ek66hy,resources/web=16vrib4,tolerations=r3qaa8"
	applied, desired := podupdate.Decode(earlier), podupdate.FieldsOf(spec(nil))
	require.Empty(t, desired.Changed(applied))
	assert.True(t, podupdate.IsRecorded(spec(nil), earlier))
	larger := spec(func(s *corev1.PodSpec) { s.Containers[1].Resources.Requests = amounts("2", "1Gi") })
	assert.Equal(t, []string{"resources/web"}, podupdate.FieldsOf(larger).Changed(applied))
	assert.False(t, podupdate.IsRecorded(larger, earlier))
	applied.Complete(podupdate.FieldsOf(larger))
	assert.Equal(t, podupdate.Decode(earlier), applied, "what has changed is not recorded")
	applied.Complete(desired)
	assert.Equal(t, desired, applied)
}

func TestATrimmedSpecHasTheSameFields(t *testing.T) {
	whole := spec(func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"sh"}; s.NodeName = "n" })
	trimmed := podupdate.Trim(whole)
	assert.Equal(t, podupdate.FieldsOf(whole), podupdate.FieldsOf(&trimmed))
	assert.Empty(t, trimmed.NodeName)
	assert.Empty(t, trimmed.Containers[0].Command)
}

func TestWithoutLive(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after func(*corev1.PodSpec)
		equal         bool
	}{
		"an image":       {after: func(s *corev1.PodSpec) { s.Containers[0].Image = "x" }, equal: true},
		"CPU and memory": {after: func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = amounts("1", "1Gi") }, equal: true},
		"another resource": {after: func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = corev1.ResourceList{"a/b": resource.MustParse("1")}
		}},
		"resource claims":         {after: func(s *corev1.PodSpec) { s.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}} }},
		"the name of a container": {after: func(s *corev1.PodSpec) { s.Containers[0].Name = "x" }},
		"an ephemeral container": {
			after: func(s *corev1.PodSpec) { s.EphemeralContainers = []corev1.EphemeralContainer{debug("a", "b")} }, equal: true,
		},
		"an ephemeral container that is removed": {
			before: func(s *corev1.PodSpec) { s.EphemeralContainers = []corev1.EphemeralContainer{debug("a", "b")} },
			after:  func(s *corev1.PodSpec) { s.EphemeralContainers = nil },
		},
		"an ephemeral container that changes": {
			before: func(s *corev1.PodSpec) { s.EphemeralContainers = []corev1.EphemeralContainer{debug("a", "b")} },
			after:  func(s *corev1.PodSpec) { s.EphemeralContainers = []corev1.EphemeralContainer{debug("a", "c")} },
		},
		"a volume": {after: func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "v"}} }},
	} {
		t.Run(name, func(t *testing.T) {
			edit := func(s *corev1.PodSpec) {
				if tc.before != nil {
					tc.before(s)
				}
			}
			before, after := spec(edit), spec(edit)
			tc.after(after)
			a, err := json.Marshal(before)
			require.NoError(t, err)
			b, err := json.Marshal(podupdate.WithoutLive(before, after))
			require.NoError(t, err)
			assert.Equal(t, tc.equal, string(a) == string(b), string(b))
		})
	}
}
