package policysource

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Labels of the policy metrics. Policies and modules are as many as the operator has
// OffloadingPolicies and core points; the series of those that are gone are deleted.
// Digests stand in longshore_policy_module_info alone, one per policy. No label holds
// the name of a user's object.
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

// Metrics count what the chains ask. It is a chain.Observer.
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

// NewMetrics registers the policy metrics. They serve one Source.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		registry: registry,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_policy_calls_total",
			Help: "Questions to policies, by how they ended: answered, remembered, denied, failed, ignored, fellback, shadow.",
		}, []string{labelPolicy, labelModule, labelPoint, labelResult}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "longshore_policy_call_duration_seconds",
			Help:    "Time from a question to its applied answer, remembered ones included.",
			Buckets: []float64{1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.5},
		}, []string{labelPolicy, labelModule, labelPoint}),
		fuel: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "longshore_policy_call_fuel_ticks",
			Help:    "Fuel that calls used, in ticks; compare with the limit of a call.",
			Buckets: []float64{1e3, 1e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 1e7},
		}, []string{labelPolicy, labelModule, labelPoint}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_policy_errors_total",
			Help: "Questions without a valid answer, by class: Timeout, Memory, Trap, BadOutput, Denied, Guest, UndeclaredWrite, ObjectTooLarge, Quarantined, Unavailable, Host.",
		}, []string{labelPolicy, labelPoint, labelClass}),
		shadows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_policy_shadow_total",
			Help: "Questions to policies in mode Shadow, by what would have come of them: same, different, denied, failed.",
		}, []string{labelPolicy, labelPoint, labelResult}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_policy_loads_total",
			Help: "Attempts to load a module, by how they ended: loaded, refused.",
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
	if m == nil {
		return
	}
	result := resultLoaded
	if err != nil {
		result = resultRefused
	}
	m.loads.WithLabelValues(policy, result).Inc()
}

// forget deletes the series of a policy, or of a policy's earlier module.
func (m *Metrics) forget(labels prometheus.Labels) {
	if m == nil {
		return
	}
	if _, all := labels[labelModule]; !all {
		m.errors.DeletePartialMatch(labels)
		m.shadows.DeletePartialMatch(labels)
		m.loads.DeletePartialMatch(labels)
	}
	m.calls.DeletePartialMatch(labels)
	m.durations.DeletePartialMatch(labels)
	m.fuel.DeletePartialMatch(labels)
}

// attach registers what is read from the source when it is collected.
func (m *Metrics) attach(s *Source) error {
	if m == nil {
		return nil
	}
	if err := m.registry.Register(stock{source: s}); err != nil {
		return fmt.Errorf("registering policy metrics: %w", err)
	}
	return nil
}

// inventoryItem is a policy that is bound, implicit defaults included, or refused.
type inventoryItem struct {
	name   string
	module chain.Policy
	// reason for which an object's present version is not bound, if it is not, and what is
	// instead.
	reason, instead string
}

// pooled is a policy with instances: idle ones, and all.
type pooled interface {
	Instances() (idle, all int)
}

// stock collects what is, from the source: nothing of what is gone can stay behind.
type stock struct{ source *Source }

var (
	memoHits        = prometheus.NewDesc("longshore_policy_memo_hits_total", "Questions whose answer was remembered.", nil, nil)
	memoMisses      = prometheus.NewDesc("longshore_policy_memo_misses_total", "Questions whose answer was not remembered.", nil, nil)
	memoEntries     = prometheus.NewDesc("longshore_policy_memo_entries", "Remembered answers.", nil, nil)
	memoBytes       = prometheus.NewDesc("longshore_policy_memo_bytes", "Size of the remembered answers and their questions, in bytes.", nil, nil)
	instances       = prometheus.NewDesc("longshore_policy_instances", "Instances of a policy's module, by state: idle, busy. Policies with the same module share them.", []string{labelPolicy, labelModule, labelState}, nil)
	moduleInfo      = prometheus.NewDesc("longshore_policy_module_info", "The module that a policy is bound to: 1.", []string{labelPolicy, labelModule, labelDigest, labelSpeaks}, nil)
	policyRefused   = prometheus.NewDesc("longshore_policy_refused", "Policies whose present version is not used, by reason, and what is instead: previous (the version before decides), held (what it concerns is refused or waits), skipped (it passes, by failurePolicy Ignore), absent (it passes, since the policy is not in force): 1.", []string{labelPolicy, labelReason, labelInstead}, nil)
	policyIll       = prometheus.NewDesc("longshore_policy_quarantined", "Whether a policy is not asked because it keeps failing: 0 or 1.", []string{labelPolicy, labelPoint}, nil)
	policyFellBack  = prometheus.NewDesc("longshore_policy_fallen_back", "Whether the previous version of a policy is asked in its place: 0 or 1.", []string{labelPolicy, labelPoint}, nil)
	allDescriptions = []*prometheus.Desc{memoHits, memoMisses, memoEntries, memoBytes, instances, moduleInfo, policyRefused, policyIll, policyFellBack}
)

// Describe implements prometheus.Collector.
func (stock) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range allDescriptions {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (c stock) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(description *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	memo := c.source.chains.MemoStats()
	metrics <- prometheus.MustNewConstMetric(memoHits, prometheus.CounterValue, float64(memo.Hits))
	metrics <- prometheus.MustNewConstMetric(memoMisses, prometheus.CounterValue, float64(memo.Misses))
	gauge(memoEntries, float64(memo.Entries))
	gauge(memoBytes, float64(memo.Bytes))
	if items := c.source.inventory.Load(); items != nil {
		for _, item := range *items {
			item.collect(gauge)
		}
	}
	for _, h := range c.source.chains.Health() {
		if h.Shadow {
			continue
		}
		gauge(policyIll, truth(h.Quarantined()), h.Binding, string(h.Point))
		gauge(policyFellBack, truth(h.Quarantined() && h.FallsBack), h.Binding, string(h.Point))
	}
}

func (i *inventoryItem) collect(gauge func(description *prometheus.Desc, value float64, labels ...string)) {
	if i.reason != "" {
		gauge(policyRefused, 1, i.name, i.reason, i.instead)
	}
	if _, gone := i.module.(*declared); gone || i.module == nil {
		return
	}
	manifest := i.module.Manifest()
	speaks, _ := contract.Negotiate(contract.Versions(), manifest.Contracts)
	gauge(moduleInfo, 1, i.name, i.module.Name(), i.module.Digest(), speaks)
	if pool, ok := i.module.(pooled); ok {
		idle, all := pool.Instances()
		gauge(instances, float64(idle), i.name, i.module.Name(), stateIdle)
		gauge(instances, float64(max(0, all-idle)), i.name, i.module.Name(), stateBusy)
	}
}

func truth(value bool) float64 {
	if value {
		return 1
	}
	return 0
}

// instead says what is while the present version is not used.
func (c *candidate) instead() string {
	switch {
	case c.choice == nil:
		return insteadAbsent
	case !c.isHeld():
		return insteadPrevious
	case passes(c.object):
		return insteadSkipped
	default:
		return insteadHeld
	}
}

// account takes stock of what the chains have now, and forgets what is gone.
func (s *Source) account(candidates []*candidate) {
	versions := map[string]string{}
	shadows := map[string]bool{}
	replaced := map[string]bool{}
	var items []inventoryItem
	for _, c := range candidates {
		item := inventoryItem{name: c.object.Name}
		if c.problem != nil {
			item.reason, item.instead = c.problem.reason, c.instead()
		}
		if c.choice != nil {
			replaced[item.name] = !c.choice.shadow
			if len(c.choice.bindings) > 0 {
				item.module = c.choice.bindings[0].Policy
				versions[item.name], shadows[item.name] = c.choice.version, c.choice.shadow
			}
		}
		items = append(items, item)
	}
	for _, b := range s.implicit(replaced) {
		item := inventoryItem{name: b.Name, module: b.Policy}
		if !slices.Contains(items, item) { // a shadow of it may run the same module
			items = append(items, item)
		}
	}
	s.tally.keep(versions, shadows)
	s.forgetSeries(items)
	s.inventory.Store(&items)
}

// forgetSeries deletes the series of policies, and of modules, that were in stock.
func (s *Source) forgetSeries(items []inventoryItem) {
	before := s.inventory.Load()
	if before == nil {
		return
	}
	modules := map[string]map[string]bool{}
	for _, item := range items {
		if modules[item.name] == nil {
			modules[item.name] = map[string]bool{}
		}
		if item.module != nil {
			modules[item.name][item.module.Name()] = true
		}
	}
	for _, item := range *before {
		now, stays := modules[item.name]
		switch {
		case !stays:
			s.options.Metrics.forget(prometheus.Labels{labelPolicy: item.name})
			delete(s.written, item.name)
			delete(s.told, item.name)
			delete(s.announced, item.name)
		case item.module != nil && !now[item.module.Name()]:
			s.options.Metrics.forget(prometheus.Labels{labelPolicy: item.name, labelModule: item.module.Name()})
		}
	}
}
