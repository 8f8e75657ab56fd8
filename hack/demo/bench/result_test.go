package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func recorded(only string, samples ...sample) []Result {
	r := newRecorder("bin/bench", origin{"c1", "2026-11-22", "2 x m"}, regexp.MustCompile(only).MatchString)
	r.add(samples...)
	return r.results()
}

func TestRunsBecomeOneResult(t *testing.T) {
	results := recorded("",
		compare("burst/a", "s", 3, 2, ratioGoal(1.5), "n"),
		figure("burst/b", "s", 1, ""),
		compare("burst/a", "s", 2, 2, ratioGoal(1.5), "n"),
		compare("burst/a", "s", 4, 2, ratioGoal(1.5), "n"),
	)
	require.Len(t, results, 2)
	assert.Equal(t, Result{
		Name: "burst/a", Value: 3, Unit: "s", Baseline: pointer(2.0), Ratio: pointer(1.5), Spread: pointer(0.6667), RatioSpread: pointer(0.6667), Runs: 3,
		Goal: "ratio <= 1.5", Met: pointer(true), Notes: "n", Command: "bin/bench", Commit: "c1", Date: "2026-11-22", Machine: "2 x m",
	}, results[0])
	assert.Equal(t, Result{Name: "burst/b", Value: 1, Unit: "s", Runs: 1, Command: "bin/bench", Commit: "c1", Date: "2026-11-22", Machine: "2 x m"}, results[1])
}

func TestGoals(t *testing.T) {
	tests := map[string]struct {
		sample sample
		goal   string
		met    *bool
	}{
		"a ratio that is reached":            {compare("x", "s", 1, 2, ratioGoal(0.5), ""), "ratio <= 0.5", pointer(true)},
		"a ratio that is missed":             {compare("x", "s", 1.1, 2, ratioGoal(0.5), ""), "ratio <= 0.5", pointer(false)},
		"a value that is reached":            {compare("x", "s", 9, 22.1, valueGoal(9), ""), "value <= 9", pointer(true)},
		"a value that is missed":             {compare("x", "s", 9.1, 22.1, valueGoal(9), ""), "value <= 9", pointer(false)},
		"a value of zero without a baseline": {compare("x", "s", 0, math.NaN(), valueGoal(0), ""), "value <= 0", pointer(true)},
		"a ratio to nothing":                 {compare("x", "s", 1, math.NaN(), ratioGoal(1), ""), "", nil},
		"no goal":                            {compare("x", "s", 1, 2, goal{}, ""), "", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			results := recorded("", tc.sample)
			require.Len(t, results, 1)
			assert.Equal(t, tc.goal, results[0].Goal)
			assert.Equal(t, tc.met, results[0].Met)
		})
	}
}

func TestOnlyWantedAndFiniteFiguresAreRecorded(t *testing.T) {
	results := recorded("^cpu/", figure("cpu/a", "s", 1, ""), figure("burst/a", "s", 1, ""), figure("cpu/b", "s", math.NaN(), ""), figure("cpu/c", "s", math.Inf(1), ""))
	require.Len(t, results, 1)
	assert.Equal(t, "cpu/a", results[0].Name)
}

func TestRounding(t *testing.T) {
	for value, want := range map[float64]float64{0: 0, 0.00123456: 0.001235, 12.34567: 12.35, 123456: 123500, -1.23456: -1.235} {
		assert.InDelta(t, want, rounded(value), 1e-9, "%g", value)
	}
}

func TestResultsAreWrittenAsAList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	want := recorded("", compare("a", "ms", 1, 2, ratioGoal(0.5), "n"), figure("b", "MiB", 3, ""))
	require.NoError(t, save(path, want))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var got []Result
	require.NoError(t, json.Unmarshal(content, &got))
	assert.Equal(t, want, got)
	assert.Contains(t, string(content), `"baseline": 2`)
	assert.NotContains(t, string(content), "null")
}

func TestResultsOfEarlierRunsStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, save(path, recorded("", figure("a", "s", 1, "old"), figure("b", "s", 1, "old"))))
	require.NoError(t, save(path, recorded("", figure("c", "s", 2, "new"), figure("b", "s", 2, "new"))))
	results, err := read(path)
	require.NoError(t, err)
	var got []string
	for i := range results {
		got = append(got, results[i].Name+" "+results[i].Notes)
	}
	assert.Equal(t, []string{"a old", "b new", "c new"}, got)
}

func TestEarlierResultsAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	results, err := read(path)
	require.NoError(t, err)
	assert.Empty(t, results, "the file does not exist")
	require.NoError(t, save(path, recorded("", figure("a", "s", 1, ""))))
	results, err = read(path)
	require.NoError(t, err)
	assert.Len(t, results, 1)
	require.NoError(t, os.WriteFile(path, []byte("["), 0o600))
	_, err = read(path)
	assert.ErrorContains(t, err, "-out names another file")
}

func TestTable(t *testing.T) {
	var out strings.Builder
	require.NoError(t, table(&out, recorded("", compare("a/b", "ms", 1, 4, ratioGoal(0.5), ""), compare("c", "MiB", 3, 2, valueGoal(1), ""))))
	lines := strings.Split(out.String(), "\n")
	require.Len(t, lines, 4)
	assert.Equal(t, []string{"a/b", "1", "ms", "4", "0.25", "ratio", "<=", "0.5", "yes"}, strings.Fields(lines[1]))
	assert.Equal(t, []string{"c", "3", "MiB", "2", "1.5", "value", "<=", "1", "NO"}, strings.Fields(lines[2]))
}

func TestWhatIsWanted(t *testing.T) {
	tests := map[string]struct {
		only, measure string
		want          bool
	}{
		"everything":            {"", "quiet", true},
		"what is named":         {"quiet/", "quiet", true},
		"not what is not named": {"quiet/", "policy", false},
		"one of two":            {"^(cpu|stream)/", "cpu", true},
		"an expression that names nothing: nothing": {"p99", "stream", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, (&options{only: tc.only}).wants(tc.measure))
		})
	}
}

func TestCommandHoldsWhatTheFiguresDependOn(t *testing.T) {
	for want, o := range map[string]options{
		"bin/bench -runs 3 -pods 1000 -only '^cpu/'": {only: "^cpu/", runs: 3, pods: 1000, out: "x.json"},
		"bin/bench -runs 1 -pods 100 -quick":         {quick: true, runs: 1, pods: 100},
		"bin/bench -scale":                           {scale: true, runs: 3, pods: 1000},
		"bin/bench -tenants -quick":                  {tenants: true, quick: true},
	} {
		assert.Equal(t, want, o.command())
	}
}
