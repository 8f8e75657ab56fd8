package conform

import (
	"io"
	"testing"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output/outputtest"
	suite "github.com/longshore-dev/longshore/conformance/cluster"
	results "github.com/longshore-dev/longshore/conformance/suite"
)

func TestTheReportFitsATerminal(t *testing.T) {
	report := &suite.Report{
		Consumer: "rome", Provider: "milan", Suite: "1",
		Checks: []results.RuleResult{
			{Rule: "wire.shadowpod-is-created", Counts: results.Counts{Passed: 1}, Sentence: "The virtual kubelet creates a ShadowPod in the remote namespace for a pod that is bound to the virtual node."},
			{Rule: "wire.status", Counts: results.Counts{Failed: 1}, Sentence: "The status of the remote pod is that of the local pod."},
			{Rule: "longshore.policy", Skipped: "the consumer does not serve OffloadingPolicies"},
		},
		Findings: []results.Finding{{Rule: "wire.status", Sentence: "The status of the remote pod is that of the local pod.", Error: "phase Pending,\nwant Running"}},
		Features: []results.Feature{{Name: "Longshore", Skipped: "it is another implementation"}},
	}
	outputtest.Table(t, "report", false, func(w io.Writer, style output.Style) error { return text(w, style, report) })
}
