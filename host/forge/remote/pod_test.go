package remote_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/host/forge/remote"
)

var update = flag.Bool("update", false, "write golden files instead of comparing")

// golden compares an object with testdata/<name>, as YAML.
func golden(t *testing.T, name string, object any) {
	t.Helper()
	got, err := yaml.Marshal(object)
	require.NoError(t, err)
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "run the test with -update if the change is meant")
}

func readPod(t *testing.T, path string) *corev1.Pod {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	pod := &corev1.Pod{}
	require.NoError(t, yaml.UnmarshalStrict(content, pod))
	return pod
}

func TestForgedPodsAreThoseOfTheGoldenFiles(t *testing.T) {
	pods, err := filepath.Glob("testdata/*.local.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, pods)
	for _, path := range pods {
		name := strings.TrimSuffix(filepath.Base(path), ".local.yaml")
		t.Run(name, func(t *testing.T) {
			pod := readPod(t, path)
			before := pod.DeepCopy()
			draft := remote.PodDraft(pod, pod.Namespace+"-rome", rome)
			drafted := draft.DeepCopy()
			golden(t, name+".shadow.yaml", remote.SealPod(draft, pod, rome, `[{"point":"PodMutation"}]`))
			assert.Equal(t, before, pod, "forging must not alter the local pod")
			assert.Equal(t, drafted, draft, "sealing must not alter the draft")
		})
	}
}

func TestDraftSharesNothingWithTheLocalPod(t *testing.T) {
	pod := readPod(t, "testdata/everything.local.yaml")
	before := pod.DeepCopy()
	draft := remote.PodDraft(pod, "ns", rome)
	draft.Labels["app"], draft.Annotations["note"] = "changed", "changed"
	draft.Spec.Pod.Containers[0].Env[0].Value = "changed"
	draft.Spec.Pod.Volumes[0].Name = "changed"
	draft.Spec.Pod.Tolerations[0].Key = "changed"
	assert.Equal(t, before, pod)
}

func TestDraftMetadata(t *testing.T) {
	for name, tc := range map[string]struct{ labels, want map[string]string }{
		"without labels there is the node's name": {
			nil, map[string]string{"offloading.liqo.io/nodename": "milan-1"},
		},
		"what marks the local pod stays at home": {
			map[string]string{"app": "web", "liqo.io/shadowPod": "true", "liqo.io/remote-unavailable": "true"},
			map[string]string{"app": "web", "offloading.liqo.io/nodename": "milan-1"},
		},
		"the node's name wins over the user's": {
			map[string]string{"offloading.liqo.io/nodename": "mine"},
			map[string]string{"offloading.liqo.io/nodename": "milan-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: tc.labels}}
			draft := remote.PodDraft(pod, "shop-rome", rome)
			assert.Equal(t, tc.want, draft.Labels)
			assert.Equal(t, "shop-rome", draft.Namespace)
		})
	}
}

func TestSealHoldsReservedKeys(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u-1"}}
	after := remote.PodDraft(pod, "ns", rome)
	after.Labels = map[string]string{
		"app": "web", "offloading.liqo.io/origin": "paris", "offloading.liqo.io/other": "x",
		"liqo.io/managed-by": "me", "liqo.io/creator-user": "root",
	}
	after.Annotations = map[string]string{
		"note": "kept", "longshore.dev/local-pod-uid": "another", "policy.longshore.dev/decisions": "of the admission",
	}
	sealed := remote.SealPod(after, pod, rome, "")
	assert.Equal(t, map[string]string{
		"app": "web", "offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan",
		"offloading.liqo.io/nodename": "milan-1",
	}, sealed.Labels)
	assert.Equal(t, map[string]string{"note": "kept", "longshore.dev/local-pod-uid": "u-1", "longshore.dev/local-pod-fields": ""}, sealed.Annotations)
}

func TestTolerations(t *testing.T) {
	own := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	keyless := corev1.Toleration{Operator: corev1.TolerationOpExists}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{
		{Key: "virtual-node.liqo.io/not-allowed", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		own, keyless,
	}}}
	assert.Equal(t, []corev1.Toleration{own, keyless}, remote.PodDraft(pod, "ns", rome).Spec.Pod.Tolerations, "T13")
}

func TestHostUsers(t *testing.T) {
	for name, tc := range map[string]struct{ local, want *bool }{
		"a user namespace of its own is kept": {ptr.To(false), ptr.To(false)},
		"the host's is the default":           {ptr.To(true), nil},
		"an unset field stays unset":          {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{HostUsers: tc.local}}
			assert.Equal(t, tc.want, remote.PodDraft(pod, "ns", rome).Spec.Pod.HostUsers)
		})
	}
}

func TestEphemeralVolumes(t *testing.T) {
	ephemeral := func(class *string) corev1.VolumeSource {
		return corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class},
		}}}
	}
	withStorage := rome
	withStorage.VirtualStorageClass = "liqo"
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "web-scratch"}}
	for name, tc := range map[string]struct {
		origin      remote.Origin
		local, want corev1.VolumeSource
	}{
		"the virtual class: the reflected claim":             {withStorage, ephemeral(ptr.To("liqo")), claim},
		"another class: a claim that the provider makes":     {withStorage, ephemeral(ptr.To("fast")), ephemeral(ptr.To("fast"))},
		"the default class: a claim that the provider makes": {withStorage, ephemeral(nil), ephemeral(nil)},
		"no storage: a claim that the provider makes":        {rome, ephemeral(ptr.To("liqo")), ephemeral(ptr.To("liqo"))},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: tc.local}}}}
			assert.Equal(t, []corev1.Volume{{Name: "scratch", VolumeSource: tc.want}}, remote.PodDraft(pod, "ns", tc.origin).Spec.Pod.Volumes)
		})
	}
}

func TestConfigMapName(t *testing.T) {
	for name, tc := range map[string]struct{ home, local, want string }{
		"any other name stays":              {"rome", "settings", "settings"},
		"the root CA map takes a suffix":    {"milan", "kube-root-ca.crt", "kube-root-ca.crt.milan"},
		"a short ID is taken as a whole":    {"bo", "kube-root-ca.crt", "kube-root-ca.crt.bo"},
		"a dash at the end gets a letter":   {"rome-1", "kube-root-ca.crt", "kube-root-ca.crt.rome-a"},
		"an ID of five characters has none": {"paris", "kube-root-ca.crt", "kube-root-ca.crt.paris"},
	} {
		t.Run(name, func(t *testing.T) {
			origin := remote.Origin{HomeClusterID: tc.home}
			assert.Equal(t, tc.want, remote.ConfigMapName(tc.local, origin))
			assert.Equal(t, tc.local, remote.LocalConfigMapName(tc.want, origin), "the inverse")
		})
	}
}

func FuzzConfigMapName(f *testing.F) {
	f.Add("rome-1", "kube-root-ca.crt")
	f.Add("", "kube-root-ca.crt")
	f.Add("milan", "settings")
	f.Fuzz(func(t *testing.T, home, local string) {
		origin := remote.Origin{HomeClusterID: home}
		if local != remote.RootCAConfigMapName && local == remote.ConfigMapName(remote.RootCAConfigMapName, origin) {
			t.Skip("a user's map of that very name collides (T36)")
		}
		if back := remote.LocalConfigMapName(remote.ConfigMapName(local, origin), origin); back != local {
			t.Errorf("home %q: %q comes back as %q", home, local, back)
		}
	})
}
