package feed

import (
	"testing"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/longshore-dev/longshore/host/peering/authentication"
)

func roleOf(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func bindingOf(namespace, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "consumer"},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: subjects,
	}
}

func groupOf(name string) rbacv1.Subject { return rbacv1.Subject{Kind: rbacv1.GroupKind, Name: name} }

func TestRights(t *testing.T) {
	watches := func(group, resource, verb string) *rbacv1.ClusterRole {
		return roleOf(authentication.NamespaceRole, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get", verb}})
	}
	ofRome := bindingOf("web-rome", authentication.NamespaceRole, groupOf("rome"))
	named := watches("", "pods", "watch")
	named.Rules[0].ResourceNames = []string{"one"}
	for name, test := range map[string]struct {
		objects []any
		want    []string
	}{
		"the role and a binding":                    {[]any{watches("", "pods", "watch"), ofRome}, []string{"web-rome"}},
		"a role that has everything":                {[]any{watches("*", "*", "*"), ofRome}, []string{"web-rome"}},
		"no role":                                   {[]any{ofRome}, nil},
		"another role":                              {[]any{roleOf("other", watches("", "pods", "watch").Rules...), ofRome}, nil},
		"a role with another verb":                  {[]any{watches("", "pods", "list"), ofRome}, nil},
		"a role with another resource":              {[]any{watches("", "secrets", "watch"), ofRome}, nil},
		"a role with a resource of another group":   {[]any{watches("metrics.k8s.io", "pods", "watch"), ofRome}, nil},
		"a role with a subresource":                 {[]any{watches("", "pods/log", "watch"), ofRome}, nil},
		"a role with named objects":                 {[]any{named, ofRome}, nil},
		"a binding of another group":                {[]any{watches("", "pods", "watch"), bindingOf("web-oslo", authentication.NamespaceRole, groupOf("oslo"))}, nil},
		"a binding of a user with the group's name": {[]any{watches("", "pods", "watch"), bindingOf("web", authentication.NamespaceRole, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "rome"})}, nil},
		"a binding of another role":                 {[]any{watches("", "pods", "watch"), bindingOf("web", "view", groupOf("rome"))}, nil},
		"two namespaces": {
			[]any{watches("", "pods", "watch"), ofRome, bindingOf("shop-rome", authentication.NamespaceRole, groupOf("oslo"), groupOf("rome"))},
			[]string{"shop-rome", "web-rome"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRights()
			for _, object := range test.objects {
				r.set(object)
			}
			got, _ := r.Of([]string{"system:authenticated", "rome"}, schema.GroupResource{Resource: "pods"})
			assert.ElementsMatch(t, test.want, got.UnsortedList())
		})
	}
}

func TestAChangeOfRightsIsNotified(t *testing.T) {
	role := roleOf(authentication.NamespaceRole, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"watch"}})
	binding := bindingOf("web-rome", authentication.NamespaceRole, groupOf("rome"))
	local := bindingOf("web-rome", authentication.NamespaceRole, groupOf("rome"))
	local.RoleRef.Kind = "Role"
	for name, test := range map[string]struct {
		change   func(r *Rights)
		want     []string
		isSilent bool
	}{
		"the binding again":       {func(r *Rights) { r.set(binding.DeepCopy()) }, []string{"web-rome"}, true},
		"a binding elsewhere":     {func(r *Rights) { r.set(bindingOf("web-oslo", "view", groupOf("oslo"))) }, []string{"web-rome"}, true},
		"another consumer":        {func(r *Rights) { r.set(bindingOf("web-oslo", authentication.NamespaceRole, groupOf("oslo"))) }, []string{"web-rome"}, false},
		"a role of the namespace": {func(r *Rights) { r.set(local) }, nil, false},
		"the binding is deleted":  {func(r *Rights) { r.remove(binding) }, nil, false},
		"the watch missed that the binding was deleted": {
			func(r *Rights) { r.remove(toolscache.DeletedFinalStateUnknown{Obj: binding}) }, nil, false,
		},
		"the role is deleted":     {func(r *Rights) { r.remove(role) }, nil, false},
		"the role loses the rule": {func(r *Rights) { r.set(roleOf(authentication.NamespaceRole)) }, nil, false},
		"another role is deleted": {func(r *Rights) { r.remove(roleOf("view")) }, []string{"web-rome"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRights()
			r.set(role)
			r.set(binding)
			of := func() ([]string, <-chan struct{}) {
				namespaces, changed := r.Of([]string{"rome"}, schema.GroupResource{Resource: "pods"})
				return namespaces.UnsortedList(), changed
			}
			_, changed := of()
			test.change(r)
			select {
			case <-changed:
				assert.False(t, test.isSilent, "nothing has changed")
			default:
				assert.True(t, test.isSilent, "no notice")
			}
			got, _ := of()
			assert.ElementsMatch(t, test.want, got)
		})
	}
}
