package policysource

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Labels of the policy metrics. Policies and modules are as many as the operator has
// OffloadingPolicies and core points; the series of deleted ones are deleted. Only
// longshore_policy_module_info has digests, one per policy. No label holds the name of a
// user's object.
const (
	labelPolicy  = "policy"
	labelModule  = "module"
	labelPoint   = "extension_point"
	labelResult  = "result"
	labelClass   = "class"
	labelState   = "state"
	labelDigest  = "digest"
	labelSpeaks  = "contract"
	labelReason  = "reason"
	labelInstead = "instead"
)

// Results beside the outcomes of package chain.
const (
	resultShadow    = "shadow"
	resultSame      = "same"
	resultDifferent = "different"
	resultLoaded    = "loaded"
	resultRefused   = "refused"
	stateIdle       = "idle"
	stateBusy       = "busy"
	// What decides in place of a version that is not used.
	insteadPrevious = "previous"
	insteadHeld     = "held"
	insteadSkipped  = "skipped"
	insteadAbsent   = "absent"
)

// Metrics count the calls of policies. It is a chain.Observer.
type Metrics struct {
	registry  prometheus.Registerer
	calls     *prometheus.CounterVec
	durations *prometheus.HistogramVec
	fuel      *prometheus.HistogramVec
	errors    *prometheus.CounterVec
	shadows   *prometheus.CounterVec
	loads     *prometheus.CounterVec
}

var _ chain.Observer = (*Metrics)(nil)

// NewMetrics registers the metrics of one Source.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		registry: registry,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_policy_calls_total",
			Help: "Calls of policies by result: answered, remembered, denied, failed, ignored, fellback, shadow.",
		}, []string{labelPolicy, labelModule, labelPoint, labelResult}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "longshore_policy_call_duration_seconds",
			Help:    "Time of a call of a policy until its answer is applied, including cached answers.",
			Buckets: []float64{1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.5},
		}, []string{labelPolicy, labelModule, labelPoint}),
		fuel: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "longshore_policy_call_fuel_ticks",
			Help:    "Fuel used by a call of a policy, in ticks.",
			Buckets: []float64{1e3, 1e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 1e7},
		}, []string{labelPolicy, labelModule, labelPoint}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_policy_errors_total",
			Help: "Calls of policies without a valid answer by class: Timeout, Memory, Trap, BadOutput, Denied, Guest, UndeclaredWrite, ObjectTooLarge, Quarantined, Unavailable, Host.",
		}, []string{labelPolicy, labelPoint, labelClass}),
		shadows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_policy_shadow_total",
			Help: "Calls of policies in mode Shadow by the result that they would have had: same, different, denied, failed.",
		}, []string{labelPolicy, labelPoint, labelResult}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_policy_loads_total",
			Help: "Attempts to load a module by result: loaded, refused.",
		}, []string{labelPolicy, labelResult}),
	}
	for _, collector := range []prometheus.Collector{m.calls, m.durations, m.fuel, m.errors, m.shadows, m.loads} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("registering policy metrics: %w", err)
		}
	}
	return m, nil
}

// Observe implements chain.Observer.
func (m *Metrics) Observe(o chain.Observation) {
	point, result := string(o.Point), string(o.Outcome)
	if o.Shadow {
		m.shadows.WithLabelValues(o.Binding, point, shadowResult(o)).Inc()
		result = resultShadow
	}
	m.calls.WithLabelValues(o.Binding, o.Module, point, result).Inc()
	m.durations.WithLabelValues(o.Binding, o.Module, point).Observe(o.Duration.Seconds())
	if o.Stats.Ticks > 0 {
		m.fuel.WithLabelValues(o.Binding, o.Module, point).Observe(float64(o.Stats.Ticks))
	}
	if o.Err != nil {
		m.errors.WithLabelValues(o.Binding, point, string(o.Class)).Inc()
	}
}

func shadowResult(o chain.Observation) string {
	switch {
	case o.Err != nil:
		return string(chain.Failed)
	case o.Outcome == chain.Refused:
		return string(chain.Refused)
	case o.Difference != nil:
		return resultDifferent
	default:
		return resultSame
	}
}

// loaded counts an attempt to load a module.
func (m *Metrics) loaded(policy string, err error) {
	result := resultLoaded
	if err != nil {
		result = resultRefused
	}
	m.loads.WithLabelValues(policy, result).Inc()
}

// deleteSeries deletes the series of a policy, or of a previous module of a policy.
func (m *Metrics) deleteSeries(labels prometheus.Labels) {
	for _, vector := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{m.calls, m.durations, m.fuel, m.errors, m.shadows, m.loads} {
		vector.DeletePartialMatch(labels)
	}
}

// pooled is a policy with a pool of instances.
type pooled interface {
	Instances() (idle, all int)
}

// stateCollector collects the current state of the source.
type stateCollector struct{ source *Source }

var (
	memoHits          = prometheus.NewDesc("longshore_policy_memo_hits_total", "Calls of policies that were answered from the cache.", nil, nil)
	memoMisses        = prometheus.NewDesc("longshore_policy_memo_misses_total", "Calls of policies whose answer was not in the cache.", nil, nil)
	memoEntries       = prometheus.NewDesc("longshore_policy_memo_entries", "Answers in the cache.", nil, nil)
	memoBytes         = prometheus.NewDesc("longshore_policy_memo_bytes", "Size of the cached answers and their requests in bytes.", nil, nil)
	instances         = prometheus.NewDesc("longshore_policy_instances", "Instances of a policy's module, by state: idle, busy. Policies with the same module share them.", []string{labelPolicy, labelModule, labelState}, nil)
	moduleInfo        = prometheus.NewDesc("longshore_policy_module_info", "1 for the module to which a policy is bound.", []string{labelPolicy, labelModule, labelDigest, labelSpeaks}, nil)
	policyRefused     = prometheus.NewDesc("longshore_policy_refused", "1 for each policy whose current version is not used, by reason and effect: previous (the previous version decides), held (objects are refused or wait), skipped (objects pass, failurePolicy Ignore), absent (objects pass, the policy was never enforced).", []string{labelPolicy, labelReason, labelInstead}, nil)
	policyQuarantined = prometheus.NewDesc("longshore_policy_quarantined", "1 if a policy is not called because it keeps failing, else 0.", []string{labelPolicy, labelPoint}, nil)
	policyFellBack    = prometheus.NewDesc("longshore_policy_fallen_back", "1 if the previous version of a policy is called instead of the current one, else 0.", []string{labelPolicy, labelPoint}, nil)
	allDescriptions   = []*prometheus.Desc{memoHits, memoMisses, memoEntries, memoBytes, instances, moduleInfo, policyRefused, policyQuarantined, policyFellBack}
)

// Describe implements prometheus.Collector.
func (stateCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range allDescriptions {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (c stateCollector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(description *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	memo := c.source.chains.MemoStats()
	metrics <- prometheus.MustNewConstMetric(memoHits, prometheus.CounterValue, float64(memo.Hits))
	metrics <- prometheus.MustNewConstMetric(memoMisses, prometheus.CounterValue, float64(memo.Misses))
	gauge(memoEntries, float64(memo.Entries))
	gauge(memoBytes, float64(memo.Bytes))
	replaced := map[string]bool{}
	for _, o := range *c.source.planned.Load() {
		if o.Problem != nil {
			gauge(policyRefused, 1, o.Policy.Name, o.Problem.Reason, inPlaceOf(&o))
		}
		if o.Bound != nil {
			// A policy in mode Shadow is beside the default of its name, with the same labels if it
			// has the same module.
			replaced[o.Policy.Name] = !o.Bound.Shadow || o.Bound.Module() == c.source.options.BuiltIn
		}
		collectModule(gauge, o.Policy.Name, o.Bound.Module())
	}
	if c.source.ready.Load() {
		for _, b := range plan.Implicit(c.source.options.BuiltIn, replaced) {
			collectModule(gauge, b.Name, b.Policy)
		}
	}
	for _, h := range c.source.chains.Health() {
		if h.Shadow {
			continue
		}
		gauge(policyQuarantined, toFloat(h.Quarantined()), h.Binding, string(h.Point))
		gauge(policyFellBack, toFloat(h.Quarantined() && h.FallsBack), h.Binding, string(h.Point))
	}
}

func collectModule(gauge func(description *prometheus.Desc, value float64, labels ...string), policy string, module chain.Policy) {
	if _, absent := module.(*plan.Absent); absent || module == nil {
		return
	}
	manifest := module.Manifest()
	speaks, _ := contract.Negotiate(contract.Versions(), manifest.Contracts)
	gauge(moduleInfo, 1, policy, module.Name(), module.Digest(), speaks)
	if pool, ok := module.(pooled); ok {
		idle, all := pool.Instances()
		gauge(instances, float64(idle), policy, module.Name(), stateIdle)
		gauge(instances, float64(max(0, all-idle)), policy, module.Name(), stateBusy)
	}
}

func toFloat(value bool) float64 {
	if value {
		return 1
	}
	return 0
}

// inPlaceOf returns what decides in place of the current version.
func inPlaceOf(o *plan.Outcome) string {
	switch {
	case o.Bound == nil:
		return insteadAbsent
	case !o.IsHeld():
		return insteadPrevious
	case plan.Ignores(o.Policy):
		return insteadSkipped
	default:
		return insteadHeld
	}
}

// deleteSeries deletes the series of policies that are gone, and of modules that they are no
// longer bound to.
func (s *Source) deleteSeries(before, after []plan.Outcome) {
	current := map[string]*plan.Outcome{}
	for i := range after {
		current[after[i].Policy.Name] = &after[i]
	}
	for _, o := range before {
		name, module := o.Policy.Name, o.Bound.Module()
		now := current[name]
		switch {
		case now == nil:
			s.options.Metrics.deleteSeries(prometheus.Labels{labelPolicy: name})
		case module != nil && (now.Bound.Module() == nil || now.Bound.Module().Name() != module.Name()):
			s.options.Metrics.deleteSeries(prometheus.Labels{labelPolicy: name, labelModule: module.Name()})
		}
	}
}
