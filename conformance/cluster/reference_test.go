package cluster

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/reference/cluster-conformance.md")

const referenceHead = `# Conformance of installations

What ` + "`longshorectl conform cluster`" + ` checks, in this order. A test of the suite writes this page: ` + "`go test ./conformance/cluster -run TestTheReferencePageIsTrue -update`" + `.

` + "```sh" + `
longshorectl conform cluster --consumer rome.kubeconfig --provider milan.kubeconfig
` + "```" + `

The command works from outside, with the API servers of a consumer and a provider that are peered. It creates a namespace in the consumer (` + "`--namespace`" + `, by default ` + "`" + NamespacePrefix + "`" + ` and a random suffix), offloads it, runs a pod and deletes the namespace at the end, also after an interrupt. It never takes a namespace that exists. Requests in the name of the consumer are impersonated and dry runs.

Each check may fail for ` + "`--timeout`" + ` until it counts. A check whose prerequisite did not pass is skipped, with the reason. The profile Wire has nothing of Longshore's own; the profile Longshore is skipped where the clusters do not serve OffloadingPolicies.

The report is the document ` + "`" + ReportKind + "`" + ` of ` + "`conformance.longshore.dev/v1alpha1`" + `: ` + "`consumer`, `provider`, `suite`, `namespace`, `remoteNamespace`, `conforms`" + `, and ` + "`features`" + ` (the profiles), ` + "`checks` and `findings`" + ` as in the [report of a policy](conformance.md#report). ` + "`--junit` and `--html`" + ` write the same files.

| check | profile | what an installation must do | wire |
|---|---|---|---|
`

func reference() string {
	var text strings.Builder
	text.WriteString(referenceHead)
	for _, rule := range Rules() {
		section := ""
		if rule.Section != "" {
			section = "[" + rule.Section + "](wire.md)"
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", rule.ID, rule.Profile, rule.Sentence, section)
	}
	return text.String()
}

func TestTheReferencePageIsTrue(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "cluster-conformance.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(reference()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), reference(), "run go test ./conformance/cluster -run TestTheReferencePageIsTrue -update")
}
