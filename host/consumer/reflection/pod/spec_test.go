package pod

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// madeFrom makes the ShadowPod one of a local pod.
func madeFrom(local *corev1.Pod) shadowOption {
	return func(s *offloadingv1beta1.ShadowPod) {
		s.Spec.Pod = podupdate.Trim(&local.Spec)
		s.Annotations[podupdate.SentAnnotation] = podupdate.FieldsOf(&local.Spec).AtCreation().Encode()
	}
}

func image(name string) podOption {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = name }
}

func debugContainer(pod *corev1.Pod) {
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}}
}

// specPatch returns the paths and values of the patch of the spec among the actions; empty for
// none.
func specPatch(t *testing.T, actions []engine.Action) map[string]string {
	t.Helper()
	patched := map[string]string{}
	for _, action := range actions {
		if patch, ok := action.(engine.PatchRemoteSpec); ok {
			for _, operation := range patch.Operations {
				if operation.Op == "test" {
					continue
				}
				raw, err := json.Marshal(operation.Value)
				require.NoError(t, err)
				patched[operation.Path] = string(raw)
			}
		}
	}
	return patched
}

func TestChangesOfTheSpecAreSent(t *testing.T) {
	failing := &policies{answer: func(chain.Input) (*chain.Result, error) { return nil, errors.New("it fails") }}
	denying := &policies{answer: func(in chain.Input) (*chain.Result, error) {
		return &chain.Result{Object: in.Object, Denial: &chain.Denied{Policy: "no-updates", Reason: "NotNow", Message: "not now"}}, nil
	}}
	const fields = "/metadata/annotations/longshore.dev~1local-pod-fields"
	for name, tc := range map[string]struct {
		policies *policies
		local    *corev1.Pod
		shadow   []shadowOption
		want     map[string]string
		event    string
	}{
		"nothing has changed": {local: localPod(), shadow: []shadowOption{madeFrom(localPod())}, want: map[string]string{}},
		"an image": {
			local: localPod(image("web:2")), shadow: []shadowOption{madeFrom(localPod())},
			want: map[string]string{
				"/spec/pod/containers/0/image": `"web:2"`,
				fields:                         `"` + podupdate.FieldsOf(&localPod(image("web:2")).Spec).Encode() + `"`,
			},
		},
		"an ephemeral container": {
			local: localPod(debugContainer), shadow: []shadowOption{madeFrom(localPod())},
			want: map[string]string{
				"/spec/pod/ephemeralContainers": `[{"name":"debug","image":"busybox","resources":{}}]`,
				fields:                          `"` + podupdate.FieldsOf(&localPod(debugContainer).Spec).Encode() + `"`,
			},
		},
		"an image that was sent already": {
			local: localPod(image("web:2")), shadow: []shadowOption{madeFrom(localPod(image("web:2")))}, want: map[string]string{},
		},
		"a ShadowPod of another version of the virtual kubelet": {
			local: localPod(image("web:2")), want: map[string]string{},
		},
		"a pod that opts out": {
			local: localPod(image("web:2"), annotation(podupdate.OptOutAnnotation, "false")), shadow: []shadowOption{madeFrom(localPod())},
			want: map[string]string{},
		},
		"a pod whose provider is not reachable": {
			local:  localPod(image("web:2"), label(offloadingv1beta1.RemoteUnavailableLabel, "true")),
			shadow: []shadowOption{madeFrom(localPod())}, want: map[string]string{},
		},
		"a ShadowPod that is being deleted": {
			local: localPod(image("web:2")), shadow: []shadowOption{madeFrom(localPod()), shadowDeleting}, want: map[string]string{},
		},
		"a policy that denies the pod": {
			policies: denying, local: localPod(image("web:2")), shadow: []shadowOption{madeFrom(localPod())},
			want: map[string]string{}, event: "The change of the pod (image/web) does not reach cluster milan, where the pod keeps its spec: ",
		},
		"a policy that fails": {
			policies: failing, local: localPod(image("web:2")), shadow: []shadowOption{madeFrom(localPod())},
			want: map[string]string{}, event: "it fails",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.policies == nil {
				tc.policies = &policies{}
			}
			actions, err := decide(t.Context(), definition(tc.policies), input(tc.local, shadowPod(tc.shadow...), nil))
			require.NoError(t, err)
			assert.Equal(t, tc.want, specPatch(t, actions))
			var reported string
			for _, action := range actions {
				if event, ok := action.(engine.RecordEvent); ok && event.Reason == ReasonUpdateRefused {
					reported = event.Message
				}
			}
			assert.Contains(t, reported, tc.event)
			assert.Equal(t, tc.event == "", reported == "", reported)
		})
	}
}

// A provider that refuses the change is asked again after some minutes, and labels do not wait
// for that.
func TestARefusedChangeIsTriedAgainLater(t *testing.T) {
	d := definition(&policies{})
	in := input(localPod(image("web:2"), label("later", "yes")), shadowPod(madeFrom(localPod())), nil)
	actions, err := decide(t.Context(), d, in)
	require.NoError(t, err)
	require.Len(t, specPatch(t, actions), 2)
	var refused []engine.Action
	for _, action := range actions {
		if patch, ok := action.(engine.PatchRemoteSpec); ok {
			refused = patch.Refused("the spec is frozen")
		}
	}
	assert.Equal(t, "event UpdateRefused, wait RefusedChange", summary(refused))

	in = remember(in, refused)
	actions, err = decide(t.Context(), d, in)
	require.NoError(t, err)
	assert.Empty(t, specPatch(t, actions))
	assert.Contains(t, summary(actions), "wait RefusedChange")
	assert.Contains(t, summary(actions), "patch +later")

	in.Facts.Now = now.Add(refusedRetry + time.Second)
	actions, err = decide(t.Context(), d, in)
	require.NoError(t, err)
	assert.Len(t, specPatch(t, actions), 2, "it is tried again")
	in.Facts.Now = now
	in.Local = localPod(image("web:3"), label("later", "yes"))
	actions, err = decide(t.Context(), d, in)
	require.NoError(t, err)
	assert.Len(t, specPatch(t, actions), 2, "another change is tried at once")
}

// A debug container of a pod with tokens of the consumer would present them to the provider's API server
// without the variables. It gets those of the pod, also after the address has changed.
func TestAnEphemeralContainerGetsTheAPIServerOfItsPod(t *testing.T) {
	const was = "api.rome.example.com"
	for name, tc := range map[string]struct {
		atCreation remote.APIServer
		want       string
	}{
		"a pod with tokens":    {remote.APIServer{Host: was, Port: "6443"}, was},
		"a pod without tokens": {remote.APIServer{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			created := origin()
			created.APIServer = tc.atCreation
			shadow := shadowPod(madeFrom(localPod()))
			shadow.Spec.Pod = remote.PodDraft(localPod(), "shop-rome", created).Spec.Pod
			trimShadowPod(shadow)
			d := definition(&policies{})
			d.options.APIServer = func() (remote.APIServer, error) {
				return remote.APIServer{Host: "new.rome.example.com", Port: "6443"}, nil
			}
			actions, err := decide(t.Context(), d, input(localPod(debugContainer), shadow, nil))
			require.NoError(t, err)
			var added []corev1.EphemeralContainer
			require.NoError(t, json.Unmarshal([]byte(specPatch(t, actions)["/spec/pod/ephemeralContainers"]), &added))
			require.Len(t, added, 1)
			hosts := map[string]string{}
			for _, variable := range added[0].Env {
				hosts[variable.Name] = variable.Value
			}
			assert.Equal(t, tc.want, hosts["KUBERNETES_SERVICE_HOST"])
			assert.Equal(t, tc.want == "", len(hosts) == 0, hosts)
		})
	}
}

// A token that a pod asks for does not vanish in silence.
func TestTokensThatAreLeftOutAreReported(t *testing.T) {
	withToken := func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "aws", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "sts.amazonaws.com"}}},
		}}}}
	}
	actions, err := decide(t.Context(), definition(&policies{}), input(localPod(withToken), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "first serviceaccount, create, wait StatusForLabel, event TokensLeftOut", summary(actions))
	event, isEvent := actions[len(actions)-1].(engine.RecordEvent)
	require.True(t, isEvent)
	assert.Contains(t, event.Message, `In cluster milan volume "aws" has no token for audience "sts.amazonaws.com": `)

	d := definition(&policies{})
	d.options.Origin.AudienceTokens = true
	actions, err = decide(t.Context(), d, input(localPod(withToken), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "first serviceaccount, create, wait StatusForLabel", summary(actions))
}

// The name of the remote namespace is another one, and the owner must know where the pod reads it.
func TestAPodThatReadsItsNamespaceIsReported(t *testing.T) {
	reads := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NS", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}
	}
	in := input(localPod(reads), nil, nil)
	actions, err := decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	assert.Equal(t, "first serviceaccount, create, wait StatusForLabel, event NamespaceNameDiffers", summary(actions))
	assert.Contains(t, actions[len(actions)-1].(engine.RecordEvent).Message, `shop-rome of the remote pod (variable "NS")`)
	in.Facts.RemoteNamespace = "shop"
	actions, err = decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	assert.Equal(t, "first serviceaccount, create, wait StatusForLabel", summary(actions))
}
