package policy

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output/outputtest"
	"github.com/longshore-dev/longshore/cmd/longshorectl/plan"
	"github.com/longshore-dev/longshore/conformance/suite"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/planner"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/host/policysource/attestation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

var (
	digest = "sha256:" + strings.Repeat("0123456789abcdef", 4)
	points = []contract.PointManifest{
		{
			Point: contract.PodMutation, Moments: []contract.Moment{contract.MomentAdmission, contract.MomentOffload},
			Reads:         []string{"/object/spec/containers[*]/name", "/object/metadata/annotations/" + outputtest.Long + ".example.com~1mirror"},
			SettingsReads: []string{"/object/metadata/labels"},
			Writes: []contract.WriteRule{
				{Path: "/metadata/labels", Verbs: []contract.Verb{contract.VerbMerge, contract.VerbRemove}, Keys: []string{"example.com/" + outputtest.Long, "example.com/mirror"}},
			},
		},
		{Point: contract.ResourceSliceAdmission, Reads: []string{"/object/spec/class"}},
	}
	taken = &Usage{Fuel: 123456, FuelLimit: contract.DefaultFuel, MemoryBytes: 1 << 20, MemoryLimitBytes: contract.DefaultMemoryBytes}
)

const refusal = "loading module.wasm.gz: the module imports wasi_snapshot_preview2.random_get, which policies are not given (only extism:host/env and wasi_snapshot_preview1 are): the policy's author must remove the import"

// What the commands print in sentences is folded on a terminal, and has no escape sequences in a pipe.
func TestTextsOfPoliciesFitATerminal(t *testing.T) {
	accepted := &Inspection{
		Source: "module.wasm.gz", Name: outputtest.Long, Version: "1.0.0", Digest: digest, Bytes: 655360, UnpackedBytes: 2345678, Contracts: []string{contract.Version},
		Points: points, ChecksSettings: true, Describe: taken, Accepted: true, Verdict: "a cluster with this version of Longshore loads this module",
		Imports: []string{"extism:host/env.alloc", "extism:host/env.error_set", "extism:host/env.input_length", "extism:host/env.input_load_u64", "extism:host/env.output_set", "wasi_snapshot_preview1.fd_write"},
	}
	accepted.read(make([]byte, 2<<20)) // It adds the note about the size of ConfigMaps.
	accepted.Bytes, accepted.UnpackedBytes, accepted.Digest = 2<<20, 3<<20, digest
	refused := &Inspection{Source: "module.wasm.gz", Bytes: 1234, Stderr: "panic: runtime error: index out of range [12] with length 3, in the function that reads the settings of the policy", Verdict: refusal}
	written := &Project{Name: "mirror", Folder: "../" + outputtest.Long, Language: "assemblyscript", Files: []string{"policy.ts", "vectors/labeled-by-its-virtual-node.json"}}
	signed := &attestation.Report{Contract: contract.Version, Suite: "1.0.0"}
	signed.Module.Name, signed.Module.Version, signed.Module.Digest = "mirror", "1.0.0", digest
	for name, text := range map[string]func(io.Writer, output.Style) error{
		"inspect":         accepted.text,
		"inspect-refused": refused.text,
		"inspect-live":    liveOf(accepted).text,
		"run":             answeredReport(t).text,
		"run-denied":      (&Report{Module: "mirror", Digest: digest, Point: "PodMutation", Moment: "Offload", Outcome: OutcomeDenied, Denial: &contract.Denial{Reason: "DataResidency", Message: "the data of the pod may be in eu-west, eu-north only, and virtual node " + outputtest.Long + " is in us-east"}}).text,
		"run-failed":      (&Report{Point: "PodMutation", Outcome: OutcomeFailed, Class: "Fuel", Error: refusal}).text,
		"test":            (&TestReport{Module: "mirror", Passed: 1, Failed: 1, Cases: []TestCase{{Name: "labeled"}, {Name: "another", Description: "A pod of another namespace is not labeled", Error: `the answer is {"version":"v1alpha1"} and the case wants {"version":"v1alpha1","operations":[{"op":"set","path":"/spec/nodeName","value":"milan"}]}`}}}).text,
		"explain":         explained,
		"init":            written.text,
		"verified":        (&verification{Report: signed, Accepted: true}).text,
		"not-verified":    (&verification{Report: signed, Reason: "the report is about the module with digest " + digest + ", not " + digest}).text,
		"conform-failed":  func(w io.Writer, style output.Style) error { return conformanceText(w, style, failedConformance()) },
		"build": func(w io.Writer, _ output.Style) error {
			return (&Built{File: "module.wasm.gz", Digest: digest, Bytes: 6543, UnpackedBytes: 12345}).text(w)
		},
		"applied": func(w io.Writer, style output.Style) error {
			return (&Pushed{Policy: &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: outputtest.Long}}}).applied(w, style, "longshore")
		},
	} {
		t.Run(name, func(t *testing.T) { outputtest.Table(t, name, false, text) })
	}
}

// Objects that a command prints for kubectl have no colors and are not folded.
func TestPrintedObjectsAreTheSameOnATerminal(t *testing.T) {
	pushed := &Pushed{Policy: &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "mirror", Annotations: map[string]string{"note": strings.Repeat("long text ", 30)}}}}
	var out bytes.Buffer
	require.NoError(t, pushed.print(&out, output.Text))
	outputtest.Golden(t, "push.txt", out.String())
}

func liveOf(module *Inspection) *Live {
	return &Live{
		Name: outputtest.Long, Generation: 3, Mode: "Shadow", FailurePolicy: "Fail", Digest: digest, Module: module,
		Source:   "ConfigMap longshore/" + outputtest.Long + ", key module.wasm.gz, and 2 parts",
		Manifest: &policyv1alpha1.ManifestSummary{Name: "mirror", Version: "1.0.0", Points: []policyv1alpha1.PointSummary{{Point: "PodMutation", Reads: points[0].Reads}}},
		Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionFalse, Reason: "ModuleNotLoaded", Message: refusal},
			{Type: "Loaded", Status: metav1.ConditionTrue, Reason: "Loaded"},
		},
		Components: []LiveComponent{{Component: "virtual-kubelet-" + outputtest.Long, PolicyObservation: policyv1alpha1.PolicyObservation{
			Digest: digest, Generation: 2, Message: refusal,
			Differences: []policyv1alpha1.Difference{{Point: "PodMutation", Kind: "Pod", Namespace: "shop", Name: "catalog-7d9c", Operations: []string{"merge /metadata/labels[example.com/mirror]", "set /spec/containers[name=web]/image"}, Omitted: 2}},
		}}},
		Disagreements: []string{"the component virtual-kubelet runs generation 2 of the policy, and the cluster has generation 3: wait, or see the log of the component"},
	}
}

func answeredReport(t *testing.T) *Report {
	t.Helper()
	r := &Report{
		Module: "mirror", Digest: digest, Point: "PodMutation", Moment: "Offload", Outcome: OutcomeAnswered, Usage: taken,
		Assumed:   []string{"virtualNode.name", "virtualNode.labels", "virtualNode.providerClusterID", "virtualNode.consumerClusterID"},
		Warnings:  []string{"the pod has no label app.kubernetes.io/name, so it is not spread over clusters and not over their nodes"},
		Log:       []string{"info: the image of the container web is pulled from mirror.example.com, as the settings of the policy say"},
		Stderr:    "a line that the runtime of the language wrote, which is longer than a terminal with eighty columns is wide",
		Decisions: []view.Entry{{Operations: []string{"set /spec/containers[name=" + outputtest.Long + "]/image"}, Kept: []string{"/metadata/labels/" + outputtest.Long}}},
		Operations: []contract.Operation{
			{Op: contract.VerbSet, Path: "/spec/containers[name=web]/image", Value: contract.RawMessage(`"mirror.example.com/` + outputtest.Long + `/web:1"`)},
			{Op: contract.VerbRemove, Path: "/metadata/annotations", Keys: []string{"example.com/first", "example.com/second", "example.com/third", "example.com/fourth"}},
		},
	}
	container := func(image string) map[string]any {
		return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": image, "args": []any{"--listen with a sentence that is longer than a terminal is wide, in one argument"}}}}}
	}
	require.NoError(t, r.compare(container("web:1"), container("mirror.example.com/"+outputtest.Long+"/web:1")))
	return r
}

func explained(w io.Writer, style output.Style) error {
	return explainText(w, style, &plan.Explanation{
		Problems: []string{"policy " + outputtest.Long + ": " + refusal},
		Pods: []plan.PodExplanation{{
			Plan: &planner.Plan{
				Kind: "Deployment", Namespace: "shop", Name: outputtest.Long, Result: planner.Local,
				Reason:  &planner.Reason{Message: "Policy mirror refuses the pod: its image is not from the registry of the company, and there is no mirror for it."},
				Assumed: []string{"namespace shop is offloaded to all virtual nodes, because the files have no NamespaceOffloading"},
			},
			Evaluations: []plan.Evaluation{
				{Point: "PodMutation", Moment: "Admission", Policies: []plan.PolicyAnswer{{
					Policy: outputtest.Long, Digest: digest, Changes: []string{"merge /metadata/labels[example.com/mirror]", "set /spec/containers[name=web]/image"},
					Kept: []string{"/metadata/labels/" + outputtest.Long}, Ignored: refusal,
				}}, Warnings: []string{"the pod has no label app.kubernetes.io/name, so it is not spread over the clusters"}},
				{Point: "PodMutation", Moment: "Offload", Denied: "Policy mirror refuses the pod: its image is not from the registry of the company, and there is no mirror for it."},
				{Point: "ResourceMutation", Error: refusal},
				{Point: "MetadataFilter"},
			},
		}},
	})
}

func failedConformance() *suite.Report {
	return &suite.Report{
		Module: suite.Module{Name: "mirror", Version: "1.0.0", Digest: digest}, Contract: contract.Version, Suite: "1",
		Checks:   []suite.RuleResult{{Rule: "answer.unread", Counts: suite.Counts{Failed: 5}}},
		Features: []suite.Feature{{Name: "ResourceSliceAdmission", Skipped: "the manifest of the module does not have this extension point, so nothing of it is asked"}},
		Figures:  []suite.Figures{{Point: contract.PodMutation, Requests: 120, Fuel: suite.Distribution{P50: 123456, P99: 987654, Limit: contract.DefaultFuel}, Memory: suite.Distribution{Max: 12 << 20}}},
		Findings: []suite.Finding{{
			Rule: "answer.unread", Feature: "PodMutation", Name: "generated Offload 1", Sentence: "An answer depends only on facts that the manifest declares in reads.",
			Error: "with the declared facts, and then with all: answered " + strings.Repeat(`{"version":"v1alpha1"} `, 20), Input: json.RawMessage(`{"version":"v1alpha1","point":"PodMutation","moment":"Offload","facts":{"object":{"metadata":{"name":"web"}}}}`),
		}},
	}
}
