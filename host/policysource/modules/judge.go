package modules

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/policy/chain"
	policymodule "github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// maxVerdicts bounds how many verdicts are cached, and verdictAge for how long: the API
	// server calls the webhook again, with the same content, after a timeout.
	maxVerdicts = 256
	verdictAge  = 10 * time.Minute
	// maxPanic bounds the text of a panic, in bytes.
	maxPanic = 256
)

// verdict is the result of loading a module and checking settings with it.
type verdict struct {
	// module describes the module; nil if it cannot be loaded.
	module chain.Policy
	// problem with the module, the points or the settings.
	problem *plan.Problem
}

// ErrStopped is in the error of [Modules.Judge] after Stop.
var ErrStopped = errors.New("the component is ending")

// Judge checks the module and the settings of a policy without any lasting effect. It returns a
// description of the module; nil if it cannot be loaded. The ConfigMap stored, if it is not
// nil, takes the place of the one in the cluster. Judge loads one module at a time, to bound
// memory. An error says nothing about the policy.
func (m *Modules) Judge(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (chain.Policy, *plan.Problem, error) {
	found, problem, err := m.find(ctx, policy, stored)
	if problem != nil || err != nil {
		return nil, problem, err
	}
	if found.builtIn != nil {
		return found.builtIn, m.checkSettings(ctx, policy, found.key, found.builtIn), nil
	}
	known, err := m.await(ctx, policy, &found)
	return known.module, known.problem, err
}

// await returns the verdict on a module and its settings, or an error at the end of the context. A
// load may ignore its context: it goes on, and its verdict is kept for a retry.
func (m *Modules) await(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, found *found) (verdict, error) {
	content := contentOf(policy, found.key)
	if known, ok := m.verdict(content); ok {
		return known, nil
	}
	select {
	case m.judging <- struct{}{}:
	case <-ctx.Done():
		return verdict{}, ctx.Err() //nolint:wrapcheck // The caller adds the policy.
	}
	// Another request may have had the same content.
	if known, ok := m.verdict(content); ok {
		<-m.judging
		return known, nil
	}
	type answer struct {
		verdict
		err error
	}
	answers := make(chan answer, 1)
	if !m.start(func() {
		defer func() { <-m.judging }()
		known, err := m.assess(ctx, policy, found)
		if err == nil {
			m.verdicts.Add(content, known, verdictAge)
		}
		answers <- answer{known, err}
	}) {
		<-m.judging
		return verdict{}, ErrStopped
	}
	select {
	case answered := <-answers:
		return answered.verdict, answered.err
	case <-ctx.Done():
		return verdict{}, ctx.Err() //nolint:wrapcheck // The caller adds the policy.
	}
}

// start runs a function in the background, unless Stop has been called.
func (m *Modules) start(run func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stopped {
		m.running.Go(run)
	}
	return !m.stopped
}

// assess loads a module, lets it check the policy's settings, and closes it.
func (m *Modules) assess(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, found *found) (verdict, error) {
	loaded, err := m.options.load(ctx, policy.Name, found)
	out := verdict{problem: notLoaded(err)}
	if err == nil {
		out = verdict{
			module:  describe(loaded),
			problem: validate(ctx, policy, loaded),
		}
		m.options.Close(loaded)
	}
	// After the end of the context a failure may be due to it; a success is kept for a retry.
	if ctx.Err() != nil && out.problem != nil {
		return verdict{}, ctx.Err() //nolint:wrapcheck // The caller adds the policy.
	}
	if !isLasting(out.problem) {
		return verdict{}, fmt.Errorf("the policy is not the cause, try again: %w", out.problem.Err)
	}
	return out, nil
}

// load calls Load. A module on which Longshore panics is refused, and ends no component.
func (o *Options) load(ctx context.Context, name string, found *found) (loaded chain.Policy, err error) {
	defer refuseAfterPanic(&err)
	return o.Load(ctx, name, found.raw, found.key.limits)
}

// refuseAfterPanic is deferred by functions that read or call a module.
func refuseAfterPanic(err *error) {
	if cause := recover(); cause != nil {
		*err = &policymodule.Refusal{Err: fmt.Errorf("the module made Longshore crash (%s): its author must report this, and can build it with another compiler",
			plaintext.Within(fmt.Sprint(cause), maxPanic))}
	}
}

// checkSettings lets a loaded module check the settings of a policy.
func (m *Modules) checkSettings(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, key Key, loaded chain.Policy) *plan.Problem {
	content := contentOf(policy, key)
	if known, ok := m.verdict(content); ok {
		return known.problem
	}
	problem := validate(ctx, policy, loaded)
	// A description has checked the points only. The components that call the module let it check
	// the settings.
	if _, described := loaded.(*plan.Absent); !described && isLasting(problem) {
		m.verdicts.Add(content, verdict{module: describe(loaded), problem: problem}, verdictAge)
	}
	return problem
}

// describe returns what is known of a module without its code.
func describe(loaded chain.Policy) *plan.Absent {
	return &plan.Absent{ModuleName: loaded.Name(), ModuleDigest: loaded.Digest(), Declared: loaded.Manifest()}
}

func (m *Modules) verdict(content [sha256.Size]byte) (verdict, bool) {
	known, ok := m.verdicts.Get(content)
	if !ok {
		return verdict{}, false
	}
	return known.(verdict), true
}

// contentOf returns a hash of everything that a verdict depends on: module, limits, points,
// settings, and the name of the policy, which is part of messages and may imply a point.
func contentOf(policy *policyv1alpha1.OffloadingPolicy, key Key) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %v %q %q", policy.Name, key.content, key.limits, policy.Spec.Points, settingsOf(policy)))
}

func settingsOf(policy *policyv1alpha1.OffloadingPolicy) json.RawMessage {
	if policy.Spec.Settings == nil {
		return nil
	}
	return policy.Spec.Settings.Raw
}

// settingsValidator is a module that can check its settings for some extension points.
type settingsValidator interface {
	ValidateSettings(ctx context.Context, settings json.RawMessage, points ...contract.Point) error
}

// validate lets a module check the settings of a policy, if it can, for the policy's points. It
// also checks that they may be missing.
func validate(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, loaded chain.Policy) *plan.Problem {
	points, problem := plan.Points(policy, loaded.Manifest())
	validator, ok := loaded.(settingsValidator)
	if problem != nil || !ok {
		return problem
	}
	if err := validateSettings(ctx, policy, validator, points); err != nil {
		return &plan.Problem{Reason: plan.ReasonInvalidSettings, Err: fmt.Errorf("spec.settings: %w", err)}
	}
	return nil
}

func validateSettings(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, validator settingsValidator, points []contract.Point) (err error) {
	defer refuseAfterPanic(&err)
	return validator.ValidateSettings(ctx, settingsOf(policy), points...)
}

// isLasting reports whether a problem with a module or its settings would be the same at the
// next attempt. A load may also fail for a lack of memory.
func isLasting(p *plan.Problem) bool {
	return p == nil || p.Reason != plan.ReasonModuleNotLoaded && p.Reason != plan.ReasonInvalidSettings || policymodule.AtFault(p.Err)
}
