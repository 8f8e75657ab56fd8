package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/conformance/trial"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/host/policysource/modules"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// levels are the names of the log levels.
var levels = map[engine.Level]string{
	engine.LevelTrace: "trace", engine.LevelDebug: "debug", engine.LevelInfo: "info",
	engine.LevelWarn: "warning", engine.LevelError: "error",
}

// RunOptions are a module and a question to it, as bytes of files.
type RunOptions struct {
	// Name of the module's file, InputName of the input's, for messages.
	Name, InputName string
	// Module, raw or compressed; Input, Settings and Spec are YAML or JSON. Of Settings
	// and Spec at most one is set.
	Module, Input, Settings, Spec []byte
	// Point and Moment may be empty when the module leaves no choice.
	Point, Moment string
	// Fuel of the call in ticks, at most contract.MaxFuel; the spec's, or the contract's, when zero.
	Fuel uint64
	// Compiler of the module; see [Streams].
	Compiler engine.Compiler
}

// classInvariants is the class of a run whose outcome breaks an invariant of the host.
const classInvariants = "Invariants"

// The outcomes of a run.
const (
	// OutcomeAnswered: the answer was applied.
	OutcomeAnswered = "Answered"
	// OutcomeDenied: the policy refused the object.
	OutcomeDenied = "Denied"
	// OutcomeSkipped: the object is not reflected.
	OutcomeSkipped = "Skipped"
	// OutcomeFailed: the module is refused, or gave no valid answer.
	OutcomeFailed = "Failed"
)

// Report is the answer of a module and its effect on the object.
type Report struct {
	Module string `json:"module,omitempty"`
	Digest string `json:"digest,omitempty"`
	Point  string `json:"point,omitempty"`
	Moment string `json:"moment,omitempty"`
	// Outcome is Answered, Denied, Skipped or Failed.
	Outcome string `json:"outcome"`
	// Error is the reason of a failure, with the role that must act; Class is its kind.
	Error string `json:"error,omitempty"`
	Class string `json:"class,omitempty"`
	// Stderr is what the module wrote before it failed.
	Stderr string `json:"stderr,omitempty"`
	// Request is what the module was given, Answer what it gave back.
	Request json.RawMessage `json:"request,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	// Operations of the answer.
	Operations []contract.Operation `json:"operations,omitempty"`
	// Denial is the reason why the policy refused the object.
	Denial *contract.Denial `json:"denial,omitempty"`
	// Skip is the reason why the object is not reflected.
	Skip *contract.Skip `json:"skip,omitempty"`
	// Warnings are returned to the user with the API server's answer.
	Warnings []string `json:"warnings,omitempty"`
	// Decisions are the entries of the annotation policy.longshore.dev/decisions.
	Decisions []view.Entry `json:"decisions,omitempty"`
	// Diff of the object, unified, as YAML; empty when nothing changed.
	Diff string `json:"diff,omitempty"`
	// Object afterwards.
	Object map[string]any `json:"object,omitempty"`
	// Usage of the call.
	Usage *Usage `json:"usage,omitempty"`
	// Log lines of the module.
	Log []string `json:"log,omitempty"`
	// Assumed are the paths of facts that the input does not have.
	Assumed []string `json:"assumed,omitempty"`
}

// exit turns the outcome into the command's exit code.
func (r *Report) exit() error {
	switch r.Outcome {
	case OutcomeAnswered, OutcomeSkipped:
		return nil
	case OutcomeDenied:
		return &output.Exit{Code: output.CodeDenied}
	default:
		return &output.Exit{Code: output.CodeModule}
	}
}

// Run asks a module one question through the chain that runs in a cluster. Faults of the
// module are reported; errors are about the inputs.
func Run(ctx context.Context, options RunOptions) (*Report, error) {
	report := &Report{}
	runtime, err := engine.New(ctx, engine.Options{Compiler: options.Compiler, Log: func(l engine.Line) {
		report.Log = append(report.Log, levels[l.Level]+": "+l.Message)
	}})
	if err != nil {
		return nil, fmt.Errorf("starting the policy engine: %w", err)
	}
	err = report.run(ctx, runtime, options)
	if closeErr := runtime.Close(ctx); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("closing the policy engine: %w", closeErr))
	}
	if err != nil {
		return nil, err
	}
	return report, nil
}

func (r *Report) run(ctx context.Context, runtime *engine.Engine, options RunOptions) error {
	binding, limits, err := readBinding(options)
	if err != nil {
		return err
	}
	loaded, err := module.Load(ctx, runtime, options.Module, module.Options{Name: options.Name, Limits: limits})
	if err != nil && !module.AtFault(err) {
		return err
	}
	if err != nil {
		return r.fail(ctx, err)
	}
	r.Module, r.Digest, r.Log = loaded.Name(), loaded.Digest(), nil
	point, moment, err := choose(loaded.Manifest(), options.Point, options.Moment)
	if err != nil {
		return err
	}
	r.Point, r.Moment = string(point), string(moment)
	q, err := readQuestion(options.InputName, options.Input, point, moment)
	if err != nil {
		return err
	}
	r.Assumed = q.assumed
	if binding.Settings == nil {
		binding.Settings = q.settings
	}
	if err := loaded.ValidateSettings(ctx, binding.Settings, point); err != nil {
		return r.fail(ctx, err)
	}
	binding.Policy, binding.Point = loaded, point
	return r.ask(ctx, binding, limits, q)
}

func (r *Report) ask(ctx context.Context, binding chain.Binding, limits engine.Limits, q *question) error {
	asked, err := trial.New(binding)
	if err != nil {
		return r.fail(ctx, err)
	}
	in := &trial.Question{Point: contract.Point(r.Point), Moment: contract.Moment(r.Moment), Object: q.object, Facts: q.facts}
	answered, err := asked.Ask(ctx, in)
	call := &answered.Call
	r.Request = call.Request
	if json.Valid(call.Answer) {
		r.Answer = call.Answer
	}
	if call.Request != nil {
		r.Usage = usage(call.Stats, contract.DefaultFuel)
		if limits.Fuel != 0 {
			r.Usage.FuelLimit = limits.Fuel
		}
		if limits.MemoryBytes != 0 {
			r.Usage.MemoryLimitBytes = limits.MemoryBytes
		}
	}
	if err != nil {
		return r.fail(ctx, err)
	}
	var answer contract.Response
	if err := json.Unmarshal(call.Answer, &answer); err != nil {
		return fmt.Errorf("reading an answer that the chain has taken: %w", err)
	}
	result := answered.Result
	r.Outcome, r.Operations, r.Denial, r.Warnings = OutcomeAnswered, answer.Operations, answer.Deny, result.Warnings
	switch {
	case result.Denial != nil && result.Denial.Skip:
		r.Outcome, r.Skip = OutcomeSkipped, answer.Skip
	case result.Denial != nil:
		r.Outcome = OutcomeDenied
	}
	if err := trial.CheckInvariants(in, result); err != nil {
		r.Outcome, r.Class = OutcomeFailed, classInvariants
		r.Error = plaintext.Line(fmt.Sprintf("module %s violated an invariant: %v; its author must act", r.Module, err))
	}
	if r.Decisions, err = view.DecodeDecisions(view.EncodeDecisions(result.Decisions, view.MaxDecisionsBytes)); err != nil {
		return fmt.Errorf("reading the decisions: %w", err)
	}
	return r.compare(q.object, result.Object)
}

// fail records the failure of the module in the report.
func (r *Report) fail(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("trying the policy: %w", ctx.Err())
	}
	r.Outcome, r.Error = OutcomeFailed, err.Error()
	if failure, ok := errors.AsType[*chain.PolicyError](err); ok {
		r.Class = string(failure.Class)
		// There is no OffloadingPolicy: leave out what an operator could change in one.
		r.Error = fmt.Sprintf("module %s gave no valid answer: %s", failure.Module, failure.Reason())
	}
	if call, ok := errors.AsType[*engine.CallError](err); ok {
		r.Class, r.Stderr = string(call.Class), call.Stderr
	}
	return nil
}

// readBinding reads the settings, or the spec of an OffloadingPolicy.
func readBinding(options RunOptions) (chain.Binding, engine.Limits, error) {
	binding, limits := chain.Binding{}, engine.Limits{}
	if options.Settings != nil {
		settings, err := yaml.YAMLToJSONStrict(options.Settings)
		if err != nil {
			return binding, limits, fmt.Errorf("reading the settings: %w", err)
		}
		binding.Settings = settings
	}
	if options.Spec != nil {
		var spec policyv1alpha1.OffloadingPolicySpec
		if err := yaml.UnmarshalStrict(options.Spec, &spec); err != nil {
			return binding, limits, fmt.Errorf("reading the spec: %w", err)
		}
		if spec.Settings != nil {
			binding.Settings = spec.Settings.Raw
		}
		if err := readAllow(&binding, spec.Allow); err != nil {
			return binding, limits, err
		}
		var err error
		if limits, err = limitsOf(&spec); err != nil {
			return binding, limits, err
		}
	}
	switch {
	case options.Fuel > contract.MaxFuel:
		return binding, limits, output.Usagef("invalid --fuel %d: a cluster grants at most %d ticks", options.Fuel, contract.MaxFuel)
	case options.Fuel != 0:
		limits.Fuel = options.Fuel
	}
	return binding, limits, nil
}

// limitsOf returns the limits of a spec, or why a cluster refuses the spec before it loads the
// module. The spec need not name a module: it is a file of the command line.
func limitsOf(spec *policyv1alpha1.OffloadingPolicySpec) (engine.Limits, error) {
	checked := &policyv1alpha1.OffloadingPolicy{Spec: *spec}
	if spec.Module.BuiltIn == "" && spec.Module.ConfigMap == nil {
		checked.Spec.Module.ConfigMap = &policyv1alpha1.ConfigMapSource{}
	}
	limits, problem := modules.LimitsOf(spec.Limits)
	if problem = cmp.Or(plan.CheckSpec(checked), problem); problem != nil {
		return engine.Limits{}, fmt.Errorf("reading the spec: %w", problem)
	}
	return limits.Engine(), nil
}

// readAllow takes the CRD's form of allow, which is the contract's on the wire.
func readAllow(binding *chain.Binding, allow *policyv1alpha1.Allow) error {
	if allow == nil {
		return nil
	}
	encoded, err := json.Marshal(allow)
	if err != nil {
		return fmt.Errorf("reading spec.allow: %w", err)
	}
	if err := json.Unmarshal(encoded, &binding.Allow); err != nil {
		return fmt.Errorf("reading spec.allow: %w", err)
	}
	return nil
}
