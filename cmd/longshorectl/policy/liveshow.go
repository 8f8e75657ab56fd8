package policy

import (
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func (l *Live) text(w io.Writer, style output.Style) error {
	p := &printer{w: w, style: style}
	p.field("Policy", fmt.Sprintf("%s, generation %d", l.Name, l.Generation))
	p.field("Mode", l.Mode)
	p.field("On failure", l.FailurePolicy)
	p.field("Source", l.Source)
	p.field("Digest", orNone(l.Digest))
	if l.Manifest != nil {
		p.field("Module", strings.TrimSpace(l.Manifest.Name+" "+l.Manifest.Version))
		for i := range l.Manifest.Points {
			p.point(manifestOf(&l.Manifest.Points[i]))
		}
	}
	p.conditions(l.Conditions)
	p.components(l.Components)
	switch {
	case l.ModuleError != "":
		p.field("Note", "the module was not compared: "+l.ModuleError)
	case l.Module.Accepted:
		p.field("Loaded here", "digest "+chain.ShortDigest(l.Module.Digest)+", describe took "+l.Module.Describe.String())
	}
	if len(l.Disagreements) > 0 {
		p.section("Disagreements")
		for _, sentence := range l.Disagreements {
			p.line("  %s", style.Bad(sentence))
		}
	}
	if l.healthy() {
		p.line("%s the cluster runs the current policy", style.Good("Ready:"))
	} else {
		p.line("%s see the conditions, components and disagreements above", style.Bad("Not ready:"))
	}
	return p.err
}

// manifestOf converts a point of the reported manifest.
func manifestOf(summary *policyv1alpha1.PointSummary) *contract.PointManifest {
	point := &contract.PointManifest{Point: contract.Point(summary.Point), Reads: summary.Reads}
	for _, moment := range summary.Moments {
		point.Moments = append(point.Moments, contract.Moment(moment))
	}
	for i := range summary.Writes {
		rule := contract.WriteRule{Path: summary.Writes[i].Path, Keys: summary.Writes[i].Keys}
		for _, verb := range summary.Writes[i].Verbs {
			rule.Verbs = append(rule.Verbs, contract.Verb(verb))
		}
		point.Writes = append(point.Writes, rule)
	}
	return point
}

func (p *printer) conditions(conditions []metav1.Condition) {
	if len(conditions) == 0 {
		return
	}
	p.section("Conditions")
	for i := range conditions {
		c := &conditions[i]
		text := fmt.Sprintf("%-10s %-7s", c.Type, c.Status)
		var state any = text
		switch c.Status {
		case metav1.ConditionTrue:
			state = p.style.Good(text)
		case metav1.ConditionFalse:
			state = p.style.Bad(text)
		case metav1.ConditionUnknown:
		}
		p.line("  %s %s", state, strings.TrimSuffix(c.Reason+": "+c.Message, ": "))
	}
}

func (p *printer) components(components []LiveComponent) {
	if len(components) == 0 {
		p.line("%s none reports this policy", p.style.Title("Components:"))
		return
	}
	p.section("Components")
	for i := range components {
		o := &components[i]
		p.line("  %s runs %s of generation %d", o.Component, orNone(chain.ShortDigest(o.Digest)), o.Generation)
		if o.Message != "" {
			p.line("    %s", p.style.Bad(o.Message))
		}
		for j := range o.Differences {
			p.line("    %s", differenceText(&o.Differences[j]))
		}
	}
}

// differenceText formats what a policy in mode Shadow would have done.
func differenceText(d *policyv1alpha1.Difference) string {
	what := strings.Join(d.Operations, ", ")
	if d.Omitted > 0 {
		what += fmt.Sprintf(" and %d more", d.Omitted)
	}
	if d.Denied != "" {
		what = "refuse it: " + d.Denied
		if d.Point == policyv1alpha1.ResourceMutationPoint {
			what = "skip it: " + d.Denied
		}
	}
	return fmt.Sprintf("would, at %s, for %s %s/%s: %s", d.Point, d.Kind, d.Namespace, d.Name, what)
}
