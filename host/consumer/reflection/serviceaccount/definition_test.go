package serviceaccount

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

var (
	now    = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	origin = remote.Origin{
		HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-node",
		APIServer: remote.APIServer{Host: "api.rome.example.com", Port: "6443"},
	}
)

// keyOfToken is the key of the token at path "token" of volume "kube-api-access-x".
const keyOfToken = "kube-api-access-x-3c469e"

func projected(path, audience string, seconds *int64) corev1.Volume {
	return corev1.Volume{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: path, Audience: audience, ExpirationSeconds: seconds}}},
	}}}
}

func offloaded(alter func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "uid-1", Labels: map[string]string{offloadingv1beta1.LocalPodLabel: "true"},
			CreationTimestamp: metav1.NewTime(now.Add(-8 * time.Second)),
		},
		Spec: corev1.PodSpec{ServiceAccountName: "reader", Volumes: []corev1.Volume{projected("token", "", nil)}},
	}
	if alter != nil {
		alter(pod)
	}
	return pod
}

func held(expires time.Duration, alter func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop-rome", Name: "web-token",
			Labels: map[string]string{
				offloadingv1beta1.OriginLabel: "rome", offloadingv1beta1.DestinationLabel: "milan", offloadingv1beta1.NodeNameLabel: "milan-node",
			},
			Annotations: map[string]string{remote.TokenPodUIDKey: "uid-1", remote.TokenExpirationKey: now.Add(expires).Format(time.RFC3339)},
		},
		Data: map[string][]byte{keyOfToken: nil},
	}
	if alter != nil {
		alter(secret)
	}
	return secret
}

func input(pod *corev1.Pod, secret *corev1.Secret) engine.Input {
	in := engine.Input{
		Key:   engine.Key{Namespace: "shop", Name: "web"},
		Facts: engine.Facts{HomeClusterID: "rome", ProviderClusterID: "milan", RemoteNamespace: "shop-rome", Now: now},
	}
	if pod != nil {
		in.Local = pod
	}
	if secret != nil {
		in.Remote = secret
	}
	return in
}

func TestDecide(t *testing.T) {
	annotate := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	const support = offloadingv1beta1.APIServerSupportAnnotation
	tests := map[string]struct {
		in   engine.Input
		want engine.Action
	}{
		"an offloaded pod gets its tokens":                  {input(offloaded(nil), nil), engine.Query{}},
		"a pod that is not offloaded yet gets none":         {input(offloaded(func(p *corev1.Pod) { p.Labels = nil }), nil), engine.Requeue{}},
		"valid tokens wait":                                 {input(offloaded(nil), held(time.Hour, nil)), engine.Requeue{}},
		"tokens with a fifth of their lifetime are renewed": {input(offloaded(nil), held(11*time.Minute, nil)), engine.Query{}},
		"expired tokens are renewed":                        {input(offloaded(nil), held(-time.Hour, nil)), engine.Query{}},
		"an unreadable expiration is renewed":               {input(offloaded(nil), held(0, func(s *corev1.Secret) { s.Annotations[remote.TokenExpirationKey] = "soon" })), engine.Query{}},
		"a missing token is requested":                      {input(offloaded(nil), held(time.Hour, func(s *corev1.Secret) { s.Data = nil })), engine.Query{}},
		"the tokens of an earlier pod are deleted":          {input(offloaded(nil), held(time.Hour, func(s *corev1.Secret) { s.Annotations[remote.TokenPodUIDKey] = "uid-0" })), engine.DeleteRemote{}},
		"the tokens of a deleted pod are deleted":           {input(nil, held(time.Hour, nil)), engine.DeleteRemote{}},
		"the tokens of a finished pod are deleted":          {input(offloaded(phase(corev1.PodSucceeded)), held(time.Hour, nil)), engine.DeleteRemote{}},
		"a terminating pod keeps its tokens":                {input(offloaded(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }), held(time.Hour, nil)), engine.Requeue{}},
		"a pod that declines access gets none (T31)":        {input(offloaded(annotate(support, "disabled")), nil), engine.Keep{}},
		"a pod that declines access loses them (T31)":       {input(offloaded(annotate(support, "disabled")), held(time.Hour, nil)), engine.DeleteRemote{}},
		"a pod that uses the provider's API server (T31)":   {input(offloaded(annotate(support, "remote")), nil), engine.Keep{}},
		"a pod without a projected token":                   {input(offloaded(func(p *corev1.Pod) { p.Spec.Volumes = nil }), nil), engine.Keep{}},
		"an unmanaged Secret is left, with an event":        {input(offloaded(nil), held(time.Hour, func(s *corev1.Secret) { delete(s.Labels, offloadingv1beta1.OriginLabel) })), engine.RecordEvent{}},
		"an unmanaged Secret without pod is left":           {input(nil, held(time.Hour, func(s *corev1.Secret) { s.Labels = nil })), engine.Keep{}},
		"a Secret that is being deleted is awaited":         {input(offloaded(nil), held(time.Hour, func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} })), engine.Hold{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			actions, err := New(Options{Origin: origin}).Decide(tc.in)
			require.NoError(t, err)
			assert.IsType(t, tc.want, actions[0])
		})
	}
	t.Run("without an address of the API server", func(t *testing.T) {
		unreachable := origin
		unreachable.APIServer = remote.APIServer{}
		actions, err := New(Options{Origin: unreachable}).Decide(input(offloaded(nil), nil))
		require.NoError(t, err)
		assert.IsType(t, engine.Keep{}, actions[0], "T33")
	})
	t.Run("while the address of the API server is not known, tokens stay", func(t *testing.T) {
		d := New(Options{Origin: origin, APIServer: func() (remote.APIServer, error) { return remote.APIServer{}, assert.AnError }})
		for _, secret := range []*corev1.Secret{nil, held(time.Minute, nil)} {
			actions, err := d.Decide(input(offloaded(nil), secret))
			require.NoError(t, err)
			assert.IsType(t, engine.Keep{}, actions[0])
		}
	})
	t.Run("without a network any more, tokens are deleted", func(t *testing.T) {
		d := New(Options{Origin: origin, APIServer: func() (remote.APIServer, error) { return remote.APIServer{}, nil }})
		actions, err := d.Decide(input(offloaded(nil), held(time.Hour, nil)))
		require.NoError(t, err)
		assert.IsType(t, engine.DeleteRemote{}, actions[0])
	})
}

// The Secret is there before the remote pod, whose kubelet would report a failure and wait. It goes if the provider
// refuses the pod.
func TestTokensPrecedeThePod(t *testing.T) {
	waiting := offloaded(func(p *corev1.Pod) { p.Labels = nil })
	issued := func(ago time.Duration) *corev1.Secret {
		return held(time.Hour, func(s *corev1.Secret) { s.Annotations[remote.TokenIssuedKey] = now.Add(-ago).Format(time.RFC3339) })
	}
	for name, tc := range map[string]struct {
		pod       *corev1.Pod
		secret    *corev1.Secret
		isAwaited bool
		want      []engine.Action
	}{
		"policies keep the pod here":          {waiting, nil, false, []engine.Action{engine.Requeue{After: offloadingTime, Reason: "the pod is not offloaded yet"}}},
		"the pod is about to be sent again":   {waiting, issued(time.Hour - 30*time.Minute), true, []engine.Action{engine.Requeue{}}},
		"the pod has just been sent":          {waiting, issued(time.Minute), false, []engine.Action{engine.Requeue{After: 4 * time.Minute, Reason: "the pod is being offloaded"}}},
		"issued in the future":                {waiting, issued(-time.Hour), false, []engine.Action{engine.Requeue{After: offloadingTime, Reason: "the pod is being offloaded"}}},
		"the provider refuses the pod":        {waiting, issued(offloadingTime), false, []engine.Action{engine.DeleteRemote{}}},
		"the tokens are of an earlier pod":    {waiting, held(time.Hour, func(s *corev1.Secret) { s.Annotations[remote.TokenPodUIDKey] = "uid-0" }), true, []engine.Action{engine.DeleteRemote{}, engine.Hold{Reason: "the tokens are of an earlier pod of the name"}}},
		"those of an earlier pod are going":   {waiting, held(time.Hour, func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} }), true, []engine.Action{engine.Hold{Reason: "the remote Secret is being deleted"}}},
		"a pod that needs none does not wait": {offloaded(func(p *corev1.Pod) { p.Spec.Volumes = nil }), nil, true, []engine.Action{engine.Keep{Reason: "the pod needs no token"}}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(tc.pod, tc.secret)
			in.IsAwaited = tc.isAwaited
			actions, err := New(Options{Origin: origin}).Decide(in)
			require.NoError(t, err)
			if requeue, ok := actions[0].(engine.Requeue); ok && tc.want[0] == (engine.Requeue{}) {
				assert.Equal(t, "the tokens are valid", requeue.Reason)
				return
			}
			assert.Equal(t, tc.want, actions)
		})
	}
	t.Run("the pod is about to be sent", func(t *testing.T) {
		var asked []authenticationv1.TokenRequest
		in := input(waiting, nil)
		in.IsAwaited = true
		actions, err := run(t, New(Options{Origin: origin, CreateToken: tokens(&asked)}), in)
		require.NoError(t, err)
		assert.IsType(t, engine.Apply{}, actions[0])
		assert.Len(t, asked, 1)
	})
}

func TestAMissingServiceAccountDelaysThePod(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, "reader")
	d := New(Options{Origin: origin, CreateToken: func(context.Context, string, string, *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		return nil, missing
	}})
	actions, err := run(t, d, input(offloaded(nil), nil))
	require.NoError(t, err)
	require.Len(t, actions, 3)
	assert.Equal(t, engine.RecordEvent{
		Type: engine.EventWarning, Reason: ReasonServiceAccountNotFound,
		Message: "Service account reader does not exist, and the pod needs its token in cluster milan. Create the service account.",
	}, actions[0])
	assert.IsType(t, engine.Requeue{}, actions[1])
	assert.IsType(t, engine.Hold{}, actions[2])
	missing.ErrStatus.Details.Kind = "pods"
	_, err = run(t, d, input(offloaded(nil), nil))
	require.Error(t, err, "the pod is gone")
}

// An API server may grant shorter lifetimes than were requested.
func TestTokensAreRenewedWhenAFifthOfTheGrantedLifetimeIsLeft(t *testing.T) {
	const day, tenMinutes = 24 * time.Hour, 10 * time.Minute
	pod := offloaded(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{projected("token", "", ptr.To(int64(day/time.Second)))}
	})
	issued := func(ago time.Duration) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			s.Annotations["longshore.dev/token-issued"] = now.Add(-ago).Format(time.RFC3339)
		}
	}
	for name, tc := range map[string]struct {
		expires  time.Duration
		alter    func(*corev1.Secret)
		min, max time.Duration // of the pause; zero: renewed at once
	}{
		"as requested": {day, issued(0), 19 * time.Hour, 20 * time.Hour},
		"less than a fifth of what was requested": {tenMinutes, issued(0), 8 * time.Minute, 9 * time.Minute},
		"half of the granted lifetime is left":    {tenMinutes, issued(tenMinutes), 6 * time.Minute, 7 * time.Minute},
		"a fifth of the granted lifetime is left": {tenMinutes, issued(6 * tenMinutes), 0, 0},
		"seconds": {20 * time.Second, issued(0), 16 * time.Second, 18 * time.Second},
		"of an earlier version, without the time": {tenMinutes, nil, 0, 0},
		"an unreadable time":                      {tenMinutes, func(s *corev1.Secret) { s.Annotations["longshore.dev/token-issued"] = "then" }, 0, 0},
		"issued in the future":                    {tenMinutes, issued(-day), 10 * time.Minute, 11 * time.Minute},
		"an expiration that no token can have":    {100 * day, issued(0), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			actions, err := New(Options{Origin: origin}).Decide(input(pod, held(tc.expires, tc.alter)))
			require.NoError(t, err)
			if tc.max == 0 {
				assert.IsType(t, engine.Query{}, actions[0])
				return
			}
			require.IsType(t, engine.Requeue{}, actions[0])
			left := actions[0].(engine.Requeue).After
			assert.GreaterOrEqual(t, left, tc.min)
			assert.LessOrEqual(t, left, tc.max)
		})
	}
	for name, tc := range map[string]struct{ granted, min, max time.Duration }{
		"as requested": {day, 19 * time.Hour, 20 * time.Hour},
		"less than a fifth of what was requested": {tenMinutes, 8 * time.Minute, 9 * time.Minute},
		"nothing, by this clock":                  {-time.Hour, minRenewal, minRenewal},
	} {
		t.Run("granted "+name, func(t *testing.T) {
			var asked []authenticationv1.TokenRequest
			d := New(Options{Origin: origin, CreateToken: tokensOf(&asked, tc.granted)})
			actions, err := run(t, d, input(pod, nil))
			require.NoError(t, err)
			left := actions[1].(engine.Requeue).After
			assert.GreaterOrEqual(t, left, tc.min)
			assert.LessOrEqual(t, left, tc.max)
			secret := &corev1.Secret{}
			body, err := json.Marshal(actions[0].(engine.Apply).Config)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(body, secret))
			if tc.granted > 0 {
				actions, err = New(Options{Origin: origin}).Decide(input(pod, secret))
				require.NoError(t, err)
				assert.Equal(t, left, actions[0].(engine.Requeue).After, "a Secret that is read back is as good")
			}
		})
	}
}

// A writer in the provider that deletes or changes the Secret again and again gets fewer and fewer
// tokens.
func TestTokensThatAnotherWriterChangesAreRequestedLessAndLessOften(t *testing.T) {
	for name, secret := range map[string]*corev1.Secret{
		"deletes the Secret":      nil,
		"deletes a token":         held(time.Hour, func(s *corev1.Secret) { s.Data = nil }),
		"changes the expiration":  held(-time.Hour, nil),
		"removes the expiration":  held(time.Hour, func(s *corev1.Secret) { delete(s.Annotations, remote.TokenExpirationKey) }),
		"recreates it as another": held(-time.Minute, func(s *corev1.Secret) { s.UID = "other" }),
	} {
		t.Run(name, func(t *testing.T) {
			var asked []authenticationv1.TokenRequest
			d := New(Options{Origin: origin, CreateToken: tokensOf(&asked, 0)})
			in := input(offloaded(nil), secret)
			reported := false
			for end := now.Add(40 * time.Minute); in.Facts.Now.Before(end); {
				actions, err := d.Decide(in)
				require.NoError(t, err)
				if query, isQuery := actions[0].(engine.Query); isQuery {
					actions, err = query.Run(t.Context())
					require.NoError(t, err)
				}
				for _, action := range actions {
					switch a := action.(type) {
					case engine.Remember:
						in.Memory = a.Value
					case engine.RecordEvent:
						reported = true
						assert.Contains(t, a.Message, "keeps changing the Secret with the tokens of the pod")
					}
				}
				in.Facts.Now = in.Facts.Now.Add(time.Second)
			}
			assert.Greater(t, len(asked), 5)
			assert.Less(t, len(asked), 20)
			assert.True(t, reported)

			// A renewal that is due is no contest.
			actions := actionsAt(t, d, in, now.Add(2*time.Hour))
			require.Len(t, actions, 1)
			assert.IsType(t, engine.Query{}, actions[0])
		})
	}
}

func actionsAt(t *testing.T, d *Definition, in engine.Input, at time.Time) []engine.Action {
	t.Helper()
	in.Facts.Now = at
	actions, err := d.Decide(in)
	require.NoError(t, err)
	return actions
}

// An expiration that another writer puts off does not keep tokens from being renewed.
func TestARenewalThatIsDueIsNotPutOff(t *testing.T) {
	var asked []authenticationv1.TokenRequest
	d := New(Options{Origin: origin, CreateToken: tokensOf(&asked, 0)})
	in := input(offloaded(nil), nil)
	actions, err := run(t, d, in)
	require.NoError(t, err)
	in.Memory = actions[2].(engine.Remember).Value
	in.Remote = held(100*time.Minute, nil)
	assert.IsType(t, engine.Requeue{}, actionsAt(t, d, in, now.Add(47*time.Minute))[0])
	assert.IsType(t, engine.Query{}, actionsAt(t, d, in, now.Add(49*time.Minute))[0])
}

// tokens issues tokens that say what was asked for.
func tokens(asked *[]authenticationv1.TokenRequest) func(context.Context, string, string, *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return tokensOf(asked, 0)
}

// tokensOf issues tokens that are valid for a while; zero: as long as requested.
func tokensOf(asked *[]authenticationv1.TokenRequest, valid time.Duration) func(context.Context, string, string, *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return func(_ context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		*asked = append(*asked, *request)
		response := request.DeepCopy()
		response.Status.Token = namespace + "/" + account
		granted := valid
		if granted == 0 {
			granted = time.Duration(*request.Spec.ExpirationSeconds) * time.Second
		}
		response.Status.ExpirationTimestamp = metav1.NewTime(now.Add(granted))
		return response, nil
	}
}

func run(t *testing.T, d *Definition, in engine.Input) ([]engine.Action, error) {
	t.Helper()
	actions, err := d.Decide(in)
	require.NoError(t, err)
	require.IsType(t, engine.Query{}, actions[0])
	return actions[0].(engine.Query).Run(t.Context())
}

func TestTokensAreBoundToThePod(t *testing.T) {
	var asked []authenticationv1.TokenRequest
	d := New(Options{Origin: origin, CreateToken: tokens(&asked)})
	pod := offloaded(func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, projected("vault", "vault", ptr.To[int64](7200)))
	})
	actions, err := run(t, d, input(pod, nil))
	require.NoError(t, err)
	bound := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "uid-1"}
	assert.Equal(t, []authenticationv1.TokenRequest{
		{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600), BoundObjectRef: bound}},
		{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](7200), BoundObjectRef: bound, Audiences: []string{"vault"}}},
	}, asked)
	require.Len(t, actions, 3)
	apply := actions[0].(engine.Apply)
	assert.True(t, apply.SkipPolicies, "no policy sees a token")
	body, err := json.Marshal(apply.Config)
	require.NoError(t, err)
	got := &corev1.Secret{}
	require.NoError(t, json.Unmarshal(body, got))
	assert.Equal(t, metav1.ObjectMeta{
		Namespace: "shop-rome", Name: "web-token",
		Labels: map[string]string{
			offloadingv1beta1.OriginLabel: "rome", offloadingv1beta1.DestinationLabel: "milan", offloadingv1beta1.NodeNameLabel: "milan-node",
			"offloading.liqo.io/service-account-name": "reader",
		},
		Annotations: map[string]string{
			"offloading.liqo.io/service-account-for-pod-name": "web", "offloading.liqo.io/service-account-for-pod-uid": "uid-1",
			"offloading.liqo.io/service-account-expiration": "2026-05-01T11:00:00Z",
			"longshore.dev/token-issued":                    "2026-05-01T10:00:00Z",
		},
	}, got.ObjectMeta)
	assert.Equal(t, []byte("shop/reader"), got.Data[keyOfToken])
	assert.Equal(t, "shop", string(got.Data["namespace"]), "the remote pod reads it there")
	assert.Len(t, got.Data, 3)
	left := actions[1].(engine.Requeue).After
	assert.GreaterOrEqual(t, left, 48*time.Minute, "when a fifth of the shortest lifetime is left")
	assert.Less(t, left, 48*time.Minute+maxJitter)
}

func TestATokenThatCannotBeIssuedIsAnError(t *testing.T) {
	d := New(Options{Origin: origin, CreateToken: func(context.Context, string, string, *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		return nil, errors.New("not found")
	}})
	_, err := run(t, d, input(offloaded(nil), nil))
	require.EqualError(t, err, `requesting a token of service account "reader" for the remote pod: not found`)
}

func TestTheCacheHoldsNoToken(t *testing.T) {
	secret := held(0, func(s *corev1.Secret) { s.Data[keyOfToken] = []byte("token") })
	resource := New(Options{Origin: origin}).Resource()
	resource.Remote.Trim(secret)
	assert.Equal(t, map[string][]byte{keyOfToken: nil}, secret.Data)
	assert.False(t, resource.Filter, "no policy sees the Secret")
}

func TestNamesOfTheSecret(t *testing.T) {
	d := New(Options{Origin: origin})
	assert.Equal(t, "web-token", d.ToRemote("web"))
	for secret, pod := range map[string]string{"web-token": "web", "a-token-token": "a-token", "web": "", "-token": ""} {
		assert.Equal(t, pod, d.ToLocal(secret, nil), secret)
	}
	// A name of this length has no room for the suffix.
	names := map[string]bool{}
	for _, long := range []string{strings.Repeat("a", 253), strings.Repeat("a", 252) + "b", strings.Repeat("a.", 124) + "a", strings.Repeat("a-", 126) + "a"} {
		pod := offloaded(func(p *corev1.Pod) { p.Name = long })
		secret := d.ToRemote(long)
		assert.Empty(t, validation.IsDNS1123Subdomain(secret), secret)
		assert.Len(t, secret, 253)
		names[secret] = true
		forged := remote.TokenSecret(pod, "shop-rome", nil, now, now, origin)
		assert.Equal(t, secret, *forged.Name)
		kept := &metav1.ObjectMeta{Annotations: forged.Annotations}
		assert.Equal(t, long, d.ToLocal(secret, func() metav1.Object { return kept }))
		spec := remote.PodDraft(pod, "shop-rome", origin).Spec.Pod
		assert.Equal(t, secret, spec.Volumes[0].Projected.Sources[0].Secret.Name)
	}
	assert.Len(t, names, 4)
	natural := strings.Repeat("a", 247)
	assert.Equal(t, natural+"-token", d.ToRemote(natural))
	assert.Equal(t, natural, d.ToLocal(natural+"-token", func() metav1.Object { return nil }))
}

// No token is renewed for a namespace to which nothing is sent.
func TestTokensOfANamespaceThatEnds(t *testing.T) {
	for name, set := range map[string]func(*engine.Facts){
		"it is no longer offloaded": func(f *engine.Facts) { f.IsWithdrawn = true },
		"the provider deletes it":   func(f *engine.Facts) { f.IsEnding = true },
	} {
		t.Run(name, func(t *testing.T) {
			in := input(offloaded(nil), held(-time.Hour, nil))
			set(&in.Facts)
			actions, err := New(Options{Origin: origin}).Decide(in)
			require.NoError(t, err)
			require.Len(t, actions, 1)
			assert.IsType(t, engine.Keep{}, actions[0])
		})
	}
}
