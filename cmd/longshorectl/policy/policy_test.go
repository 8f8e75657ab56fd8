package policy_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/policy"
	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/policytest"
)

const manifest = `{"name":"labeller","version":"1.2.3","contracts":["v1alpha1"],"points":[{"point":"PodMutation","reads":["/object/metadata/name"],"writes":[{"path":"/metadata/labels","verbs":["merge"]}]}]}`

// guest is a module with a fixed answer.
type guest struct {
	manifest, answer string
	// imports is the name of a module that is no module of a policy's host, or empty.
	imports string
	// first are the instructions before the answer.
	first []byte
	// export is that of PodMutation when it is empty.
	export string
}

// build writes a module to a file.
func (g guest) build(t *testing.T) string {
	t.Helper()
	m := policytest.NewGuest()
	if g.imports != "" {
		m.Import(g.imports, "dial", nil, nil)
	}
	m.Answers("describe", cmp.Or(g.manifest, manifest)).Answers(cmp.Or(g.export, "pod_mutation"), g.answer, g.first)
	return write(t, "module.wasm", m.Bytes())
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

const pod = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: web, image: "web:1"}]}
`

// asCommand names the variable that makes the binary of these tests policy's command, for Makefiles.
const asCommand = "LONGSHORE_TEST_AS_POLICY_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "" {
		os.Exit(m.Run())
	}
	command := policy.Command(policy.Streams{In: os.Stdin, Out: os.Stdout, Getenv: os.Getenv})
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(os.Args[2:]) // without the word policy
	code, message := output.ExitCode(command.Execute())
	fmt.Fprint(os.Stderr, message)
	os.Exit(code)
}

// run is the command in a pipe.
func run(t *testing.T, in string, args ...string) (out string, code int, message string) {
	t.Helper()
	var buffer bytes.Buffer
	command := policy.Command(policy.Streams{In: strings.NewReader(in), Out: &buffer, Getenv: func(string) string { return "" }})
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetOut(&buffer)
	command.SetArgs(args)
	code, message = output.ExitCode(command.ExecuteContext(t.Context()))
	assert.NotContains(t, buffer.String(), "\033[", "plain text in a pipe")
	return buffer.String(), code, message
}

func labels(value string) string {
	return `{"version":"v1alpha1","operations":[{"op":"merge","path":"/metadata/labels","value":{"team":"` + value + `"}}],"warnings":["look out"]}`
}

func TestInspect(t *testing.T) {
	builtin := func(t *testing.T) string {
		t.Helper()
		packed, err := builtinpolicies.Module()
		require.NoError(t, err)
		return write(t, "builtin.wasm.gz", packed)
	}
	cases := map[string]struct {
		file func(*testing.T) string
		code int
		want []string
	}{
		"a module is shown with what it reads and writes": {guest{answer: labels("red")}.build, output.CodeDone, []string{
			"Name:       labeller", "Version:    1.2.3", "Digest:     sha256:", "Contracts:  v1alpha1", "not checked by the module",
			"extism:host/env.alloc", "PodMutation:", "reads   /object/metadata/name", "writes  /metadata/labels (merge)",
			"ticks of fuel", "Accepted: a cluster with this version of Longshore loads this module",
		}},
		"the built-in policies answer four points and check their settings": {builtin, output.CodeDone, []string{
			"PodMutation at Admission", "OffloadingPatch:", "AntiAffinityPreset:", "MetadataFilter:", "functions of WASI",
			"unpacked", "(only with settings)", "\nSettings:   checked by the module", "Accepted:",
		}},
		"a forbidden import is named": {
			guest{imports: "net", answer: "{}"}.build, output.CodeModule,
			[]string{"Digest:", "net.dial", "Refused: loading policy module"},
		},
		"a wrong manifest is the author's": {
			guest{manifest: `{"name":"Not A Label"}`, answer: "{}"}.build, output.CodeModule,
			[]string{"Refused:", "the module's author must correct it"},
		},
		"half a file": {
			func(t *testing.T) string {
				t.Helper()
				whole, err := os.ReadFile(builtin(t))
				require.NoError(t, err)
				return write(t, "half.wasm.gz", whole[:len(whole)/2])
			}, output.CodeModule,
			[]string{"Refused:", "damaged or cut off"},
		},
		"no wasm at all": {
			func(t *testing.T) string { t.Helper(); return write(t, "text.wasm", []byte("package main")) }, output.CodeModule,
			[]string{"Refused:", "wasm"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, code, message := run(t, "", "inspect", tc.file(t))
			assert.Equal(t, tc.code, code, message)
			assert.Empty(t, message, "the verdict is in the answer")
			for _, want := range tc.want {
				assert.Contains(t, out, want)
			}
		})
	}
}

func TestInspectForPrograms(t *testing.T) {
	file := guest{answer: labels("red")}.build(t)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	out, code, _ := run(t, string(raw), "inspect", "-", "-o", "json")
	assert.Equal(t, output.CodeDone, code)
	var fromJSON, fromYAML policy.Inspection
	require.NoError(t, json.Unmarshal([]byte(out), &fromJSON))
	assert.Equal(t, "-", fromJSON.Source)
	assert.Equal(t, "labeller", fromJSON.Name)
	assert.True(t, fromJSON.Accepted)
	assert.NotZero(t, fromJSON.Describe.Fuel)
	assert.Equal(t, len(raw), fromJSON.UnpackedBytes)
	out, _, _ = run(t, string(raw), "inspect", "-", "-o", "yaml")
	require.NoError(t, yaml.Unmarshal([]byte(out), &fromYAML))
	assert.Equal(t, fromJSON, fromYAML)
}

func TestRun(t *testing.T) {
	unreachable, endless := []byte{0x00}, encode.Code(0x03, 0x40, 0x0c, 0, 0x0b)
	cases := map[string]struct {
		guest guest
		args  []string
		code  int
		want  []string
	}{
		"an answer is shown with what it changes": {
			guest{answer: labels("red")},
			[]string{"--moment", "Offload"},
			output.CodeDone,
			[]string{
				"Module:     labeller ", "Point:      PodMutation/Offload", "Assumed:    /local, /virtualNode", "of 2000000 ticks",
				`merge   /metadata/labels {"team":"red"}`, "+  labels:", "+    team: red", "merge /metadata/labels[team]",
				`policy "labeller": look out`, "Answered: the object changes",
			},
		},
		"nothing to do": {
			guest{answer: `{"version":"v1alpha1"}`},
			[]string{"--moment", "Admission"},
			output.CodeDone,
			[]string{"labeller changed nothing", "Answered: the object stays as it is"},
		},
		"a refusal": {
			guest{answer: `{"version":"v1alpha1","deny":{"reason":"TooLate","message":"come back tomorrow"}}`},
			[]string{"--moment", "Admission"},
			output.CodeDenied,
			[]string{"Denied: TooLate: come back tomorrow"},
		},
		"a lie about its writes": {
			guest{answer: `{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/hostNetwork","value":true}]}`},
			[]string{"--moment", "Offload"},
			output.CodeModule,
			[]string{"Failed (UndeclaredWrite):", "/spec/hostNetwork", "author"},
		},
		"an endless loop": {
			guest{first: endless, answer: labels("red")},
			[]string{"--moment", "Offload", "--fuel", "1000"},
			output.CodeModule,
			[]string{"Failed (Timeout):", "of 1000 ticks"},
		},
		"a trap": {
			guest{first: unreachable, answer: labels("red")},
			[]string{"--moment", "Offload"},
			output.CodeModule,
			[]string{"Failed (Trap): loading policy module ", "module.wasm: warming up: pod_mutation: the module crashed: unreachable; its author must correct it\n"},
		},
		"a lie about what it writes": {
			guest{answer: `{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/nodeName","value":"n"}]}`},
			[]string{"--moment", "Offload"},
			output.CodeModule,
			[]string{"Failed (UndeclaredWrite): module labeller gave no valid answer: ", "set /spec/nodeName is not allowed, only merge /metadata/labels; the module's author must correct it\n"},
		},
		"a reserved key stays as it was": {
			guest{answer: `{"version":"v1alpha1","operations":[{"op":"merge","path":"/metadata/labels","value":{"offloading.liqo.io/origin":"me"}}]}`},
			[]string{"--moment", "Offload"},
			output.CodeDone,
			[]string{"which is reserved"},
		},
		"a moment is needed when there are two": {
			guest{answer: labels("red")}, nil, output.CodeUsage, nil,
		},
		"an unknown point": {
			guest{answer: labels("red")}, []string{"--point", "Teatime"}, output.CodeUsage, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"run", tc.guest.build(t), "--input", write(t, "pod.yaml", []byte(pod))}, tc.args...)
			out, code, message := run(t, "", args...)
			assert.Equal(t, tc.code, code, "%s\n%s", message, out)
			for _, want := range tc.want {
				assert.Contains(t, out, want)
			}
			assert.Equal(t, tc.code == output.CodeUsage, message != "", message)
			assert.NotContains(t, out, "OffloadingPolicy", "there is none to change")
		})
	}
}

func TestRunPrintsNoControlCharactersOfTheModule(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		code   int
		want   string
	}{
		"in a refusal": {`{"version":"v1alpha1","deny":{"reason":"TooLate","message":"come\u001b[2J\nback"}}`, output.CodeDenied, "Denied: TooLate: come [2J back\n"},
		"in a path":    {`{"version":"v1alpha1","operations":[{"op":"remove","path":"/metadata/labels[a\u001b[2J\u000ab]"}]}`, output.CodeModule, "Failed ("},
	} {
		t.Run(name, func(t *testing.T) {
			file := guest{answer: tc.answer}.build(t)
			out, code, message := run(t, "", "run", file, "--moment", "Admission", "--input", write(t, "pod.yaml", []byte(pod)))
			assert.Equal(t, tc.code, code, message)
			assert.Contains(t, out, tc.want)
		})
	}
}

func TestRunForPrograms(t *testing.T) {
	file := guest{answer: labels("red")}.build(t)
	facts := `{"object":{"metadata":{"name":"web"}},"virtualNode":{"name":"milan"}}`
	out, code, message := run(t, facts, "run", file, "--moment", "Offload", "--input", "-", "-o", "yaml")
	require.Equal(t, output.CodeDone, code, message)
	var report policy.Report
	require.NoError(t, yaml.Unmarshal([]byte(out), &report))
	assert.Equal(t, policy.OutcomeAnswered, report.Outcome)
	assert.Empty(t, report.Assumed, "facts were given")
	assert.JSONEq(t, `{"version":"v1alpha1","point":"PodMutation","moment":"Offload","facts":{"object":{"metadata":{"name":"web"}}}}`, string(report.Request))
	assert.Equal(t, map[string]any{"metadata": map[string]any{"name": "web", "labels": map[string]any{"team": "red"}}}, report.Object)
	require.Len(t, report.Operations, 1)
	assert.NotZero(t, report.Usage.Fuel)
}

func TestRunWithASpec(t *testing.T) {
	file := guest{answer: labels("red")}.build(t)
	input := write(t, "pod.yaml", []byte(pod))
	cases := map[string]struct {
		spec string
		code int
		want string
	}{
		"settings travel in the request": {"settings: {color: red}", output.CodeDone, `"settings": {`},
		"allow narrows the writes": {"allow: {writes: [{path: /metadata/annotations, verbs: [merge]}]}", output.CodeModule,
			"/metadata/labels"},
		"limits bound the call": {"limits: {fuel: 5}", output.CodeModule, "fuel"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, code, message := run(t, "", "run", file, "--moment", "Offload", "-i", input, "-o", "json",
				"--spec", write(t, "policy.yaml", []byte(tc.spec)))
			assert.Equal(t, tc.code, code, message)
			assert.Contains(t, out, tc.want)
		})
	}
}

// What a cluster refuses before it loads the module is refused here, too.
func TestSpecsThatAClusterRefuses(t *testing.T) {
	file := guest{answer: labels("red")}.build(t)
	input := write(t, "pod.yaml", []byte(pod))
	for spec, want := range map[string]string{
		"ordr: 1":               `unknown field "ordr"`,
		"mode: Later":           `spec.mode "Later" is unknown: the operator must set Enforce, Shadow or Disabled`,
		"limits: {fuel: 9e18}":  "spec.limits.fuel is 9000000000000000000, more than the host's bound of 2000000: the operator must lower it, or remove it",
		"limits: {fuel: 0}":     "spec.limits.fuel is 0: the operator must set a positive number",
		"limits: {memory: 2Gi}": "spec.limits.memory is 2Gi, more than the host's bound of 32Mi: the operator must lower it, or remove it",
		"limits: {memory: 0}":   "spec.limits.memory is 0: the operator must set a positive number of bytes",
		"module: {builtIn: x, configMap: {name: y}}": "spec.module: the operator must set exactly one of builtIn and configMap",
	} {
		t.Run(spec, func(t *testing.T) {
			policyFile := write(t, "policy.yaml", []byte(spec))
			_, code, message := run(t, "", "run", file, "--moment", "Offload", "-i", input, "--spec", policyFile)
			assert.Equal(t, output.CodeFailed, code)
			assert.Contains(t, message, want)
			if !strings.HasPrefix(spec, "module") {
				_, code, message = run(t, "", "push", file, "--spec", policyFile)
				assert.Equal(t, output.CodeFailed, code)
				assert.Contains(t, message, want)
			}
		})
	}
	_, code, message := run(t, "", "run", file, "--moment", "Offload", "-i", input, "--fuel", "2000001")
	assert.Equal(t, output.CodeUsage, code)
	assert.Contains(t, message, "invalid --fuel 2000001: a cluster grants at most 2000000 ticks")
	_, code, message = run(t, "", "push", file, "--spec", write(t, "policy.yaml", []byte("limits: {fuel: 5}")))
	assert.Equal(t, output.CodeModule, code, "the module is loaded with the limits of the policy")
	assert.Contains(t, message, "it used up its fuel of 5 ticks")
}

// Each command that loads a module compiles it as a component does, so that it refuses what a
// cluster would refuse.
func TestModulesAreCompiledUnderLimits(t *testing.T) {
	file := guest{answer: labels("red")}.build(t)
	input := write(t, "pod.yaml", []byte(pod))
	golden, err := filepath.Abs(filepath.Join("..", "..", "..", "conformance", "vectors", "antiaffinitypreset"))
	require.NoError(t, err)
	for name, args := range map[string][]string{
		"inspect": {}, "run": {"--moment", "Offload", "--input", input}, "push": {}, "conform": {}, "test": {"--vectors", golden}, "bench": {},
	} {
		t.Run(name, func(t *testing.T) {
			var buffer bytes.Buffer
			command := policy.Command(policy.Streams{
				In: strings.NewReader(""), Out: &buffer, Getenv: func(string) string { return "" },
				Compiler: func(context.Context, []byte, string) error {
					return engine.Refuse(fmt.Errorf("%w CPU time", engine.ErrBudget))
				},
			})
			command.SilenceErrors, command.SilenceUsage = true, true
			command.SetArgs(append([]string{name, file}, args...))
			code, message := output.ExitCode(command.ExecuteContext(t.Context()))
			assert.Equal(t, output.CodeModule, code, message)
			assert.Contains(t, buffer.String()+message, "compiling the module takes too much CPU time")
		})
	}
}

// Every golden case of the conformance suite can be tried by hand.
func TestRunTakesVectors(t *testing.T) {
	packed, err := builtinpolicies.Module()
	require.NoError(t, err)
	file := write(t, "builtin.wasm.gz", packed)
	vectors := filepath.Join("..", "..", "..", "conformance", "vectors")
	out, code, message := run(t, "", "run", file, "--point", "AntiAffinityPreset", "-o", "json",
		"--input", filepath.Join(vectors, "antiaffinitypreset", "soft.json"))
	require.Equal(t, output.CodeDone, code, message)
	var vector struct {
		Response struct{ Operations json.RawMessage }
	}
	content, err := os.ReadFile(filepath.Join(vectors, "antiaffinitypreset", "soft.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &vector))
	var report struct{ Operations json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.JSONEq(t, string(vector.Response.Operations), string(report.Operations))
}

func TestWrongCommandLines(t *testing.T) {
	file := guest{answer: labels("red")}.build(t)
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"no module":               {[]string{"inspect"}, output.CodeUsage, "want one module"},
		"two modules":             {[]string{"inspect", "a", "b"}, output.CodeUsage, "got 2 arguments"},
		"a missing file":          {[]string{"inspect", "missing.wasm"}, output.CodeFailed, "no such file"},
		"no input":                {[]string{"run", file}, output.CodeUsage, "--input is missing"},
		"two standard inputs":     {[]string{"run", "-", "-i", "-"}, output.CodeUsage, "only one of"},
		"settings as well":        {[]string{"run", file, "-i", "-", "--settings", "-"}, output.CodeUsage, "only one of"},
		"two sources of settings": {[]string{"run", file, "-i", "a", "--settings", "b", "--spec", "c"}, output.CodeUsage, "exclude each other"},
		"an unknown command":      {[]string{"frobnicate"}, output.CodeUsage, `policy has no command "frobnicate"; policy --help lists them`},
		"a misspelled command":    {[]string{"inspct"}, output.CodeUsage, "did you mean inspect?"},
		"an empty input":          {[]string{"run", file, "-i", write(t, "empty", nil)}, output.CodeFailed, "it is empty"},
		"an input that is not":    {[]string{"run", file, "--moment", "Offload", "-i", write(t, "x", []byte("a: b"))}, output.CodeFailed, "must be an object with a kind"},
		"no YAML":                 {[]string{"run", file, "--moment", "Offload", "-i", write(t, "x", []byte("{"))}, output.CodeFailed, "neither YAML nor JSON"},
		"an unknown format":       {[]string{"inspect", file, "-o", "xml"}, output.CodeFailed, `"xml" is none of table, wide, json, yaml`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, code, message := run(t, "", tc.args...)
			assert.Equal(t, tc.code, code, message)
			assert.Contains(t, message, tc.want)
		})
	}
}

func TestColorOnATerminalOnly(t *testing.T) {
	assert.Equal(t, output.Painted("\033[31mno\033[0m"), output.Colored(true).Bad("no"))
	assert.Equal(t, output.Painted("no"), output.Colored(false).Bad("no"))
	assert.Equal(t, output.Painted("no"), output.StyleOf(&bytes.Buffer{}, os.Getenv).Bad("no"))
}

// A module is asked about one object, and what it is asked about is never a guess.
func TestRunTakesOnePodOrATemplate(t *testing.T) {
	const template = `{metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "web:1"}]}}`
	object := func(kind, spec string) string {
		return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: web, namespace: shop}\n" + spec
	}
	file := guest{answer: labels("red")}.build(t)
	for name, tc := range map[string]struct {
		input, want string
		refused     bool
	}{
		"a pod":                           {pod, "+    team: red", false},
		"a pod after comments":            {"# a pod\n---\n" + pod + "---\n# the end\n", "+    team: red", false},
		"the template of a Deployment":    {object("Deployment", "spec: {template: "+template+"}"), "+    team: red", false},
		"the template of a CronJob":       {object("CronJob", "spec: {jobTemplate: {spec: {template: "+template+"}}}"), "+    team: red", false},
		"a PodTemplate":                   {object("PodTemplate", "template: "+template), "+    team: red", false},
		"two pods":                        {pod + "---\n" + pod, "it has several documents: a module is asked about one object", true},
		"a list":                          {"apiVersion: v1\nkind: List\nitems: []\n", "it is a List: a module is asked about one object", true},
		"a Service":                       {object("Service", "spec: {}"), "it is a Service, and PodMutation decides about a pod: give a Pod, or an object with a pod template", true},
		"a Deployment without a template": {object("Deployment", "spec: {}"), "it is a Deployment without spec.template", true},
		"nothing":                         {"# nothing\n", "it must be an object with a kind", true},
	} {
		t.Run(name, func(t *testing.T) {
			out, code, message := run(t, tc.input, "run", file, "--moment", "Offload", "--input", "-")
			if tc.refused {
				assert.Equal(t, output.CodeFailed, code)
				assert.Contains(t, message, tc.want)
				assert.Empty(t, out)
				return
			}
			assert.Equal(t, output.CodeDone, code, message)
			assert.Contains(t, out, tc.want)
		})
	}
}

func TestRunAtResourceMutation(t *testing.T) {
	const manifest = `{"name":"site","version":"1","contracts":["v1alpha1"],"points":[{"point":"ResourceMutation","reads":["/local/metadata/name"],"writes":[{"path":"/data","verbs":["merge"]}]}]}`
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {k: v}\n"
	merges := `{"version":"v1alpha1","operations":[{"op":"merge","path":"/data","value":{"cluster":"milan"}}]}`
	cases := map[string]struct {
		answer, input string
		code          int
		want          []string
	}{
		"a change": {merges, configMap, output.CodeDone, []string{"Point:      ResourceMutation", "Assumed:    /local, /virtualNode", "+  cluster: milan", "Answered: the object changes"}},
		"a skip": {
			`{"version":"v1alpha1","skip":{"reason":"HomeOnly","message":"it is of use at home only"}}`, configMap, output.CodeDone,
			[]string{"Skipped: HomeOnly: it is of use at home only"},
		},
		"a pod has no data": {merges, pod, output.CodeModule, []string{"Failed (UndeclaredWrite):", "outside of what policies may write of an object of this kind: merge /data [cluster]"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file := guest{export: "resource_mutation", manifest: manifest, answer: tc.answer}.build(t)
			out, code, message := run(t, tc.input, "run", file, "--input", "-")
			assert.Equal(t, tc.code, code, "%s\n%s", message, out)
			for _, want := range tc.want {
				assert.Contains(t, out, want)
			}
		})
	}
}
