package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Held is the state of a policy that was enforced before and of which no version can be
// used. Its bindings call nothing: each call fails with the cause, and the failure policy
// applies.
type Held struct {
	// Cause is the problem of the current version.
	Cause error
	// Version was enforced last.
	Version *policyv1alpha1.EnforcedVersion
}

// unknownModule stands for the name of an enforced module that is not recorded.
const unknownModule = "unknown"

// EnforcedVersion reads the record of the version that was enforced last, nil without one.
// A record that cannot be read counts as a version of which nothing is known.
func EnforcedVersion(policy *policyv1alpha1.OffloadingPolicy) *policyv1alpha1.EnforcedVersion {
	raw, ok := policy.Annotations[policyv1alpha1.EnforcedAnnotation]
	if !ok {
		return nil
	}
	out := &policyv1alpha1.EnforcedVersion{}
	if err := json.Unmarshal([]byte(raw), out); err != nil {
		out = &policyv1alpha1.EnforcedVersion{}
	}
	out.Module = cmp.Or(out.Module, unknownModule)
	return out
}

// Enforces reports whether the answers of these bindings are applied.
func (b *Bound) Enforces() bool { return b.Held == nil && !b.Shadow && len(b.Bindings) > 0 }

// enforcedVersion describes bindings that are enforced.
func (b *Bound) enforcedVersion() *policyv1alpha1.EnforcedVersion {
	manifest := b.Bindings[0].Policy.Manifest()
	out := &policyv1alpha1.EnforcedVersion{Generation: b.Generation, Digest: b.Digest, Module: manifest.Name}
	for i := range b.Bindings {
		point := policyv1alpha1.EnforcedPoint{Point: policyv1alpha1.ExtensionPoint(b.Bindings[i].Point)}
		for _, moment := range manifest.For(b.Bindings[i].Point).Moments {
			point.Moments = append(point.Moments, string(moment))
		}
		out.Points = append(out.Points, point)
	}
	return out
}

// lastEnforced returns the version that was enforced last, while the current one cannot be
// used. It is nil if there is none, or if the operator has chosen another mode since.
func (c *candidate) lastEnforced() *policyv1alpha1.EnforcedVersion {
	if IsShadow(c.Policy) || IsDisabled(c.Policy) {
		return nil
	}
	previous := c.previous
	if previous != nil && previous.Enforces() {
		return previous.enforcedVersion()
	}
	recorded := EnforcedVersion(c.Policy)
	switch {
	case previous == nil:
	case previous.Held != nil:
		if recorded == nil && previous.UID == c.Policy.UID {
			return previous.Held.Version
		}
	case recorded != nil && recorded.Generation <= previous.Generation:
		return nil
	}
	return recorded
}

// hold returns the bindings of a policy that is held; nil if it was not enforced before. A
// policy that is held stays so while a module is loading; a policy that is new here is not
// held for that.
func (p *planner) hold(c *candidate) *Bound {
	version := c.lastEnforced()
	if version == nil {
		return nil
	}
	h := &Held{Version: version}
	switch {
	case c.Problem != nil:
		h.Cause = c.Problem.Err
	case c.previous != nil && c.previous.Held != nil:
		h.Cause = c.previous.Held.Cause
	default:
		return nil
	}
	manifest := &contract.Manifest{Name: version.Module, Contracts: contract.Versions(), Points: heldPoints(c.Policy, version)}
	shared := chain.Binding{
		Name: c.Policy.Name, Policy: &Absent{ModuleName: version.Module, ModuleDigest: version.Digest, Declared: manifest}, Unavailable: h.Cause,
		FailurePolicy: chain.Fail, Order: orderOf(c.Policy),
	}
	if Ignores(c.Policy) {
		shared.FailurePolicy = chain.Ignore
	}
	// The parts of the selection that do not compile do not narrow it.
	shared.Match, _ = newMatcher(c.Policy.Spec.Match, p.in.NamespaceLabels)
	b := &Bound{UID: c.Policy.UID, Held: h}
	for i := range manifest.Points {
		binding := shared
		binding.Point = manifest.Points[i].Point
		b.Bindings = append(b.Bindings, binding)
	}
	b.Version = fmt.Sprintf("held %s %d %v %s", c.Policy.UID, c.Policy.Generation, manifest.Points, h.Cause)
	if c.previous != nil && c.previous.Version == b.Version {
		return c.previous
	}
	return b
}

// heldPoints returns the points of a policy that is held: the point of the default that it
// replaces; else those of its spec; else those of the enforced version; if all are unknown,
// the core points. The moments are those of the enforced version.
func heldPoints(policy *policyv1alpha1.OffloadingPolicy, version *policyv1alpha1.EnforcedVersion) []contract.PointManifest {
	moments := map[contract.Point][]contract.Moment{}
	var recorded, wanted []contract.Point
	for _, point := range version.Points {
		name := contract.Point(point.Point)
		recorded = append(recorded, name)
		for _, moment := range point.Moments {
			moments[name] = append(moments[name], contract.Moment(moment))
		}
	}
	for _, point := range policy.Spec.Points {
		wanted = append(wanted, contract.Point(point))
	}
	if point, ok := defaultPoints[policy.Name]; ok {
		wanted = []contract.Point{point}
	}
	for _, points := range [][]contract.Point{wanted, recorded, contract.CorePoints()} {
		var out []contract.PointManifest
		for _, point := range points {
			if slices.Contains(contract.Points(), point) {
				out = append(out, contract.PointManifest{Point: point, Moments: moments[point]})
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// Absent describes a module that is not loaded.
type Absent struct {
	ModuleName, ModuleDigest string
	Declared                 *contract.Manifest
}

var _ chain.Policy = (*Absent)(nil)

// Name implements chain.Policy.
func (a *Absent) Name() string { return a.ModuleName }

// Digest implements chain.Policy.
func (a *Absent) Digest() string { return a.ModuleDigest }

// Manifest implements chain.Policy.
func (a *Absent) Manifest() *contract.Manifest { return a.Declared }

// Call implements chain.Policy. It always fails.
func (*Absent) Call(context.Context, string, []byte) ([]byte, engine.Stats, error) {
	return nil, engine.Stats{}, errors.New("the module is not loaded: this is a bug of Longshore")
}
