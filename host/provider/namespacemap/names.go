package namespacemap

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// reservedPatterns are names that no consumer may use: those of Kubernetes and of tenant namespaces,
// which contain the credentials of peers.
var reservedPatterns = []string{"default", "kube-*", "liqo", liqocorev1beta1.TenantNamespacePrefix + "*"}

// Names validates the names that consumers choose for remote namespaces.
type Names struct {
	// Own is Longshore's own namespace.
	Own string
	// Reserved are patterns of path.Match of further reserved names. Names that end in "-" and the
	// consumer's cluster ID are excepted.
	Reserved []string
}

// Validate returns an error for an invalid pattern.
func (n *Names) Validate() error {
	for _, pattern := range n.Reserved {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("parsing the pattern %q of reserved namespaces: %w", pattern, err)
		}
	}
	return nil
}

// Check returns an error if the consumer with the cluster ID origin may not create a namespace with
// this name. tenants are the cluster IDs of all consumers. A name that ends in "-" and a cluster ID
// is reserved for that consumer; of several such IDs the longest counts.
func (n *Names) Check(remote, origin string, tenants []string) error {
	if problems := validation.IsDNS1123Label(remote); len(problems) > 0 {
		return fmt.Errorf("namespace %q: %w: %s", remote, errInvalidName, problems[0])
	}
	owner := ""
	for _, id := range append(slices.Clone(tenants), origin) {
		if strings.HasSuffix(remote, "-"+id) && len(id) > len(owner) {
			owner = id
		}
	}
	switch {
	case owner != "" && owner != origin:
		return fmt.Errorf("namespace %q: names that end in -%s are reserved for that cluster: %w", remote, owner, errReserved)
	case remote == n.Own || matches(reservedPatterns, remote) || owner != origin && matches(n.Reserved, remote):
		return fmt.Errorf("namespace %q: %w", remote, errReserved)
	}
	return nil
}

// matches reports whether a name matches one of the patterns, which are valid.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}
