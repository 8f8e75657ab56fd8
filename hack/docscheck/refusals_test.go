package docscheck

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the pages that tests of this package make")

const refusalsHead = `# Debug a refused policy

` + "```sh" + `
kubectl get offloadingpolicy registry-rewrite -o jsonpath='{.status.conditions[?(@.type=="Ready")]}'
longshorectl policy inspect --policy registry-rewrite
longshorectl policy inspect module.wasm.gz
` + "```" + `

The message of the condition, of the webhook and of longshorectl is the same, and names the role that must act. If pods are refused and not the policy, see [Debug a refused pod](debug-a-refused-pod.md).

## By reason

| reason of the condition Ready | what is wrong |
|---|---|
| ` + "`InvalidSpec`" + ` | the spec of the OffloadingPolicy, or ` + "`policy.yaml`" + ` of its ConfigMap |
| ` + "`InvalidSettings`" + ` | the module does not accept ` + "`spec.settings`" + `; the message is that of its author |
| ` + "`ModuleNotFound`" + `, ` + "`ModuleIncomplete`" + ` | a ConfigMap or a part of the module is missing, or parts of two versions are mixed |
| ` + "`ModuleNotLoaded`" + ` | the module itself: see the messages below |
| ` + "`BindingRefused`" + `, ` + "`OrderNeeded`" + ` | the policy does not fit to the others at the same extension point |
| ` + "`ReportRefused`" + ` | the cluster requires a [signed report](../reference/conformance.md#signed-reports), and there is none, or none that it accepts |

## By message

A test makes these tables of the messages in the code: ` + "`go test ./hack/docscheck -run TestThePageOfRefusedPolicies -update`" + `. "…" stands for a part that differs.
`

// refusalSources are the packages whose messages a policy is refused with.
var refusalSources = []struct{ title, folder string }{
	{"The file", "host/policy/module"},
	{"The module is compiled and started", "host/policy/engine"},
	{"Limits of the compiler", "host/policy/fuel"},
	{"The compiler", "host/policy/compiler"},
	{"The ConfigMap", "host/policysource/configmap"},
	{"The OffloadingPolicy and its module", "host/policysource/modules"},
	{"The spec", "host/policysource/plan"},
	{"The binding", "host/policy/chain"},
	{"The settings", "host/policy/operation"},
	{"The signed report", "host/policysource/attestation"},
}

// notRefusals are the files, in and beside the packages above, whose messages are about something else
// than a policy that is refused.
var notRefusals = map[string]string{
	"host/policy/chain/errors.go":        "a call of a bound policy fails: debug-a-refused-pod.md",
	"host/policy/chain/remedy.go":        "a call of a bound policy fails: debug-a-refused-pod.md",
	"host/policysource/report/report.go": "a policy that was enforced has no usable version; the message has the reason, which is on the page",
}

var (
	verbOf = regexp.MustCompile(`%\[?\d*\]?[+#]?\.?\d*[a-zA-Z]`)
	roleOf = regexp.MustCompile(`(author|operator)( of the ConfigMap)? (must|should)`)
)

// refusals returns the messages of a package that name a role, as patterns.
func refusals(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var found []string
	for _, file := range files {
		if relative := strings.TrimPrefix(filepath.ToSlash(file), root+"/"); strings.HasSuffix(file, "_test.go") || notRefusals[relative] != "" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			if folder == "host/policysource/attestation" && strings.HasPrefix(text, "the report ") || roleOf.MatchString(text) {
				found = append(found, verbOf.ReplaceAllString(text, "…"))
			}
			return true
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func refusalsPage(t *testing.T) string {
	t.Helper()
	var page strings.Builder
	page.WriteString(refusalsHead)
	for _, source := range refusalSources {
		messages := refusals(t, source.folder)
		if len(messages) == 0 {
			continue
		}
		fmt.Fprintf(&page, "\n### %s\n\n| message | who must act |\n|---|---|\n", source.title)
		for _, message := range messages {
			role := "the operator, who stores the report; the author, who signs it"
			if match := roleOf.FindStringSubmatch(message); match != nil {
				role = "the " + match[1] + match[2]
				if other := map[string]string{"author": "operator must", "operator": "author must"}[match[1]]; strings.Contains(message, other) {
					role = "the author or the operator"
				}
			}
			fmt.Fprintf(&page, "| %s | %s |\n", strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(message), role)
		}
	}
	return page.String()
}

func TestThePageOfRefusedPolicies(t *testing.T) {
	path := filepath.Join(root, "docs", "howto", "debug-a-refused-policy.md")
	page := refusalsPage(t)
	assert.Greater(t, strings.Count(page, "\n"), 60)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(page), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(have), page, "run go test ./hack/docscheck -run TestThePageOfRefusedPolicies -update")
	for _, reason := range reasons(t) {
		assert.Contains(t, page, "`"+reason+"`", "a reason of the condition Ready")
	}
}

// reasons returns the values of the constants Reason… of package plan.
func reasons(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "host", "policysource", "plan", "problem.go"))
	require.NoError(t, err)
	var found []string
	for _, match := range regexp.MustCompile(`Reason\w+ += "(\w+)"`).FindAllStringSubmatch(string(content), -1) {
		found = append(found, match[1])
	}
	require.NotEmpty(t, found)
	return found
}

// A package of the policies whose messages name a role is on the page, or is not about refusals.
func TestThePageOfRefusedPoliciesHasEveryPackage(t *testing.T) {
	known := map[string]bool{}
	for _, source := range refusalSources {
		known[source.folder] = true
	}
	excluded := maps.Clone(notRefusals)
	for _, path := range files(t, ".go") {
		relative := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		if !strings.HasPrefix(relative, "host/policy") || strings.HasSuffix(relative, "_test.go") {
			continue
		}
		delete(excluded, relative)
		if folder := filepath.Dir(relative); !known[folder] && notRefusals[relative] == "" {
			assert.Empty(t, refusals(t, folder), "add %s to refusalSources", folder)
		}
	}
	assert.Empty(t, excluded, "these files do not exist")
}
