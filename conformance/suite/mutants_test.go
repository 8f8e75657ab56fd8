package suite_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/conformance/wat"
)

const (
	goodReads  = `"/object/spec/nodeSelector"`
	goodWrites = `{"path":"/spec/tolerations","verbs":["ensure"]}`
	goodBefore = `{"version":"v1alpha1","operations":[{"op":"ensure","path":"/spec/tolerations","value":[{"key":"accelerator","operator":"Equal","value":`
	goodAfter  = `,"effect":"NoSchedule"}]}]}`
)

// mutant is the policy of conformance/guests/text with a mistake.
type mutant struct {
	rule string
	// reads and writes are those of the manifest; before and after are the answer around the
	// value of the node selector. Empty means that of the policy.
	reads, writes, before, after string
	// edits replace text of the source, which must be there.
	edits []string
	// added are further fields of the module.
	added   string
	vectors []vectors.Vector
}

const (
	atDecision = `  (call $load)
  (if (i32.eqz (call $value`
	whenFound = `  (local.set $n (i32.sub (global.get $foundEnd) (global.get $found)))`
	whenNot   = `(if (i32.eqz (global.get $found)) (then (return (call $answer (i32.const 224) (i32.const 22)))))`
	notJSON   = `(then (return (call $fail (i32.const 128) (i32.const 23))))`
	fail      = `(return (call $fail (i32.const 128) (i32.const 23)))`
	clock     = `(import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))`
	isNow     = `(drop (call $clock (i32.const 0) (i64.const 0) (i32.const 8192))) (if (i64.gt_u (i64.load (i32.const 8192)) (i64.const 1700000000000000000)) `
	accepts   = `{"version":"v1alpha1","valid":true}`
	refuses   = `{"version":"v1alpha1","valid":false,"message":"unknown"}`
)

// validates is an export validate_settings with a constant answer.
func validates(first, answer string) string {
	return `(data (i32.const 4096) "` + quoted(answer) + `")
(func (export "validate_settings") (result i32) ` + first + ` (call $answer (i32.const 4096) (i32.const ` + strconv.Itoa(len(answer)) + `)))`
}

func quoted(text string) string { return strings.ReplaceAll(text, `"`, `\"`) }

// constant is an answer at an address.
func constant(at int, answer string) (data, call string) {
	place := strconv.Itoa(at)
	return `(data (i32.const ` + place + `) "` + quoted(answer) + `")`, `(return (call $answer (i32.const ` + place + `) (i32.const ` + strconv.Itoa(len(answer)) + `)))`
}

// mutants break one rule each. input.shape is broken by the policy itself.
func mutants() map[string]mutant {
	removeData, remove := constant(4096, `{"version":"v1alpha1","operations":[{"op":"remove","path":"/spec/nodeSelector","keys":["accelerator"]}]}`)
	mergeData, merge := constant(5120, `{"version":"v1alpha1","operations":[{"op":"merge","path":"/spec/nodeSelector","value":{"accelerator":"x"}}]}`)
	hasSettings := strconv.Itoa(len(`{"version":"v1alpha1","point":"PodMutation","moment":"Admission","`))
	return map[string]mutant{
		"imports what the ABI does not have": {rule: "module.loads", added: `(import "env" "open" (func (param i32)))`},
		"describes itself by the time of day": {
			rule: "module.describe", added: clock,
			edits: []string{`(func (export "describe") (result i32)`, `(func (export "describe") (result i32) ` + isNow + `(then (i32.store8 (i32.const %VERSION) (i32.const 0x39))))`},
		},
		"answers a vector in another way": {rule: "answer.vector", after: `,"effect":"NoExecute"}]}]}`, vectors: []vectors.Vector{{
			Name: "own", Description: "d", Origin: "o",
			Request:  []byte(`{"version":"v1alpha1","point":"PodMutation","moment":"Admission","facts":{"object":{"spec":{"nodeSelector":{"accelerator":"tpu"}}}}}`),
			Response: []byte(goodBefore + `"tpu"` + goodAfter),
		}}},
		"refuses everything":          {rule: "answer.given", edits: []string{atDecision, fail + atDecision}},
		"crashes over some pods":      {rule: "answer.completes", edits: []string{whenFound, `(unreachable)` + whenFound}},
		"does not end over some pods": {rule: "answer.completes", edits: []string{whenFound, `(loop $ever (br $ever))` + whenFound}},
		"answers by the time of day": {
			rule: "answer.same", added: clock,
			edits: []string{whenFound, isNow + `(then (return (call $answer (i32.const 224) (i32.const 22)))))` + whenFound},
		},
		"answers with unknown members": {rule: "answer.valid", after: `,"effect":"NoSchedule"}]}],"extra":1}`},
		"denies without a reason":      {rule: "answer.valid", before: `{"version":"v1alpha1","deny":{"reason":"","message":`, after: `}}`},
		"writes what it does not declare": {
			rule: "answer.writes", writes: `{"path":"/spec/nodeSelector","verbs":["merge"]}`,
		},
		"adds items to a map": {
			rule: "answer.applies", writes: `{"path":"/spec/nodeSelector","verbs":["ensure"]}`,
			before: `{"version":"v1alpha1","operations":[{"op":"ensure","path":"/spec/nodeSelector","value":[`, after: `]}]}`,
		},
		"reads what it does not declare": {rule: "answer.unread", reads: `"/object/metadata/name"`},
		"adds and removes in turn": {
			rule: "object.idempotent", writes: `{"path":"/spec/nodeSelector","verbs":["merge","remove"],"keys":["accelerator"]}`,
			added: removeData + mergeData, edits: []string{whenFound, remove + whenFound, whenNot, `(if (i32.eqz (global.get $found)) (then ` + merge + `))`},
		},
		"adds a toleration that Kubernetes refuses": {rule: "object.valid", after: `,"effect":"NoSchedules"}]}]}`},
		"gives pods the network of the node": {
			rule: "object.isolation", writes: `{"path":"/spec/hostNetwork","verbs":["set"]}`,
			before: `{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/hostNetwork","value":true}],"warnings":[`, after: `]}`,
		},
		"replaces a structure as a whole": {
			rule: "object.unknown", writes: `{"path":"/spec/affinity","verbs":["set"]}`,
			before: `{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/affinity","value":{}}],"warnings":[`, after: `]}`,
		},
		"answers what is not JSON": {rule: "input.broken", edits: []string{notJSON, strings.Replace(notJSON, "$fail (i32.const 128) (i32.const 23)", "$answer (i32.const 224) (i32.const 22)", 1)}},
		"crashes over short input": {rule: "input.broken", edits: []string{atDecision, `(if (i64.lt_u (call $input_length) (i64.const 20)) (then (unreachable)))` + atDecision}},
		"crashes over a number where text belongs": {
			rule: "input.types", edits: []string{`(return (call $fail (i32.const 160) (i32.const 45)))`, `(unreachable)`},
		},
		"crashes over many labels": {
			rule: "input.large", reads: goodReads + `,"/object/metadata/labels"`,
			edits: []string{atDecision, `(if (i64.lt_u (i64.sub (call $input_length) (i64.const 100000)) (i64.const 300000)) (then (unreachable)))` + atDecision},
		},
		"is slow":              {rule: "budget.ordinary", edits: []string{atDecision, `(loop $slow (local.set $n (i32.add (local.get $n) (i32.const 1))) (br_if $slow (i32.lt_u (local.get $n) (i32.const 1100000))))` + atDecision}},
		"accepts all settings": {rule: "settings.refused", added: validates("", accepts)},
		"crashes over long settings": {
			rule: "settings.completes", added: validates(`(if (i64.gt_u (call $input_length) (i64.const 150)) (then (unreachable)))`, refuses),
			edits: []string{atDecision, `(if (i32.eq (call $input_load_u8 (i64.const ` + hasSettings + `)) (i32.const 0x73)) (then ` + fail + `))` + atDecision},
		},
		"refuses settings and uses them": {rule: "settings.request", added: validates("", refuses)},
	}
}

// build assembles the mutant.
func (m *mutant) build(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../guests/text/policy.wat")
	require.NoError(t, err)
	source := string(data)
	replace := func(old, new string) {
		require.Contains(t, source, old, "the policy in the text format has changed")
		source = strings.ReplaceAll(source, old, new)
	}
	manifest := `{"name":"accelerator","version":"1.0.0","contracts":["v1alpha1"],"points":[{"point":"PodMutation","moments":["Admission"],"reads":[` + goodReads + `],"writes":[` + goodWrites + `]}]}`
	before, after := goodBefore, goodAfter
	if m.reads != "" {
		replace(quoted(goodReads), quoted(m.reads))
		manifest = strings.Replace(manifest, goodReads, m.reads, 1)
	}
	if m.writes != "" {
		replace(quoted(goodWrites), quoted(m.writes))
		manifest = strings.Replace(manifest, goodWrites, m.writes, 1)
	}
	if m.before != "" {
		before = m.before
		replace(`  "{\"version\":\"v1alpha1\",\"operations\":[{\"op\":\"ensure\",\"path\":\"/spec/tolerations\","
  "\"value\":[{\"key\":\"accelerator\",\"operator\":\"Equal\",\"value\":")`, `"`+quoted(before)+`")`)
	}
	if m.after != "" {
		after = m.after
		replace(`"`+quoted(goodAfter)+`"`, `"`+quoted(after)+`"`)
	}
	for i := 0; i < len(m.edits); i += 2 {
		replace(m.edits[i], strings.ReplaceAll(m.edits[i+1], "%VERSION", strconv.Itoa(512+strings.Index(manifest, "1.0.0"))))
	}
	replace("(i32.const 221)", "(i32.const "+strconv.Itoa(len(manifest))+")")
	replace("(i32.const 135)", "(i32.const "+strconv.Itoa(len(before))+")")
	replace("(i32.const 162)", "(i32.const "+strconv.Itoa(len(before)+len(after))+")")
	replace("(i32.const 448) (i32.const 27)", "(i32.const 448) (i32.const "+strconv.Itoa(len(after))+")")
	imports, definitions := "", m.added
	if strings.HasPrefix(m.added, "(import") {
		imports, definitions = m.added, ""
	}
	replace(`(import "extism:host/env" "input_length"`, imports+`(import "extism:host/env" "input_length"`)
	wasm, err := wat.Assemble(source + definitions)
	require.NoError(t, err)
	return wasm
}

// rulesOf returns the rules with findings.
func rulesOf(report *suite.Report) []string {
	var found []string
	for i := range report.Findings {
		found = append(found, report.Findings[i].Rule)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// A module with one mistake has findings of one rule, with the sentence of the contract.
func TestEachMistakeIsFoundByItsRule(t *testing.T) {
	cache := t.TempDir()
	for name, m := range mutants() {
		t.Run(name, func(t *testing.T) {
			report, err := suite.Conform(t.Context(), m.build(t), suite.Options{CacheDir: cache, Vectors: m.vectors})
			require.NoError(t, err)
			found := slices.DeleteFunc(rulesOf(report), func(rule string) bool { return rule == "input.shape" })
			require.Equal(t, []string{m.rule}, found, "%+v", report.Findings)
			at := slices.IndexFunc(suite.Rules(), func(r suite.Rule) bool { return r.ID == m.rule })
			assert.Equal(t, suite.Rules()[at].Advice, report.Conforms)
			for i := range report.Findings {
				if f := &report.Findings[i]; f.Rule == m.rule {
					assert.Equal(t, suite.Rules()[at].Sentence, f.Sentence)
				}
			}
		})
	}
}

// The policy itself has one finding, which is advice.
func TestThePolicyInTheTextFormatConforms(t *testing.T) {
	for _, strict := range []bool{false, true} {
		report, err := suite.Conform(t.Context(), (&mutant{}).build(t), suite.Options{CacheDir: t.TempDir(), Strict: strict})
		require.NoError(t, err)
		assert.Equal(t, []string{"input.shape"}, rulesOf(report))
		assert.Equal(t, !strict, report.Conforms)
	}
}

// A rule without a module that breaks it does not exist.
func TestEachRuleHasAModuleThatBreaksIt(t *testing.T) {
	broken := map[string]bool{"input.shape": true} // TestThePolicyInTheTextFormatConforms
	for _, m := range mutants() {
		broken[m.rule] = true
	}
	for _, rule := range suite.Rules() {
		assert.True(t, broken[rule.ID], "no module breaks %s", rule.ID)
		delete(broken, rule.ID)
	}
	assert.Empty(t, broken, "these rules do not exist")
}
