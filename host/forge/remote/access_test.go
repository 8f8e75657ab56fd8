package remote_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// romeAPI is rome with an API server that remote pods reach.
func romeAPI(host string) remote.Origin {
	origin := rome
	origin.APIServer = remote.APIServer{Host: host, Port: "6443"}
	return origin
}

// accessPod has what the modes of access change.
func accessPod(annotations map[string]string) *corev1.Pod {
	account := corev1.EnvVar{Name: "ACCOUNT", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.serviceAccountName"}}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1", Annotations: annotations},
		Spec: corev1.PodSpec{
			ServiceAccountName:  "reader",
			InitContainers:      []corev1.Container{{Name: "init"}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Env: []corev1.EnvVar{account}}}},
			Containers:          []corev1.Container{{Name: "web", Env: []corev1.EnvVar{{Name: "KUBERNETES_SERVICE_HOST", Value: "mine"}, account}}},
			Volumes: []corev1.Volume{{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](3607)}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}},
				},
			}}}},
		},
	}
}

func TestAccessToAnAPIServer(t *testing.T) {
	const support, account = offloadingv1beta1.APIServerSupportAnnotation, offloadingv1beta1.RemoteServiceAccountNameAnnotation
	local := accessPod(nil).Spec.Volumes[0].Projected.Sources
	rootCA := corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt.rome"}}}
	secret := corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: "web-token"}, Items: []corev1.KeyToPath{{Key: "kube-api-access-x-3c469e", Path: "token"}},
	}}
	api := romeAPI("api.rome.example.com")
	tests := map[string]struct {
		origin      remote.Origin
		annotations map[string]string
		sources     []corev1.VolumeProjection
		account     string
		automount   bool
		isHome      bool
	}{
		"without an address, no token and no variable (T33)":    {origin: rome, sources: []corev1.VolumeProjection{rootCA}},
		"a pod that declines access":                            {origin: api, annotations: map[string]string{support: "disabled"}, sources: []corev1.VolumeProjection{rootCA}},
		"the API server of the consumer":                        {origin: api, sources: []corev1.VolumeProjection{secret, rootCA}, isHome: true},
		"another value of the annotation is ignored":            {origin: api, annotations: map[string]string{support: "home"}, sources: []corev1.VolumeProjection{secret, rootCA}, isHome: true},
		"the API server of the provider":                        {origin: api, annotations: map[string]string{support: "remote"}, sources: local, account: "reader", automount: true},
		"a service account of the provider, without address":    {origin: rome, annotations: map[string]string{support: "remote", account: "there"}, sources: local, account: "there", automount: true},
		"an empty name drops the name of the local pod":         {origin: api, annotations: map[string]string{support: "remote", account: ""}, sources: local, automount: true},
		"a service account of the provider needs mode remote":   {origin: api, annotations: map[string]string{account: "there"}, sources: []corev1.VolumeProjection{secret, rootCA}, isHome: true},
		"a pod that declines access, with an account (ignored)": {origin: api, annotations: map[string]string{support: "disabled", account: "there"}, sources: []corev1.VolumeProjection{rootCA}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := accessPod(tc.annotations)
			before := pod.DeepCopy()
			spec := remote.PodDraft(pod, "shop-rome", tc.origin).Spec.Pod
			assert.Equal(t, before, pod, "the local pod is not altered")
			assert.Equal(t, tc.sources, spec.Volumes[0].Projected.Sources)
			assert.Equal(t, tc.account, spec.ServiceAccountName)
			assert.Equal(t, ptr.To(tc.automount), spec.AutomountServiceAccountToken)
			env := spec.Containers[0].Env
			assert.Equal(t, tc.automount, env[1].ValueFrom != nil, "T37: the account's name is that of the local pod")
			if !tc.automount {
				assert.Equal(t, corev1.EnvVar{Name: "ACCOUNT", Value: "reader"}, env[1])
			}
			debug := spec.EphemeralContainers[0].Env
			assert.Equal(t, env[1], debug[0], "T37, in an ephemeral container too")
			tokens, _ := remote.PodTokens(pod, tc.origin)
			if !tc.isHome {
				assert.Len(t, env, 2)
				assert.Len(t, debug, 1)
				assert.Zero(t, remote.APIServerOf(&spec))
				assert.Empty(t, spec.InitContainers[0].Env)
				assert.Empty(t, tokens, "T31")
				return
			}
			want := []corev1.EnvVar{
				{Name: "KUBERNETES_SERVICE_HOST", Value: "api.rome.example.com"},
				{Name: "KUBERNETES_SERVICE_PORT", Value: "6443"},
				{Name: "KUBERNETES_PORT", Value: "tcp://api.rome.example.com:6443"},
				{Name: "KUBERNETES_PORT_6443_TCP", Value: "tcp://api.rome.example.com:6443"},
				{Name: "KUBERNETES_PORT_6443_TCP_PROTO", Value: "tcp"},
				{Name: "KUBERNETES_PORT_6443_TCP_ADDR", Value: "api.rome.example.com"},
				{Name: "KUBERNETES_PORT_6443_TCP_PORT", Value: "6443"},
			}
			assert.Equal(t, want, env[2:], "last, so that they replace those of the user (T34)")
			assert.Equal(t, want, spec.InitContainers[0].Env)
			assert.Equal(t, want, debug[1:], "it has the tokens too")
			assert.Equal(t, api.APIServer, remote.APIServerOf(&spec))
			assert.Equal(t, []remote.PodToken{{Key: "kube-api-access-x-3c469e", Seconds: 3600}}, tokens, "not a token of a year")
		})
	}
}

// However a pod gets the CA certificate of its API server, it is that of the consumer.
func TestTheRootCAIsThatOfTheAPIServerWhoseTokensThePodHas(t *testing.T) {
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	withRootCA := func(name string, annotations map[string]string) *corev1.Pod {
		env := func() ([]corev1.EnvVar, []corev1.EnvFromSource) {
			return []corev1.EnvVar{
					{Name: "CA", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named(name), Key: "ca.crt"}}},
					{Name: "LOG", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("settings"), Key: "log"}}},
				}, []corev1.EnvFromSource{
					{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named(name)}},
					{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("kube-root-ca.crt")}},
				}
		}
		pod := accessPod(annotations)
		for _, containers := range []*[]corev1.Container{&pod.Spec.InitContainers, &pod.Spec.Containers} {
			container := &(*containers)[0]
			container.Env, container.EnvFrom = env()
		}
		debug := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}
		debug.Env, debug.EnvFrom = env()
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{debug}
		pod.Spec.Volumes = []corev1.Volume{
			{Name: "ca", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named(name)}}},
			{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("settings")}}},
			{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named(name)}},
			}}}},
		}
		return pod
	}
	api := romeAPI("api.rome.example.com")
	for name, tc := range map[string]struct {
		origin  remote.Origin
		support string
		want    string
	}{
		"the API server of the consumer":       {api, "", "kube-root-ca.crt.rome"},
		"a pod that declines access":           {api, "disabled", "kube-root-ca.crt.rome"},
		"without an address of the API server": {rome, "", "kube-root-ca.crt.rome"},
		"the API server of the provider":       {api, "remote", "kube-root-ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{offloadingv1beta1.APIServerSupportAnnotation: tc.support}
			pod, want := withRootCA("kube-root-ca.crt", annotations), withRootCA(tc.want, annotations).Spec
			before := pod.DeepCopy()
			spec := remote.PodDraft(pod, "shop-rome", tc.origin).Spec.Pod
			assert.Equal(t, before, pod, "the local pod is not altered")
			assert.Equal(t, want.Volumes, spec.Volumes)
			require.Len(t, spec.EphemeralContainers, 1)
			assert.Equal(t, want.EphemeralContainers[0].Env, spec.EphemeralContainers[0].Env[:2])
			assert.Equal(t, want.EphemeralContainers[0].EnvFrom, spec.EphemeralContainers[0].EnvFrom)
			for i, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
				wanted := [][]corev1.Container{want.InitContainers, want.Containers}[i][0]
				assert.Equal(t, wanted.Env, containers[0].Env[:2])
				assert.Equal(t, wanted.EnvFrom, containers[0].EnvFrom)
			}
		})
	}
}

func TestAPIServerWithAnIPv6Address(t *testing.T) {
	env := remote.PodDraft(accessPod(nil), "shop-rome", romeAPI("fd00::1")).Spec.Pod.InitContainers[0].Env
	assert.Equal(t, "fd00::1", env[0].Value)
	assert.Equal(t, "tcp://[fd00::1]:6443", env[2].Value)
}

// The provider resolves the name by host aliases. Those of the user stay.
func TestAPIServerOverTheNetwork(t *testing.T) {
	origin := rome
	origin.APIServer = remote.APIServer{Host: remote.HomeAPIServerHost, Port: "443", Addresses: []string{"10.70.0.1", "10.70.0.2"}}
	own := corev1.HostAlias{IP: "192.0.2.1", Hostnames: []string{"db.example.com"}}
	names := []string{"kubernetes.default", "kubernetes.default.svc"}
	all := []corev1.HostAlias{own, {IP: "10.70.0.1", Hostnames: names}, {IP: "10.70.0.2", Hostnames: names}}
	for name, tc := range map[string]struct {
		support string
		aliases []corev1.HostAlias
	}{
		"a pod that uses the consumer's API server": {"", all},
		"a pod that declines access":                {"disabled", all[:1]},
		"a pod that uses the provider's API server": {"remote", all[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			pod := accessPod(map[string]string{offloadingv1beta1.APIServerSupportAnnotation: tc.support})
			pod.Spec.HostAliases = append(make([]corev1.HostAlias, 0, 8), own)
			spec := remote.PodDraft(pod, "shop-rome", origin).Spec.Pod
			assert.Equal(t, tc.aliases, spec.HostAliases)
			assert.Empty(t, pod.Spec.HostAliases[:2][1].IP, "the local pod is not altered")
			host := corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "kubernetes.default"}
			assert.Equal(t, tc.support == "", assert.ObjectsAreEqual(host, spec.Containers[0].Env[min(2, len(spec.Containers[0].Env)-1)]))
		})
	}
}

// The address of the API server matters to pods that use it.
func TestTheOriginOfAPod(t *testing.T) {
	known := remote.APIServer{Host: "api", Port: "6443"}
	for name, tc := range map[string]struct {
		support string
		server  remote.APIServer
		err     error
		want    remote.APIServer
		fails   bool
	}{
		"with an address":                                {server: known, want: known},
		"without access":                                 {},
		"while the address is not known":                 {err: assert.AnError, fails: true},
		"a pod that declines access does not wait":       {support: "disabled", err: assert.AnError},
		"a pod of the provider's API server neither":     {support: "remote", err: assert.AnError},
		"another value of the annotation is not a value": {support: "home", server: known, want: known},
	} {
		t.Run(name, func(t *testing.T) {
			pod := accessPod(map[string]string{offloadingv1beta1.APIServerSupportAnnotation: tc.support})
			origin, err := rome.ForPod(pod, func() (remote.APIServer, error) { return tc.server, tc.err })
			assert.Equal(t, tc.fails, err != nil)
			assert.Equal(t, tc.want, origin.APIServer)
			assert.Equal(t, rome.HomeClusterID, origin.HomeClusterID)
		})
	}
}

func TestTheDefaultServiceAccountAndALongName(t *testing.T) {
	pod := accessPod(nil)
	pod.Spec.ServiceAccountName = ""
	_, account := remote.PodTokens(pod, romeAPI("api"))
	assert.Equal(t, "default", account)
	long := "an-account-with-a-name-that-is-longer-than-the-value-of-a-label-may-be"
	pod.Spec.ServiceAccountName = long
	secret := remote.TokenSecret(pod, "shop-rome", nil, metav1.Now().Time, metav1.Now().Time, rome)
	assert.NotContains(t, secret.Labels, remote.TokenAccountKey)
	assert.Equal(t, long, secret.Annotations[remote.TokenAccountKey])
}

// A token for another audience gives no access to the consumer's API server. It is left out with the others,
// unless the operator has decided otherwise, and never in silence.
func TestTokensForOtherAudiences(t *testing.T) {
	sends := rome
	sends.AudienceTokens = true
	const support = offloadingv1beta1.APIServerSupportAnnotation
	aws := remote.PodToken{Key: "aws-3c469e", Audience: "sts.amazonaws.com", Seconds: 86400}
	left := []remote.LeftOutToken{{Volume: "aws", Audience: "sts.amazonaws.com"}}
	for name, tc := range map[string]struct {
		origin  remote.Origin
		support string
		sent    []remote.PodToken
		left    []remote.LeftOutToken
	}{
		"without access":                    {rome, "", nil, left},
		"a pod that declines access":        {sends, "disabled", nil, left},
		"the operator sends them":           {sends, "", []remote.PodToken{aws}, nil},
		"the API server of the consumer":    {romeAPI("api"), "", []remote.PodToken{{Key: "kube-api-access-x-3c469e", Seconds: 3600}, aws}, nil},
		"those of the provider are its own": {sends, "remote", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := accessPod(map[string]string{support: tc.support})
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "aws", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
					Path: "token", Audience: "sts.amazonaws.com", ExpirationSeconds: ptr.To[int64](86400),
				}}},
			}}})
			tokens, _ := remote.PodTokens(pod, tc.origin)
			assert.Equal(t, tc.sent, tokens)
			assert.Equal(t, tc.left, remote.TokensLeftOut(pod, tc.origin))
			var keys []string
			for _, volume := range remote.PodDraft(pod, "shop-rome", tc.origin).Spec.Pod.Volumes {
				for _, source := range volume.Projected.Sources {
					if source.Secret != nil {
						keys = append(keys, source.Secret.Items[0].Key)
					}
				}
			}
			assert.Len(t, keys, len(tc.sent), "what is sent is mounted")
		})
	}
}
