package policy_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/plan"
	"github.com/longshore-dev/longshore/cmd/longshorectl/policy"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// cases writes a folder with one golden case.
func cases(t *testing.T, answer string) string {
	t.Helper()
	const request = `{"version":"v1alpha1","point":"PodMutation","moment":"Offload","facts":{"object":{}}}`
	return filepath.Dir(write(t, "case.json", []byte(`{"description":"pods get a team","origin":"o","request":`+request+`,"response":`+answer+`}`)))
}

func TestTestAsksTheGoldenCases(t *testing.T) {
	file := guest{answer: labels("red")}.build(t)
	out, code, message := run(t, "", "test", file, "--vectors", cases(t, labels("red")))
	assert.Equal(t, output.CodeDone, code, message)
	assert.Contains(t, out, "passed  case\nlabeller: 1 cases passed, 0 failed\n")

	out, code, message = run(t, "", "test", file, "--vectors", cases(t, labels("blue")), "-o", "json")
	assert.Equal(t, output.CodeModule, code, message)
	var report policy.TestReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.Equal(t, 1, report.Failed)
	assert.Contains(t, report.Cases[0].Error, `"team":"red"`)

	_, code, message = run(t, "", "test", write(t, "module.wasm", []byte("text")), "--vectors", cases(t, labels("red")))
	assert.Equal(t, output.CodeModule, code)
	assert.Contains(t, message, "loading")
	_, code, message = run(t, "", "test", file, "--vectors", t.TempDir())
	assert.Equal(t, output.CodeFailed, code)
	assert.Contains(t, message, "no .json files")
}

func TestBenchMeasuresAModuleBesideTheBuiltIn(t *testing.T) {
	out, code, message := run(t, "", "bench", guest{answer: labels("red")}.build(t), "--calls", "1", "-o", "json")
	require.Equal(t, output.CodeDone, code, message)
	var result policy.Benchmark
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Len(t, result.Points, 1)
	own, builtin := result.Points[0].Module, result.Points[0].BuiltIn
	require.NotNil(t, builtin)
	assert.Less(t, own.Fuel.P50, builtin.Fuel.P50, "a constant answer takes less than a decision")
	assert.Equal(t, own.Requests, own.Calls)
	assert.Positive(t, own.Memory.Max)
	_, code, _ = run(t, "", "bench", "module.wasm", "--calls", "0")
	assert.Equal(t, output.CodeUsage, code)
}

func TestPushPrintsTheObjects(t *testing.T) {
	file := guest{answer: labels("red")}.build(t)
	for name, tc := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"without a spec": {nil, output.CodeDone, []string{"kind: ConfigMap", "module.wasm.gz:", "kind: OffloadingPolicy", "name: labeller", "digest: sha256:", "- PodMutation"}},
		"another name":   {[]string{"--name", "mine", "-n", "system"}, output.CodeDone, []string{"name: mine", "namespace: system"}},
		"a spec":         {[]string{"--spec", write(t, "policy.yaml", []byte("order: 7\nmode: Shadow"))}, output.CodeDone, []string{"order: 7", "mode: Shadow"}},
		"a point that it does not answer": {[]string{"--spec", write(t, "policy.yaml", []byte("points: [MetadataFilter]"))}, output.CodeModule,
			[]string{"spec.points names MetadataFilter, which the module does not answer"}},
		"a spec with a module": {[]string{"--spec", write(t, "policy.yaml", []byte("module: {builtIn: default}"))}, output.CodeUsage, []string{"leave out its field module"}},
		"a misspelled spec":    {[]string{"--spec", write(t, "policy.yaml", []byte("ordr: 7"))}, output.CodeFailed, []string{`unknown field "ordr"`}},
		"an invalid name":      {[]string{"--name", "My Policy"}, output.CodeUsage, []string{"invalid --name"}},
		"a cluster":            {[]string{"--context", "rome"}, output.CodeUsage, []string{"go with --apply"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, code, message := run(t, "", append([]string{"push", file}, tc.args...)...)
			assert.Equal(t, tc.code, code, message)
			for _, want := range tc.want {
				assert.Contains(t, out+message, want)
			}
		})
	}
	_, code, message := run(t, "text", "push", "-")
	assert.Equal(t, output.CodeModule, code)
	assert.Contains(t, message, "loading")
}

// Each cluster would load the first ones, and hold back every pod.
func TestPushAsksTheGoldenQuestions(t *testing.T) {
	const nodeName = `{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/nodeName","value":"n"}]}`
	allow := write(t, "policy.yaml", []byte("allow: {writes: [{path: /metadata/annotations, verbs: [merge]}]}"))
	for name, tc := range map[string]struct {
		answer string
		args   []string
		want   string
	}{
		"a write that is not declared":             {nodeName, nil, "set /spec/nodeName is not allowed"},
		"a write that the operator does not allow": {labels("red"), []string{"--spec", allow}, "merge /metadata/labels"},
		"a label that is not valid":                {labels("a b"), nil, "gave no valid answer"},
		"an answer that is not JSON":               {"red", nil, "warming up: pod_mutation: checking the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			out, code, message := run(t, "", append([]string{"push", guest{answer: tc.answer}.build(t)}, tc.args...)...)
			assert.Equal(t, output.CodeModule, code, message)
			assert.Contains(t, message, tc.want)
			assert.Empty(t, out)
		})
	}
}

// The printed objects are a policy that decides about a pod.
func TestWhatPushPrintsIsExplained(t *testing.T) {
	file := guest{answer: labels("red")}.build(t)
	objects, code, message := run(t, "", "push", file)
	require.Equal(t, output.CodeDone, code, message)
	documents := strings.Split(strings.TrimPrefix(objects, "---\n"), "---\n")
	require.Len(t, documents, 2)
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[0]), &corev1.ConfigMap{}))
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[1]), &policyv1alpha1.OffloadingPolicy{}))

	policies, input := write(t, "policies.yaml", []byte(objects)), write(t, "pod.yaml", []byte(pod))
	explain := []string{"explain", "--offline", "-f", input, "--policies", policies, "--policy-cache-dir", t.TempDir()}
	out, code, message := run(t, "", explain...)
	assert.Equal(t, output.CodeDone, code, message)
	for _, want := range []string{"shop/pod/web, ", "PodMutation at Admission", "default-podplacement (", "PodMutation at Offload", "labeller (", "): merge /metadata/labels[team]", `warning: policy "labeller": look out`, "assumed: "} {
		assert.Contains(t, out, want)
	}
	out, _, _ = run(t, "", append(explain, "-o", "json")...)
	var result plan.Explanation
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Len(t, result.Pods, 1)
	assert.Equal(t, "web", result.Pods[0].Name)
	assert.NotEmpty(t, result.Pods[0].Evaluations)
}

func TestExplainFindsThePolicyThatRefusesAPod(t *testing.T) {
	for name, tc := range map[string]struct {
		answer, spec string
		code         int
		want         string
	}{
		"a denial": {`{"version":"v1alpha1","deny":{"reason":"TooLate","message":"come back tomorrow"}}`, "", output.CodeDenied, `policy "labeller"`},
		"an answer that the operator does not allow": {
			labels("red"), "\n  allow: {writes: [{path: /metadata/annotations, verbs: [merge]}]}", output.CodeModule, "gave no valid answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, code, message := run(t, "", "push", guest{answer: tc.answer}.build(t))
			require.Equal(t, output.CodeDone, code, message)
			objects = strings.Replace(objects, "\nspec:", "\nspec:"+tc.spec, 1)
			out, code, message := run(t, "", "explain", "--offline", "-f", write(t, "pod.yaml", []byte(pod)), "--policies", write(t, "policies.yaml", []byte(objects)), "--policy-cache-dir", t.TempDir())
			assert.Equal(t, tc.code, code, message)
			assert.Contains(t, out, tc.want)
		})
	}
}
