// Package report writes the reports of the conformance suites as JUnit XML for pipelines and as
// HTML pages for people.
package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/longshore-dev/longshore/conformance/cluster"
	"github.com/longshore-dev/longshore/conformance/suite"
)

// junitSuites is the form that pipelines read.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
	Skipped *junitSkipped `xml:"skipped,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

// JUnit writes the report of a module: a test suite for each rule and a test case for each result.
// Advice that does not count is a skipped case.
func JUnit(w io.Writer, r *suite.Report) error {
	return junit(w, "Longshore policy conformance: "+strings.TrimSpace(r.Module.Name+" "+r.Module.Version), r.Checks, r.Findings, r.Results())
}

// ClusterJUnit writes the report of an installation: a test suite for each rule.
func ClusterJUnit(w io.Writer, r *cluster.Report) error {
	return junit(w, "Longshore cluster conformance: "+r.Consumer+" and "+r.Provider, r.Checks, r.Findings, r.Results())
}

func junit(w io.Writer, name string, checks []suite.RuleResult, findings []suite.Finding, results []suite.Result) error {
	document := junitSuites{Name: name}
	byRule := map[string]*junitSuite{}
	for i := range checks {
		byRule[checks[i].Rule] = &junitSuite{Name: checks[i].Rule}
	}
	failures := map[[3]string]*suite.Finding{}
	for i := range findings {
		f := &findings[i]
		failures[[3]string{f.Rule, f.Feature, f.Name}] = f
	}
	for _, result := range results {
		entry := junitCase{Class: result.Rule + "." + result.Feature, Name: result.Name}
		s := byRule[result.Rule]
		s.Tests++
		if finding := failures[[3]string{result.Rule, result.Feature, result.Name}]; finding != nil && result.Err != nil {
			if finding.Advice {
				entry.Skipped = &junitSkipped{Message: "advice: " + valid(finding.Error)}
				s.Skipped++
			} else {
				entry.Failure = &junitFailure{Message: valid(finding.Sentence), Text: valid(finding.Error + "\n" + InputOf(finding))}
				s.Failures++
			}
		}
		s.Cases = append(s.Cases, entry)
	}
	for i := range checks {
		s := byRule[checks[i].Rule]
		if reason := checks[i].Skipped; reason != "" {
			s.Tests, s.Skipped = 1, 1
			s.Cases = []junitCase{{Class: s.Name, Name: "skipped", Skipped: &junitSkipped{Message: reason}}}
		}
		document.Tests, document.Failures, document.Skipped = document.Tests+s.Tests, document.Failures+s.Failures, document.Skipped+s.Skipped
		document.Suites = append(document.Suites, *s)
	}
	text, err := xml.MarshalIndent(document, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the JUnit report: %w", err)
	}
	if _, err := io.WriteString(w, xml.Header+string(text)+"\n"); err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
	}
	return nil
}

// valid replaces what XML cannot contain.
func valid(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// InputOf returns the input of a finding as text, cut at a length that people read; empty if
// there is none.
func InputOf(f *suite.Finding) string {
	text := f.InputText
	if len(f.Input) > 0 {
		text = string(f.Input)
	}
	if len(text) > maxInput {
		text = strings.ToValidUTF8(text[:maxInput], "") + fmt.Sprintf("… (%d bytes)", len(text))
	}
	return text
}

const maxInput = 4 << 10
