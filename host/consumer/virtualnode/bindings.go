package virtualnode

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxNamed is the maximum number of objects in a message.
const maxNamed = 3

func emptyLike(obj client.Object) client.Object {
	switch obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		return &rbacv1.ClusterRoleBinding{}
	case *rbacv1.RoleBinding:
		return &rbacv1.RoleBinding{}
	case *rbacv1.ClusterRole:
		return &rbacv1.ClusterRole{}
	case *rbacv1.Role:
		return &rbacv1.Role{}
	default:
		return &corev1.ServiceAccount{}
	}
}

// rulesOf returns the rules of a role, and whether the object is a role.
func rulesOf(obj client.Object) (*[]rbacv1.PolicyRule, bool) {
	switch role := obj.(type) {
	case *rbacv1.ClusterRole:
		return &role.Rules, true
	case *rbacv1.Role:
		return &role.Rules, true
	default:
		return nil, false
	}
}

// subjectsOf returns the subjects of a binding, and whether the object is a binding.
func subjectsOf(obj client.Object) ([]rbacv1.Subject, bool) {
	switch binding := obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		return binding.Subjects, true
	case *rbacv1.RoleBinding:
		return binding.Subjects, true
	default:
		return nil, false
	}
}

func roleOf(obj client.Object) rbacv1.RoleRef {
	switch binding := obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		return binding.RoleRef
	case *rbacv1.RoleBinding:
		return binding.RoleRef
	default:
		return rbacv1.RoleRef{}
	}
}

// isSameBinding reports whether a binding has the desired role and the desired subject, the account of
// the virtual kubelet: an administrator may have added others.
func isSameBinding(current, desired client.Object) bool {
	subjects, _ := subjectsOf(current)
	desiredSubjects, _ := subjectsOf(desired)
	return roleOf(current) == roleOf(desired) && slices.Contains(subjects, desiredSubjects[0])
}

// title returns kind, namespace and name of an object for messages.
func title(obj client.Object) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1.")
	if obj.GetNamespace() == "" {
		return kind + " " + obj.GetName()
	}
	return fmt.Sprintf("%s %s/%s", kind, obj.GetNamespace(), obj.GetName())
}

// describeBinding returns the role and the subjects of a binding for messages.
func describeBinding(binding client.Object) string {
	role := roleOf(binding)
	subjects, _ := subjectsOf(binding)
	to := make([]string, 0, len(subjects))
	for _, subject := range subjects {
		name := subject.Name
		if subject.Namespace != "" {
			name = subject.Namespace + "/" + name
		}
		to = append(to, subject.Kind+" "+name)
	}
	if len(to) == 0 {
		to = []string{"no subject"}
	}
	if more := len(to) - maxNamed; more > 0 { // The note of an event is limited to one kilobyte.
		to = append(to[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("binds %s %s to %s", role.Kind, role.Name, strings.Join(to, ", "))
}
