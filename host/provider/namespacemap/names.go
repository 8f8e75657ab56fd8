package namespacemap

import (
	"fmt"
	"path"
	"slices"
	"strings"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// reservedPatterns are names that no consumer gets: those of Kubernetes, and those of
// tenant namespaces, in which the credentials of peers lie.
var reservedPatterns = []string{"default", "kube-*", "liqo", liqocorev1beta1.TenantNamespacePrefix + "*"}

// Names decides which names a consumer may choose for namespaces of the provider.
type Names struct {
	// Own is Longshore's own namespace.
	Own string
	// Reserved are patterns, as of path.Match, of further names that the provider keeps for
	// itself. Names that end in "-" and the consumer's cluster ID do not count.
	Reserved []string
}

// Validate reports patterns that cannot be parsed.
func (n *Names) Validate() error {
	for _, pattern := range n.Reserved {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("parsing the pattern %q of reserved namespaces: %w", pattern, err)
		}
	}
	return nil
}

// Check returns an error when the consumer with the cluster ID origin may not have a new
// namespace of this name; tenants are the cluster IDs of all consumers. A name that ends in
// "-" and a cluster ID is that consumer's; of several such IDs the longest counts.
func (n *Names) Check(remote, origin string, tenants []string) error {
	owner := ""
	for _, id := range append(slices.Clone(tenants), origin) {
		if strings.HasSuffix(remote, "-"+id) && len(id) > len(owner) {
			owner = id
		}
	}
	switch {
	case owner != "" && owner != origin:
		return fmt.Errorf("namespace %q: names that end in -%s are kept for that cluster: %w", remote, owner, errReserved)
	case remote == n.Own || matches(reservedPatterns, remote) || owner != origin && matches(n.Reserved, remote):
		return fmt.Errorf("namespace %q: %w", remote, errReserved)
	}
	return nil
}

// matches reports whether a name has one of the patterns, which are valid.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}
