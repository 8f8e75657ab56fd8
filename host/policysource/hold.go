package policysource

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// held is what stands in for a policy that was in force and of which no version can be
// used: at its points nobody is asked, and its failure policy says what comes of that
// (ADR 24).
type held struct {
	uid    types.UID
	cause  error
	record *policyv1alpha1.EnforcedVersion
}

// enforces tells whether it is a version whose answers count.
func (b *bound) enforces() bool { return b.held == nil && !b.shadow && len(b.bindings) > 0 }

// record is the version as status tells of it.
func (b *bound) record() *policyv1alpha1.EnforcedVersion {
	out := &policyv1alpha1.EnforcedVersion{Generation: b.generation, Digest: b.digest, Module: b.bindings[0].Policy.Manifest().Name}
	for i := range b.bindings {
		point := policyv1alpha1.EnforcedPoint{Point: policyv1alpha1.ExtensionPoint(b.bindings[i].Point)}
		for _, moment := range b.bindings[i].Policy.Manifest().For(b.bindings[i].Point).Moments {
			point.Moments = append(point.Moments, string(moment))
		}
		out.Points = append(out.Points, point)
	}
	return out
}

// enforcedBySomebody reads from a policy's status which version was in force somewhere,
// nil when none was. Status is no input of ours elsewhere. Here it can only make us
// stricter, and nothing else outlives a process (ADR 24).
func enforcedBySomebody(policy *policyv1alpha1.OffloadingPolicy) *policyv1alpha1.EnforcedVersion {
	if policy.Status.Enforced != nil {
		return policy.Status.Enforced
	}
	// A component that decides by this generation obeys its mode; the one that writes the
	// record may not have been able to, or not yet.
	for _, o := range policy.Status.ObservedBy {
		if o.Generation != policy.Generation || o.Digest == "" {
			continue
		}
		out := &policyv1alpha1.EnforcedVersion{Generation: o.Generation, Digest: o.Digest, Module: "unknown"}
		if manifest := policy.Status.Manifest; manifest != nil {
			out.Module = manifest.Name
			for i := range manifest.Points {
				out.Points = append(out.Points, policyv1alpha1.EnforcedPoint{Point: manifest.Points[i].Point, Moments: manifest.Points[i].Moments})
			}
		}
		return out
	}
	return nil
}

// inForce is the version that was last in force, here or elsewhere, while the present one
// cannot be used; nil when none was, when the operator has taken the policy out of force,
// or did so after it.
func (c *candidate) inForce() *policyv1alpha1.EnforcedVersion {
	if shadow(c.object) || disabled(c.object) {
		return nil
	}
	previous := c.previous
	if previous != nil && previous.enforces() {
		return previous.record()
	}
	record := enforcedBySomebody(c.object)
	switch {
	case previous == nil:
	case previous.held != nil:
		if record == nil && previous.held.uid == c.object.UID {
			return previous.held.record
		}
	case record != nil && record.Generation <= previous.generation:
		return nil
	}
	return record
}

// choose picks what is proposed to the chains: the present version; else the one that
// decides; else, of a policy that was in force, that nobody can be asked; else what there
// was, of no effect.
func (s *Source) choose(c *candidate) *bound {
	if c.problem == nil && !c.pending() {
		return &c.next
	}
	if c.previous != nil && c.previous.enforces() {
		return c.previous
	}
	if b := s.hold(c); b != nil {
		return b
	}
	if c.previous != nil && c.previous.held == nil {
		return c.previous
	}
	return nil
}

// retreat picks the next best when the chains refuse what was proposed.
func (s *Source) retreat(c *candidate) {
	switch {
	case c.choice.held != nil:
		c.choice = nil
	case c.changed():
		c.choice = s.choose(c)
	default:
		c.choice = s.hold(c)
	}
}

// hold makes what stands in for a policy that was in force; nil when it was not. What is
// held stays so while a module is being loaded that may put an end to it; a policy that is
// new here is not held for that.
func (s *Source) hold(c *candidate) *bound {
	record := c.inForce()
	if record == nil {
		return nil
	}
	h := &held{uid: c.object.UID, record: record}
	switch {
	case c.problem != nil:
		h.cause = c.problem.err
	case c.previous != nil && c.previous.held != nil:
		h.cause = c.previous.held.cause
	default:
		return nil
	}
	b := &bound{held: h}
	absent := &declared{name: record.Module, digest: record.Digest, manifest: &contract.Manifest{Name: record.Module, Contracts: contract.Versions(), Points: heldPoints(c.object, record)}}
	shared := chain.Binding{
		Name: c.object.Name, Policy: absent, Unavailable: h.cause,
		FailurePolicy: heldFailurePolicy(c.object), Order: orderOf(c.object),
	}
	// What cannot be told of whom it concerns cannot narrow it.
	if match, _ := newMatcher(c.object.Spec.Match, s.options.Client); match != nil {
		shared.Match = match
	}
	for i := range absent.manifest.Points {
		binding := shared
		binding.Point = absent.manifest.Points[i].Point
		b.bindings = append(b.bindings, binding)
	}
	b.version = fmt.Sprintf("held %s %d %v %s", c.object.UID, c.object.Generation, absent.manifest.Points, h.cause)
	if c.previous != nil && c.previous.version == b.version {
		return c.previous
	}
	return b
}

// heldPoints are those of the policy: what its name stands for; else what its spec says;
// else where it was in force; and if nobody knows that, all core ones. The moments are those at which
// it was asked.
func heldPoints(policy *policyv1alpha1.OffloadingPolicy, record *policyv1alpha1.EnforcedVersion) []contract.PointManifest {
	moments := map[contract.Point][]contract.Moment{}
	var recorded, wanted []contract.Point
	for _, point := range record.Points {
		name := contract.Point(point.Point)
		recorded = append(recorded, name)
		for _, moment := range point.Moments {
			moments[name] = append(moments[name], contract.Moment(moment))
		}
	}
	for _, point := range policy.Spec.Points {
		wanted = append(wanted, contract.Point(point))
	}
	if point, isDefault := defaultPoints[policy.Name]; isDefault {
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

// heldFailurePolicy is the spec's; what is none is Fail.
func heldFailurePolicy(policy *policyv1alpha1.OffloadingPolicy) chain.FailurePolicy {
	if passes(policy) {
		return chain.Ignore
	}
	return chain.Fail
}

// passes tells whether objects pass while the policy gives no answer.
func passes(policy *policyv1alpha1.OffloadingPolicy) bool {
	return policy.Spec.FailurePolicy == policyv1alpha1.FailurePolicyIgnore
}

// isHeld tells whether nobody can be asked although the policy was in force.
func (c *candidate) isHeld() bool { return c.choice != nil && c.choice.held != nil }

// holds says what it means that nobody can be asked.
func (c *candidate) holds() string {
	points := make([]string, len(c.choice.bindings))
	for i := range c.choice.bindings {
		points[i] = string(c.choice.bindings[i].Point)
	}
	record := c.choice.held.record
	consequence := "what it concerns waits at %s: pods are refused at admission or stay Pending, copies are held back, running pods stay as they are"
	if passes(c.object) {
		consequence = "objects pass without it at %s, since spec.failurePolicy is Ignore"
	}
	return fmt.Sprintf("The policy was in force (generation %d, module %s, %s), and no version of it can be used here: "+consequence+". An operator must put that right, or set spec.failurePolicy or spec.mode meanwhile.",
		record.Generation, record.Module, chain.ShortDigest(record.Digest), strings.Join(points, ", "))
}

// enforced is what status tells of the version that was last in force.
func (c *candidate) enforced() *policyv1alpha1.EnforcedVersion {
	switch {
	case c.isHeld():
		return c.choice.held.record
	case c.choice != nil && c.choice.enforces():
		return c.choice.record()
	default:
		return c.inForce()
	}
}
