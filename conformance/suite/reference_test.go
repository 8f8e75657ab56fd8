package suite_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/host/policysource/attestation"
	"github.com/longshore-dev/longshore/host/policysource/plan"
)

var update = flag.Bool("update", false, "write docs/reference/conformance.md")

const referenceHead = `# Conformance of policy modules

The sentences of the contract that ` + "`longshorectl policy conform`" + ` and ` + "`suite.Run`" + ` check. A test of the suite writes this page: ` + "`go test ./conformance/suite -run TestTheReferencePageIsTrue -update`" + `.

Each sentence has a module that breaks exactly this one, and a test fails if a sentence has none (` + "`conformance/suite/mutants_test.go`" + `). The built-in policies and the plugins pass all of them.

## Features

The suite reads from the manifest which extension points a module answers, and from its exports whether it checks settings. All sentences below hold at each point that is declared. Points that are not, and the sentences about settings for a module without ` + "`validate_settings`" + `, are skipped; the report has the reason.

A module is asked the golden requests of its points (` + "`conformance/vectors/<point>/*.json`" + `, each of which names the rule that it pins), those of its author (` + "`--vectors`" + `), and generated requests. A policy that needs settings is asked with the settings of its author's vectors.

## Rules

| rule | the contract says | how it is tested |
|---|---|---|
`

const referenceTail = `
Advice counts with ` + "`--strict`" + ` only: no host sends such input.

"Valid for Kubernetes" is what the libraries of Kubernetes check: types, names, labels, selectors, affinity, tolerations, spread constraints, resources, volumes. Admission plugins, quotas and references to other objects need a cluster.

## Report

` + "`-o yaml`" + ` and ` + "`-o json`" + ` write one document:

| field | meaning |
|---|---|
| ` + "`apiVersion`, `kind`" + ` | ` + "`" + suite.ReportVersion + "`, `" + suite.ReportKind + "`" + ` |
| ` + "`module`" + ` | source, name and version of the manifest, digest of the unpacked module |
| ` + "`contract`, `suite`, `hosts`" + ` | versions of the contract, of the suite, and of the two hosts |
| ` + "`conforms`, `strict`" + ` | the result |
| ` + "`features`, `checks`" + ` | numbers of results by feature and by rule, or the reason why it was skipped |
| ` + "`findings`" + ` | rule, sentence, feature, test, error, and for one finding of each rule and feature the smallest input that shows it |
| ` + "`figures`" + ` | fuel and memory of ordinary requests by point: median, 99th percentile, most, limit |

` + "`--junit FILE`" + ` writes a test suite for each rule, and ` + "`--html FILE`" + ` a page that needs neither scripts nor other files.

## Signed reports

` + "```sh" + `
openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out key.pub
longshorectl policy conform module.wasm.gz --vectors vectors --sign-key key.pem -o json > report.dsse.json
longshorectl policy verify-report report.dsse.json --key key.pub --module module.wasm.gz
longshorectl policy push module.wasm.gz --spec policy.yaml --report report.dsse.json --apply
` + "```" + `

The signed report is a [DSSE](https://github.com/secure-systems-lab/dsse) envelope around the document. Keys are Ed25519 or ECDSA.

A cluster with keys in the value ` + "`policies.reportKeys`" + ` of the chart binds a module of a ConfigMap only if the key ` + "`report.dsse.json`" + ` in the data of that ConfigMap holds an envelope that one of the keys verifies, and the report says that the module with this digest conforms, by suite ` + attestation.MinimumSuite + ` or later and a contract of the host. Otherwise the OffloadingPolicy has the condition ` + "`Ready=False`" + ` with the reason ` + "`" + plan.ReasonReportRefused + "`" + `, and admission refuses it. The built-in policies need no report. By default there are no keys, and no reports are required.

## Exit codes

| exit code | meaning |
|---|---|
| 0 | the module conforms |
| 1 | an input cannot be read |
| 2 | the command line is wrong |
| 3 | the module does not load or does not conform |
`

// reference renders the page.
func reference() string {
	var text strings.Builder
	text.WriteString(referenceHead)
	for _, rule := range suite.Rules() {
		id := "`" + rule.ID + "`"
		if rule.Advice {
			id += " (advice)"
		}
		fmt.Fprintf(&text, "| %s | %s | %s |\n", id, rule.Sentence, rule.Method)
	}
	text.WriteString(referenceTail)
	return text.String()
}

func TestTheReferencePageIsTrue(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "conformance.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(reference()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), reference(), "run go test ./conformance/suite -run TestTheReferencePageIsTrue -update")
}
