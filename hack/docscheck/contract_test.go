package docscheck

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const generatedBy = "A test makes this page: `go test ./hack/docscheck -run TestPagesOfTheContract -update`.\n"

// limitsPage lists the constants of sdk/contract/limits.go, and those of package fuel that bound the
// shape of a module, with their comments.
func limitsPage(t *testing.T) string {
	t.Helper()
	const head = "| limit | value | meaning |\n|---|---|---|\n"
	var page strings.Builder
	page.WriteString("# Limits of policies\n\nThe limits that the host puts on a module, from `sdk/contract/limits.go`. " + generatedBy +
		"\nA policy can lower its fuel and its memory with `spec.limits`. [The sandbox](../explanation/sandbox.md) explains how each limit is kept.\n\n" + head)
	writeConstants(t, &page, "", "sdk/contract/limits.go")
	page.WriteString("\n## What a module may consist of\n\nThe host refuses a module that exceeds one of these limits before it validates or compiles it, " +
		"and names the function. They are far above what compilers produce. They are constants of `host/policy/fuel`.\n\n" + head)
	writeConstants(t, &page, "max", "host/policy/fuel/sections.go", "host/policy/fuel/body.go")
	return page.String()
}

// writeConstants writes a row for each constant of these files whose name has the prefix.
func writeConstants(t *testing.T, page *strings.Builder, prefix string, paths ...string) {
	t.Helper()
	files := token.NewFileSet()
	parsed := make([]*ast.File, len(paths))
	for i, path := range paths {
		var err error
		parsed[i], err = parser.ParseFile(files, filepath.Join(root, path), nil, parser.ParseComments)
		require.NoError(t, err)
	}
	// Other files of the package and its imports are missing, which does not matter to constants.
	checked, _ := (&types.Config{Error: func(error) {}}).Check("package", files, parsed, nil)
	for _, file := range parsed {
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for _, name := range spec.Names {
				if declared, ok := checked.Scope().Lookup(name.Name).(*types.Const); ok && strings.HasPrefix(name.Name, prefix) {
					value, exact := constant.Int64Val(declared.Val())
					require.True(t, exact)
					fmt.Fprintf(page, "| `%s` | %s | %s |\n", name.Name, amount(name.Name, value), sentence(spec.Doc.Text(), name.Name))
				}
			}
			return false
		})
	}
}

func amount(name string, value int64) string {
	switch {
	case !strings.HasSuffix(name, "Bytes"):
		return fmt.Sprint(value)
	case value%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", value>>20)
	default:
		return fmt.Sprintf("%d KiB", value>>10)
	}
}

var linkOf = regexp.MustCompile(`\[([A-Z]\w*)\]`)

// sentence makes a comment one line without the name of its subject.
func sentence(comment, name string) string {
	text := strings.Join(strings.Fields(comment), " ")
	return linkOf.ReplaceAllString(strings.TrimPrefix(text, name+" "), "`$1`")
}

// schema is a part of a JSON schema.
type schema struct {
	Description string            `json:"description"`
	Type        string            `json:"type"`
	Ref         string            `json:"$ref"`
	Enum        []string          `json:"enum"`
	Items       *schema           `json:"items"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Defs        map[string]schema `json:"$defs"`
	Examples    []json.RawMessage `json:"examples"`
}

// manifestPage lists the members of the manifest from its JSON schema.
func manifestPage(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "sdk", "contract", "schema", "manifest.json"))
	require.NoError(t, err)
	var manifest schema
	require.NoError(t, json.Unmarshal(content, &manifest))
	var page strings.Builder
	page.WriteString("# The manifest of a policy module\n\nWhat the export `describe` returns, from the [JSON schema](../../sdk/contract/schema/manifest.json). " + generatedBy +
		"\nThe host refuses unknown members. It sends only the facts in `reads`, and applies only operations that `writes` allow. How they are passed is in [the ABI](abi.md).\n")
	manifest.table(&page, "Manifest")
	names := make([]string, 0, len(manifest.Defs))
	for name := range manifest.Defs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		definition := manifest.Defs[name]
		definition.table(&page, name)
	}
	for _, example := range manifest.Examples {
		text, err := json.MarshalIndent(example, "", "  ")
		require.NoError(t, err)
		fmt.Fprintf(&page, "\n## Example\n\n```json\n%s\n```\n", text)
	}
	return page.String()
}

func (s *schema) table(page *strings.Builder, name string) {
	fmt.Fprintf(page, "\n## %s\n\n%s\n", name, s.Description)
	if len(s.Enum) > 0 {
		fmt.Fprintf(page, "\nOne of `%s`.\n", strings.Join(s.Enum, "`, `"))
	}
	if len(s.Properties) == 0 {
		return
	}
	page.WriteString("\n| member | type | required | meaning |\n|---|---|---|---|\n")
	members := make([]string, 0, len(s.Properties))
	for member := range s.Properties {
		members = append(members, member)
	}
	slices.Sort(members)
	for _, member := range members {
		property := s.Properties[member]
		required := ""
		if slices.Contains(s.Required, member) {
			required = "yes"
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", member, property.kind(), required, linkOf.ReplaceAllString(strings.ReplaceAll(property.Description, "\n", " "), "`$1`"))
	}
}

func (s *schema) kind() string {
	switch {
	case s.Ref != "":
		return filepath.Base(s.Ref)
	case s.Items != nil:
		return "list of " + s.Items.kind()
	default:
		return s.Type
	}
}

func TestPagesOfTheContract(t *testing.T) {
	for name, page := range map[string]string{"limits.md": limitsPage(t), "manifest.md": manifestPage(t)} {
		path := filepath.Join(root, "docs", "reference", name)
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(page), 0o644))
		}
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(have), page, "run go test ./hack/docscheck -run TestPagesOfTheContract -update")
		assert.Greater(t, strings.Count(page, "\n| `"), 8)
	}
}
