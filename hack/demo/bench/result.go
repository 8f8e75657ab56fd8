package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"text/tabwriter"
)

// Result is one line of bench/results.json.
type Result struct {
	// Name is measure/detail.
	Name string `json:"name"`
	// Value is the median of the runs.
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Baseline is what the value is compared with: measured in the same run, or the
	// reference system's; the notes have which.
	Baseline *float64 `json:"baseline,omitempty"`
	// Ratio is the median of value/baseline of each run: below 1 is better than the baseline.
	Ratio *float64 `json:"ratio,omitempty"`
	// Spread is (largest - smallest) / median of the runs' values.
	Spread *float64 `json:"spread,omitempty"`
	// RatioSpread is (largest - smallest) / median of the runs' ratios.
	RatioSpread *float64 `json:"ratioSpread,omitempty"`
	Runs        int      `json:"runs"`
	// Goal is what the project wants, Met whether the median reaches it.
	Goal  string `json:"goal,omitempty"`
	Met   *bool  `json:"met,omitempty"`
	Notes string `json:"notes,omitempty"`
	// Command makes the figure again.
	Command string `json:"command"`
	// Commit is what was measured; with changes in the working tree it ends in "-modified".
	Commit string `json:"commit"`
	// Date of the run (UTC).
	Date string `json:"date"`
	// Machine names the processors.
	Machine string `json:"machine"`
}

// goal bounds a value or a ratio from above; the zero value means that there is none.
type goal struct {
	of  string // "value" or "ratio"
	max float64
}

func ratioGoal(most float64) goal { return goal{"ratio", most} }
func valueGoal(most float64) goal { return goal{"value", most} }

// sample is one run's figure.
type sample struct {
	name, unit string
	value      float64
	// baseline is NaN when there is none.
	baseline float64
	goal     goal
	notes    string
}

// figure is a sample without a baseline.
func figure(name, unit string, value float64, notes string) sample {
	return sample{name: name, unit: unit, value: value, baseline: math.NaN(), notes: notes}
}

// bounded returns the sample with a goal.
func (s sample) bounded(g goal) sample {
	s.goal = g
	return s
}

// compare returns a sample with a baseline and a goal.
func compare(name, unit string, value, baseline float64, g goal, notes string) sample {
	return sample{name: name, unit: unit, value: value, baseline: baseline, goal: g, notes: notes}
}

// recorder collects samples; results of the same name become one.
type recorder struct {
	wanted func(name string) bool
	// small figures have no goals.
	small   bool
	command string
	origin  origin
	order   []string
	samples map[string][]sample
}

func newRecorder(command string, from origin, wanted func(string) bool) *recorder {
	return &recorder{wanted: wanted, command: command, origin: from, samples: map[string][]sample{}}
}

func (r *recorder) add(samples ...sample) {
	for _, s := range samples {
		if !r.wanted(s.name) || math.IsNaN(s.value) || math.IsInf(s.value, 0) {
			continue
		}
		if r.small {
			s.goal = goal{}
		}
		if _, known := r.samples[s.name]; !known {
			r.order = append(r.order, s.name)
		}
		r.samples[s.name] = append(r.samples[s.name], s)
	}
}

// results are in the order in which the names were first seen.
func (r *recorder) results() []Result {
	out := make([]Result, 0, len(r.order))
	for _, name := range r.order {
		result := summarize(r.samples[name])
		result.Command, result.Commit, result.Date, result.Machine = r.command, r.origin.commit, r.origin.date, r.origin.machine
		out = append(out, result)
	}
	return out
}

func summarize(samples []sample) Result {
	var values, baselines, ratios []float64
	for _, s := range samples {
		values = append(values, s.value)
		if !math.IsNaN(s.baseline) && s.baseline != 0 {
			baselines = append(baselines, s.baseline)
			ratios = append(ratios, s.value/s.baseline)
		}
	}
	last := samples[len(samples)-1]
	result := Result{Name: last.name, Value: rounded(median(values)), Unit: last.unit, Runs: len(samples), Notes: last.notes}
	if share, ok := spread(values); ok {
		result.Spread = pointer(rounded(share))
	}
	reached := math.NaN()
	if len(ratios) > 0 {
		result.Baseline, result.Ratio = pointer(rounded(median(baselines))), pointer(rounded(median(ratios)))
		if share, ok := spread(ratios); ok {
			result.RatioSpread = pointer(rounded(share))
		}
	}
	switch {
	case last.goal.of == "value":
		reached = median(values)
	case last.goal.of == "ratio" && len(ratios) > 0:
		reached = median(ratios)
	}
	if !math.IsNaN(reached) {
		result.Goal = fmt.Sprintf("%s <= %.4g", last.goal.of, last.goal.max)
		result.Met = pointer(reached <= last.goal.max)
	}
	return result
}

func pointer[T any](value T) *T { return &value }

// rounded keeps four significant digits: the measures are not better than that.
func rounded(value float64) float64 {
	if value == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(value))))
	return math.Round(value*scale) / scale
}

// save writes results to a file, in the place of those of the same name, or at the end.
func save(path string, results []Result) error {
	known, err := read(path)
	if err != nil {
		return err
	}
	for i := range results {
		at := slices.IndexFunc(known, func(r Result) bool { return r.Name == results[i].Name })
		if at < 0 {
			known = append(known, results[i])
		} else {
			known[at] = results[i]
		}
	}
	content, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.WriteFile(path, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// read returns the results of earlier runs; a missing file has none.
func read(path string) ([]Result, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading earlier results: %w", err)
	}
	var results []Result
	if err := json.Unmarshal(content, &results); err != nil {
		return nil, fmt.Errorf("reading earlier results from %s (-out names another file): %w", path, err)
	}
	return results, nil
}

// table prints the results for people.
func table(out io.Writer, results []Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVALUE\tUNIT\tBASELINE\tRATIO\tSPREAD\tGOAL\tMET")
	for i := range results {
		r := &results[i]
		met := ""
		if r.Met != nil {
			met = map[bool]string{true: "yes", false: "NO"}[*r.Met]
		}
		fmt.Fprintf(w, "%s\t%g\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Value, r.Unit, number(r.Baseline), number(r.Ratio), share(r.Spread), r.Goal, met)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the results: %w", err)
	}
	return nil
}

func number(value *float64) string {
	if value == nil {
		return ""
	}
	return fmt.Sprintf("%g", *value)
}

func share(value *float64) string {
	if value == nil {
		return ""
	}
	return fmt.Sprintf("%.0f%%", *value*100)
}
