package policy_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/conformance/suite"
)

func TestConform(t *testing.T) {
	cases := map[string]struct {
		module guest
		code   int
		want   []string
	}{
		"a module that ignores what it is asked answers garbage": {
			guest{answer: labels("red")}, output.CodeModule,
			[]string{"RULE", "answer.same", "failed  input.broken: PodMutation, a question and more", "contract: Input that is not a JSON object is an error", "ResourceMutation: skipped, the manifest does not declare it", "The module does not conform."},
		},
		"a module that writes what it did not declare": {
			guest{answer: `{"version":"v1alpha1","operations":[{"op":"merge","path":"/metadata/annotations","value":{"a":"b"}}]}`}, output.CodeModule,
			[]string{"failed  answer.writes", "/metadata/annotations", `input:    {"version":"v1alpha1","point":"PodMutation","moment":"Admission","facts":{"`},
		},
		"a module that a cluster refuses": {
			guest{imports: "net", answer: labels("red")}, output.CodeModule,
			[]string{"failed  module.loads: Module, load", "net.dial"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, code, message := run(t, "", "conform", tc.module.build(t))
			assert.Equal(t, tc.code, code, message)
			for _, want := range tc.want {
				assert.Contains(t, out, want)
			}
		})
	}
	_, code, message := run(t, "", "conform", guest{answer: labels("red")}.build(t), "--vectors", t.TempDir())
	assert.Equal(t, output.CodeFailed, code)
	assert.Contains(t, message, "the folder has no .json files")
}

// The report is one document, and the same for people and pipelines.
func TestConformWritesReports(t *testing.T) {
	folder := t.TempDir()
	html, junit := filepath.Join(folder, "report.html"), filepath.Join(folder, "report.xml")
	out, code, message := run(t, "", "conform", guest{answer: `{"version":"v1alpha1","warnings":["<b>red"]}`}.build(t), "-o", "json", "--html", html, "--junit", junit)
	require.Equal(t, output.CodeModule, code, message)
	var report suite.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.Equal(t, suite.ReportKind, report.Kind)
	assert.Equal(t, suite.ReportVersion, report.APIVersion)
	assert.Equal(t, suite.Version, report.Suite)
	assert.Contains(t, report.Module.Digest, "sha256:")
	assert.Len(t, report.Checks, len(suite.Rules()))
	assert.NotEmpty(t, report.Figures)
	require.NotEmpty(t, report.Findings)

	page, err := os.ReadFile(html)
	require.NoError(t, err)
	for _, want := range []string{"The module does not conform", report.Module.Digest, report.Findings[0].Rule, "skipped: the manifest does not declare it"} {
		assert.Contains(t, string(page), want)
	}
	assert.NotContains(t, string(page), "<b>red", "what the module answered is text")
	assert.NotContains(t, string(page), "<script")

	text, err := os.ReadFile(junit)
	require.NoError(t, err)
	var suites struct {
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Name string `xml:"name,attr"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal(text, &suites))
	assert.Len(t, suites.Suites, len(suite.Rules()))
	failed := 0
	for i := range report.Checks {
		failed += report.Checks[i].Failed
	}
	assert.Equal(t, failed, suites.Failures)
}
