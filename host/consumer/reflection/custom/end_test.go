package custom

import (
	"testing"

	"github.com/stretchr/testify/assert"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var certificates = schema.GroupResource{Group: "cert-manager.io", Resource: "certificates"}

func TestMissingRights(t *testing.T) {
	rule := func(group, resource string, verbs ...string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	one := rule("cert-manager.io", "certificates", "get", "list", "watch")
	one.ResourceNames = []string{"web"}
	statusPatch := access{verb: "patch", subresource: "status"}
	for name, tc := range map[string]struct {
		rules      []authorizationv1.ResourceRule
		incomplete bool
		needed     []access
		want       []access
	}{
		"all":                    {rules: []authorizationv1.ResourceRule{rule("cert-manager.io", "certificates", "get", "list", "watch")}, needed: localAccess(false, false)},
		"none":                   {needed: []access{{verb: "get"}}, want: []access{{verb: "get"}}},
		"rules add up":           {rules: []authorizationv1.ResourceRule{rule("cert-manager.io", "certificates", "get", "list"), rule("cert-manager.io", "*", "watch")}, needed: localAccess(false, false)},
		"everything":             {rules: []authorizationv1.ResourceRule{rule("*", "*", "*")}, needed: append(remoteAccess(), localAccess(true, false)...)},
		"another group":          {rules: []authorizationv1.ResourceRule{rule("example.com", "certificates", "get")}, needed: []access{{verb: "get"}}, want: []access{{verb: "get"}}},
		"objects of some names":  {rules: []authorizationv1.ResourceRule{one}, needed: []access{{verb: "get"}}, want: []access{{verb: "get"}}},
		"the status is separate": {rules: []authorizationv1.ResourceRule{rule("cert-manager.io", "certificates", "patch")}, needed: []access{statusPatch}, want: []access{statusPatch}},
		"the status":             {rules: []authorizationv1.ResourceRule{rule("cert-manager.io", "certificates/status", "patch")}, needed: []access{statusPatch}},
		"the status of all":      {rules: []authorizationv1.ResourceRule{rule("cert-manager.io", "*/status", "patch")}, needed: []access{statusPatch}},
		"an authorizer that does not list its rules": {incomplete: true, needed: remoteAccess()},
	} {
		t.Run(name, func(t *testing.T) {
			s := sight{rules: tc.rules, isComplete: !tc.incomplete}
			assert.Equal(t, tc.want, s.missing(certificates, tc.needed))
		})
	}
}

func TestNeededRights(t *testing.T) {
	read := []access{{verb: "get"}, {verb: "list"}, {verb: "watch"}}
	assert.Equal(t, read, localAccess(false, true))
	assert.Equal(t, append(read[:3:3], access{verb: "patch"}), localAccess(true, true))
	assert.Equal(t, append(read[:3:3], access{verb: "patch", subresource: "status"}), localAccess(true, false))
}

func TestFindAKind(t *testing.T) {
	resources := []metav1.APIResource{
		{Name: "issuers", Kind: "Issuer", Namespaced: true},
		{Name: "certificates", Kind: "Certificate", Namespaced: true},
		{Name: "certificates/status", Kind: "Certificate", Namespaced: true},
		{Name: "certificates/scale", Kind: "Scale", Namespaced: true},
		{Name: "clusterissuers", Kind: "ClusterIssuer"},
	}
	assert.Equal(t, served{plural: "certificates", isNamespaced: true, hasStatus: true}, find(resources, "Certificate"))
	assert.Equal(t, served{plural: "clusterissuers"}, find(resources, "ClusterIssuer"))
	assert.Equal(t, served{}, find(resources, "Challenge"))
}

func TestDiagnose(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}
	namespaced := served{plural: "certificates", isNamespaced: true}
	for name, tc := range map[string]struct {
		local, remote   served
		reason, message string
	}{
		"served by both": {local: namespaced, remote: namespaced},
		"not in the consumer": {
			remote: namespaced, reason: ReasonNotServedByConsumer,
			message: "This cluster does not serve kind Certificate of cert-manager.io/v1. Its operator must install the CustomResourceDefinition.",
		},
		"not in the provider": {
			local: namespaced, reason: ReasonNotServedByProvider,
			message: "Cluster milan does not serve kind Certificate of cert-manager.io/v1. Its operator must install the CustomResourceDefinition.",
		},
		"another kind of the version in the provider": {
			local: namespaced, remote: served{versions: []string{"v1"}}, reason: ReasonNotServedByProvider,
			message: "Cluster milan does not serve kind Certificate of cert-manager.io/v1. Its operator must install the CustomResourceDefinition.",
		},
		"another version in the provider": {
			local: namespaced, remote: served{versions: []string{"v1beta1", "v1alpha2"}}, reason: ReasonNotServedByProvider,
			message: "Cluster milan does not serve kind Certificate of cert-manager.io/v1; it serves group cert-manager.io in v1beta1, v1alpha2. Set spec.version to a version that both clusters serve, or install the CustomResourceDefinition with this version.",
		},
		"without namespaces": {
			local: served{plural: "certificates"}, remote: namespaced, reason: ReasonNotNamespaced,
			message: "Objects of kind Certificate have no namespace. Only kinds with namespaces can be reflected.",
		},
		"another resource": {
			local: namespaced, remote: served{plural: "certs", isNamespaced: true}, reason: ReasonNotServedByProvider,
			message: "Kind Certificate is resource certificates in this cluster and certs in cluster milan. The operators must install the same CustomResourceDefinition.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reason, message := diagnose(kind, "milan", tc.local, tc.remote)
			assert.Equal(t, tc.reason, reason)
			assert.Equal(t, tc.message, message)
		})
	}
}
