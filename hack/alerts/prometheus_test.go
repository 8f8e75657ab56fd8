package alerts

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// step is the time between two samples, and between two evaluations.
const step = time.Minute

// rule is an alert as Prometheus reads it.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         model.Duration    `yaml:"for"`
	Annotations map[string]string `yaml:"annotations"`
}

// rules returns the alerts of the chart by name.
func rules(t *testing.T) map[string]rule {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "charts", "longshore", "files", "alerts", "*.yaml"))
	require.NoError(t, err)
	found := map[string]rule{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var content struct {
			Groups []struct {
				Rules []rule `yaml:"rules"`
			} `yaml:"groups"`
		}
		require.NoError(t, yaml.Unmarshal(raw, &content), file)
		for _, group := range content.Groups {
			for _, r := range group.Rules {
				require.NotContains(t, found, r.Alert)
				found[r.Alert] = r
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

// fired evaluates a rule over series in the notation of promtool, with a sample each minute, for two
// hours. It returns when an alert fires first, by its summary.
func (r *rule) fired(t *testing.T, series []string) map[string]time.Duration {
	t.Helper()
	data := load(t, series)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer func() { require.NoError(t, engine.Close()) }()
	since, fired := map[string]time.Duration{}, map[string]time.Duration{}
	for now := time.Duration(0); now <= 2*time.Hour; now += step {
		query, err := engine.NewInstantQuery(t.Context(), data, nil, r.Expr, time.UnixMilli(now.Milliseconds()))
		require.NoError(t, err)
		vector, err := query.Exec(t.Context()).Vector()
		require.NoError(t, err)
		active := map[string]time.Duration{}
		for _, sample := range vector {
			key := sample.Metric.String()
			active[key] = now
			if before, ok := since[key]; ok {
				active[key] = before
			}
			summary := expand(t, r.Annotations["summary"], sample)
			expand(t, r.Annotations["description"], sample)
			if _, ok := fired[summary]; !ok && now-active[key] >= time.Duration(r.For) {
				fired[summary] = now
			}
		}
		query.Close()
		since = active
	}
	return fired
}

// expand fills in an annotation as Prometheus does.
func expand(t *testing.T, text string, sample promql.Sample) string {
	t.Helper()
	expander := template.NewTemplateExpander(t.Context(), "{{$labels := .Labels}}"+text, "alert",
		template.AlertTemplateData(sample.Metric.Map(), nil, "", sample), model.Time(sample.T), nil, nil, []string{"missingkey=error"})
	out, err := expander.Expand()
	require.NoError(t, err)
	return out
}

// load reads series such as `up{job="a"} 1x3 0x10`.
func load(t *testing.T, notations []string) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for _, notation := range notations {
		of, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(notation)
		require.NoError(t, err, notation)
		series := promql.Series{Metric: of}
		for i, value := range values {
			if !value.Omitted {
				series.Floats = append(series.Floats, promql.FPoint{T: (time.Duration(i) * step).Milliseconds(), F: value.Value})
			}
		}
		all = append(all, promql.NewStorageSeries(series))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			selected := &seriesSet{}
			for _, series := range all {
				if matches(series.Labels(), matchers) {
					selected.series = append(selected.series, series)
				}
			}
			return selected
		},
	}}
}

func matches(of labels.Labels, matchers []*labels.Matcher) bool {
	for _, matcher := range matchers {
		if !matcher.Matches(of.Get(matcher.Name)) {
			return false
		}
	}
	return true
}

// seriesSet is a storage.SeriesSet of series in memory.
type seriesSet struct {
	series []storage.Series
	next   int
}

func (s *seriesSet) Next() bool {
	s.next++
	return s.next <= len(s.series)
}

func (s *seriesSet) At() storage.Series                { return s.series[s.next-1] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
