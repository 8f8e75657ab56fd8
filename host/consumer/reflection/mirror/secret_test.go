package mirror

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func secretOf(secretType corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metadata, Type: secretType, Data: map[string][]byte{"k": []byte("v")}}
}

func TestSecretsThatStayInTheirCluster(t *testing.T) {
	token := func() client.Object { return secretOf(corev1.SecretTypeServiceAccountToken) }
	ofType := func(name corev1.SecretType) client.Object { return secretOf(name) }
	opaque := func() client.Object { return secretOf(corev1.SecretTypeOpaque) }
	podToken := managed(opaque())
	podToken.GetLabels()["offloading.liqo.io/service-account-name"] = "default"
	podToken.SetAnnotations(map[string]string{"offloading.liqo.io/service-account-for-pod-name": "web"})
	skippedNamesake := input(opaque(), podToken)
	skippedNamesake.Skipped = true
	skippedToken := input(token(), managed(opaque()))
	skippedToken.Skipped = true
	tests := map[string]struct {
		in   engine.Input
		want []string
	}{
		"a service account's token":                                {input(token(), nil), []string{engine.ReasonReflectionDisabled}},
		"a service account's token that was copied":                {input(token(), managed(opaque())), []string{engine.ReasonReflectionDisabled, "delete"}},
		"a service account's token with an unmanaged namesake":     {input(token(), opaque()), []string{engine.ReasonReflectionDisabled}},
		"a service account's token whose copy is being deleted":    {input(token(), deleting(managed(opaque()))), []string{engine.ReasonReflectionDisabled}},
		"a service account's token that is skipped":                {skippedToken, []string{"delete"}},
		"a release of Helm":                                        {input(ofType("helm.sh/release.v1"), managed(opaque())), []string{engine.ReasonReflectionDisabled, "delete"}},
		"a bootstrap token":                                        {input(ofType(corev1.SecretTypeBootstrapToken), nil), []string{engine.ReasonReflectionDisabled}},
		"a registry's password":                                    {input(ofType(corev1.SecretTypeDockerConfigJson), nil), []string{"apply"}},
		"a remote Secret with the tokens of a pod is not a mirror": {input(nil, podToken), []string{"keep: the remote object is for the tokens of a remote pod"}},
		"a Secret with the name of a pod's tokens":                 {input(opaque(), podToken), []string{engine.ReasonFailedReflection}},
		"a skipped Secret with the name of a pod's tokens":         {skippedNamesake, []string{"keep: the remote object is for the tokens of a remote pod"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := define(secret, "")
			d.options.WithheldTypes = remote.WithheldSecretTypes()
			assert.Equal(t, tc.want, steps(t, d, tc.in))
		})
	}
	assert.Equal(t, []string{"apply"}, steps(t, define(secret, ""), input(ofType("helm.sh/release.v1"), nil)), "switched on again")
}

func TestSecretsThatAreReplaced(t *testing.T) {
	object := func(value string, immutable bool) *corev1.Secret {
		return &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"k": []byte(value)}, Immutable: ptr.To(immutable)}
	}
	testReplacements(t, define(secret, ""), map[string]replacement[*corev1.Secret]{
		"other content":                      {object("2", false), object("1", false), false},
		"another type":                       {secretOf(corev1.SecretTypeTLS), secretOf(corev1.SecretTypeOpaque), true},
		"immutable with other content (T47)": {object("2", true), object("1", true), true},
		"immutable with the same content":    {object("1", true), object("1", true), false},
		"immutable in the provider only":     {object("1", false), object("1", true), true},
	})
}

func TestSecretContentIsCopied(t *testing.T) {
	got := &corev1.Secret{}
	applied(t, define(secret, ""), input(secretOf(corev1.SecretTypeTLS), nil), got)
	assert.Equal(t, corev1.SecretTypeTLS, got.Type)
	assert.Equal(t, map[string][]byte{"k": []byte("v")}, got.Data)
}
