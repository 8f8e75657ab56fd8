package policy

import (
	"io"
	"testing"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output/outputtest"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestTablesOfPoliciesFitATerminal(t *testing.T) {
	measured := suite.Measurement{
		Figures: suite.Figures{
			Point: contract.ResourceSliceAdmission, Requests: 120, Fuel: suite.Distribution{P50: 123456789, P99: 987654321}, Memory: suite.Distribution{Max: 12 << 20},
		},
		Time: suite.Distribution{P50: 1234567, P99: 98765432},
	}
	benchmark := &Benchmark{Points: []BenchmarkPoint{{Module: measured, BuiltIn: &measured}}}
	outputtest.Table(t, "bench", false, func(w io.Writer, _ output.Style) error { return benchmark.text(w) })
	report := &suite.Report{
		Module: suite.Module{Name: "mirror", Version: "1.0.0", Digest: "sha256:0123456789ab"}, Contract: "v1alpha1", Suite: "1",
		Checks: []suite.RuleResult{{Rule: "answer.same", Counts: suite.Counts{Passed: 12}}, {Rule: "input.broken", Counts: suite.Counts{Failed: 3}}, {Rule: "author.vectors", Skipped: "the command names no vectors of the author"}},
	}
	outputtest.Table(t, "conform", false, func(w io.Writer, style output.Style) error { return conformanceText(w, style, report) })
}
