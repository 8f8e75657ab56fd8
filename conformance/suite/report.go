package suite

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/longshore-dev/longshore/host/kit/version"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// ReportVersion is the API version of a [Report].
	ReportVersion = "conformance.longshore.dev/v1alpha1"
	// ReportKind is the kind of a [Report].
	ReportKind = "PolicyConformanceReport"
	// Version is that of the suite. It changes when a rule is added or becomes stricter.
	Version = "1.0.0"
)

// Report is the result of the suite for one module.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Module is what was tested.
	Module Module `json:"module"`
	// Contract is the version of the contract, Suite that of the suite.
	Contract string `json:"contract"`
	Suite    string `json:"suite"`
	// Hosts are those that the module ran in, with their versions.
	Hosts []string `json:"hosts"`
	// Conforms reports whether every check passed, advice excepted unless Strict.
	Conforms bool `json:"conforms"`
	Strict   bool `json:"strict"`
	// Vectors is the number of the author's golden cases.
	Vectors int `json:"vectors"`
	// Features are what the suite can test; those that the module does not claim are skipped.
	Features []Feature `json:"features"`
	// Checks are the results by rule, in the order of the suite.
	Checks []RuleResult `json:"checks"`
	// Findings are the results that did not pass.
	Findings []Finding `json:"findings,omitempty"`
	// Figures are what ordinary requests took.
	Figures []Figures `json:"figures,omitempty"`

	results []Result
}

// Module identifies the module of a report.
type Module struct {
	// Source is the file.
	Source string `json:"source,omitempty"`
	// Name and Version are the manifest's.
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Digest of the unpacked module, "sha256:…".
	Digest string `json:"digest,omitempty"`
}

// Feature is a part of the contract that a module may claim in its manifest or by an export.
type Feature struct {
	// Name of the feature: Module, an extension point, or Settings.
	Name string `json:"name"`
	// Skipped is the reason why the feature was not tested, if it was not.
	Skipped string `json:"skipped,omitempty"`
	Counts  `json:",inline"`
}

// RuleResult is the result for one rule.
type RuleResult struct {
	// Rule is the ID of the sentence of the contract, and Sentence the sentence.
	Rule     string `json:"rule"`
	Sentence string `json:"sentence"`
	// Skipped is the reason why nothing was tested, if nothing was.
	Skipped string `json:"skipped,omitempty"`
	Counts  `json:",inline"`
}

// Counts are numbers of results.
type Counts struct {
	Passed int `json:"passed"`
	Failed int `json:"failed"`
	// Advice counts results that did not pass and do not count unless the report is strict.
	Advice int `json:"advice"`
}

// Finding is a result that did not pass.
type Finding struct {
	// Rule and Sentence are what the module breaks.
	Rule     string `json:"rule"`
	Sentence string `json:"sentence"`
	// Feature at which it does, and Name of the test.
	Feature string `json:"feature"`
	Name    string `json:"name"`
	Advice  bool   `json:"advice,omitempty"`
	Error   string `json:"error"`
	// Input is the smallest one with this outcome that was found, for one finding of each rule
	// and feature; it is JSON unless InputText is set.
	Input     json.RawMessage `json:"input,omitempty"`
	InputText string          `json:"inputText,omitempty"`
}

// Figures are what the ordinary requests of a point took.
type Figures struct {
	Point    contract.Point `json:"point"`
	Requests int            `json:"requests"`
	// Fuel in ticks, Memory in bytes, with the limit of a call.
	Fuel   Distribution `json:"fuel"`
	Memory Distribution `json:"memory"`
}

// Distribution has percentiles.
type Distribution struct {
	P50   uint64 `json:"p50"`
	P99   uint64 `json:"p99"`
	Max   uint64 `json:"max"`
	Limit uint64 `json:"limit"`
}

func distribution(values []uint64, limit uint64) Distribution {
	slices.Sort(values)
	at := func(percent int) uint64 { return values[min(len(values)-1, len(values)*percent/100)] }
	return Distribution{P50: at(50), P99: at(99), Max: values[len(values)-1], Limit: limit}
}

// Result of one check of a module.
type Result struct {
	// Rule is the ID of the sentence of the contract that is checked.
	Rule string
	// Feature is the extension point, Module or Settings.
	Feature string
	// Name is what is tested: a vector, a generated request, a kind of invalid input.
	Name string
	// Err is the reason why the module does not conform; nil if it does.
	Err error
	// Input is what the module was given, as small as possible; empty if it passed.
	Input []byte
}

// Results returns all results, those that passed too.
func (r *Report) Results() []Result { return r.results }

const (
	featureModule   = "Module"
	featureSettings = "Settings"
)

func newReport(options *Options) *Report {
	r := &Report{
		APIVersion: ReportVersion, Kind: ReportKind, Module: Module{Source: options.Source},
		Contract: contract.Version, Suite: Version, Strict: options.Strict, Vectors: len(options.Vectors), Conforms: true,
		Hosts:    []string{"longshore " + version.Version(), "extism/go-sdk" + versionOf("github.com/extism/go-sdk")},
		Features: []Feature{{Name: featureModule}},
	}
	for _, point := range contract.Points() {
		r.Features = append(r.Features, Feature{Name: string(point)})
	}
	r.Features = append(r.Features, Feature{Name: featureSettings})
	for i := range rules {
		r.Checks = append(r.Checks, RuleResult{Rule: rules[i].ID, Sentence: rules[i].Sentence})
	}
	return r
}

// versionOf returns a space and the version of a module that this program is built with.
func versionOf(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dependency := range info.Deps {
		if dependency.Path == path {
			return " " + dependency.Version
		}
	}
	return ""
}

// add counts a result.
func (r *Report) add(result Result) {
	r.results = append(r.results, result)
	rule := ruleOf(result.Rule)
	advice := rule.Advice && !r.Strict
	for _, counts := range []*Counts{
		&r.Checks[slices.IndexFunc(r.Checks, func(c RuleResult) bool { return c.Rule == result.Rule })].Counts,
		&r.Features[slices.IndexFunc(r.Features, func(f Feature) bool { return f.Name == result.Feature })].Counts,
	} {
		switch {
		case result.Err == nil:
			counts.Passed++
		case advice:
			counts.Advice++
		default:
			counts.Failed++
			r.Conforms = false
		}
	}
	if result.Err == nil {
		return
	}
	finding := Finding{
		Rule: rule.ID, Sentence: rule.Sentence, Feature: result.Feature, Name: result.Name, Advice: advice, Error: result.Err.Error(),
	}
	switch {
	case json.Valid(result.Input):
		finding.Input = result.Input
	case len(result.Input) > 0:
		finding.InputText = fmt.Sprintf("%.200q, %d bytes", result.Input, len(result.Input))
	}
	r.Findings = append(r.Findings, finding)
}

// skip gives the reason for each feature and each rule that was not tested.
func (r *Report) skip(reasons map[string]string) {
	for i := range r.Features {
		r.Features[i].Skipped = reasons[r.Features[i].Name]
	}
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.Counts != (Counts{}) {
			continue
		}
		switch {
		case ruleOf(c.Rule).Settings:
			c.Skipped = reasons[featureSettings]
		case c.Rule == ruleVector && r.Vectors == 0:
			c.Skipped = "there are no vectors: name their folder with --vectors"
		}
		if c.Skipped == "" {
			c.Skipped = "no request reached this check"
		}
	}
}
