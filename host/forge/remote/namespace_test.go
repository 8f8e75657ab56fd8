package remote_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// A client in a pod asks its API server about the namespace that the pod reads. At home that is the local
// one, whose name the provider's kubelet does not know.
func TestTheNamespaceThatAPodReads(t *testing.T) {
	field := func(path string) *corev1.ObjectFieldSelector { return &corev1.ObjectFieldSelector{FieldPath: path} }
	file := corev1.DownwardAPIVolumeFile{Path: "namespace", FieldRef: field("metadata.namespace")}
	labels := corev1.DownwardAPIVolumeFile{Path: "labels", FieldRef: field("metadata.labels")}
	reads := func(support string) *corev1.Pod {
		pod := accessPod(map[string]string{offloadingv1beta1.APIServerSupportAnnotation: support})
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "POD_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: field("metadata.namespace")}}}
		sources := &pod.Spec.Volumes[0].Projected.Sources
		*sources = append(*sources, corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{file, labels}}})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "info", VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{file}},
		}})
		return pod
	}
	own := []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{file, labels}}}}
	home := []corev1.VolumeProjection{
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{labels}}},
		{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "web-token"}, Items: []corev1.KeyToPath{{Key: "namespace", Path: "namespace"}},
		}},
	}
	for name, tc := range map[string]struct {
		origin   remote.Origin
		support  string
		value    string
		sources  []corev1.VolumeProjection
		reported []string
	}{
		"the API server of the consumer": {romeAPI("api"), "", "shop", home, []string{`volume "info"`}},
		"no API server":                  {rome, "", "", own, []string{`variable "POD_NAMESPACE"`, `volume "info"`}},
		"the API server of the provider": {romeAPI("api"), "remote", "", own, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := reads(tc.support)
			before := pod.DeepCopy()
			spec := remote.PodDraft(pod, "shop-rome", tc.origin).Spec.Pod
			assert.Equal(t, before, pod, "the local pod is not altered")
			assert.Equal(t, tc.value, spec.Containers[0].Env[0].Value)
			assert.Equal(t, tc.value == "", spec.Containers[0].Env[0].ValueFrom != nil)
			sources := spec.Volumes[0].Projected.Sources
			assert.Equal(t, tc.sources, sources[len(sources)-len(tc.sources):])
			assert.Equal(t, tc.reported, remote.NamespaceReferences(&spec, pod, "shop-rome", tc.origin))
			assert.Empty(t, remote.NamespaceReferences(&spec, pod, "shop", tc.origin), "EnforceSameName")
		})
	}
}

// A Service of another offloaded namespace has another name in the provider.
func TestTranslateExternalName(t *testing.T) {
	remoteOf := func(namespace string) (string, bool) {
		name, found := map[string]string{"data": "data-rome"}[namespace]
		return name, found
	}
	for name, tc := range map[string]struct{ want, left string }{
		"db.data.svc":                {"db.data-rome.svc", ""},
		"db.data.svc.cluster.local":  {"db.data-rome.svc.cluster.local", ""},
		"db.data.svc.cluster.local.": {"db.data-rome.svc.cluster.local.", ""},
		"db-0.db.data.svc":           {"db-0.db.data-rome.svc", ""},
		"db.other.svc":               {"db.other.svc", "other"},
		"data.svc":                   {"data.svc", ""},
		"db.data.svc.example.com":    {"db.data.svc.example.com", ""},
		"db.data":                    {"db.data", ""},
		"api.example.com":            {"api.example.com", ""},
	} {
		translated, left := remote.TranslateExternalName(name, remoteOf)
		assert.Equal(t, tc.want, translated, name)
		assert.Equal(t, tc.left, left, name)
	}
}
