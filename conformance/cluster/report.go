package cluster

import (
	"slices"

	"github.com/longshore-dev/longshore/conformance/suite"
)

const (
	// ReportKind is the kind of a [Report].
	ReportKind = "ClusterConformanceReport"
	// Version is that of the suite. It changes when a rule is added or becomes stricter.
	Version = "1.0.0"
)

// Report is the result of the suite for a consumer and a provider.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Consumer and Provider are the IDs of the clusters.
	Consumer string `json:"consumer"`
	Provider string `json:"provider"`
	// Suite is the version of the suite.
	Suite string `json:"suite"`
	// Namespace in the consumer, and RemoteNamespace in the provider, are those that the suite used.
	Namespace       string `json:"namespace"`
	RemoteNamespace string `json:"remoteNamespace"`
	// Conforms reports whether no check failed and the profile Wire was tested.
	Conforms bool `json:"conforms"`
	// Features are the profiles.
	Features []suite.Feature `json:"features"`
	// Checks are the results by rule, in the order of the suite.
	Checks []suite.RuleResult `json:"checks"`
	// Findings are the checks that failed.
	Findings []suite.Finding `json:"findings,omitempty"`

	results []suite.Result
}

// Results returns all results, those that passed too.
func (r *Report) Results() []suite.Result { return r.results }

func newReport(s *session) *Report {
	return &Report{
		APIVersion: suite.ReportVersion, Kind: ReportKind, Consumer: string(s.consumerID), Provider: string(s.providerID),
		Suite: Version, Namespace: s.Namespace, RemoteNamespace: s.remoteName(),
		Features: []suite.Feature{{Name: ProfileWire}, {Name: ProfileLongshore}},
	}
}

// add counts the outcome of a check.
func (r *Report) add(rule Rule, outcome Outcome) {
	result := suite.RuleResult{Rule: rule.ID, Sentence: rule.text(), Skipped: outcome.Skipped}
	feature := &r.Features[slices.IndexFunc(r.Features, func(f suite.Feature) bool { return f.Name == rule.Profile })]
	switch {
	case outcome.Skipped != "":
	case outcome.Err != nil:
		result.Failed++
		feature.Failed++
		r.Findings = append(r.Findings, suite.Finding{
			Rule: rule.ID, Sentence: rule.text(), Feature: rule.Profile, Name: rule.ID, Error: outcome.Err.Error(),
		})
	default:
		result.Passed++
		feature.Passed++
	}
	if outcome.Skipped == "" {
		r.results = append(r.results, suite.Result{Rule: rule.ID, Feature: rule.Profile, Name: rule.ID, Err: outcome.Err})
	}
	r.Checks = append(r.Checks, result)
	feature.Skipped = ""
	if feature.Counts == (suite.Counts{}) {
		feature.Skipped = outcome.Skipped
	}
	r.Conforms = len(r.Findings) == 0 && r.Features[0].Passed > 0
}

// text is the sentence with the section of the wire that has it.
func (r *Rule) text() string {
	if r.Section == "" {
		return r.Sentence
	}
	return r.Sentence + " (wire " + r.Section + ")"
}

func (r *Report) passed(rule string) bool {
	return slices.ContainsFunc(r.Checks, func(c suite.RuleResult) bool { return c.Rule == rule && c.Passed > 0 })
}
