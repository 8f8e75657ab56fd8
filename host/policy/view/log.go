package view

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/longshore-dev/longshore/host/policy/chain"
)

// logDecisions logs decisions with verbosity 1, without values. It covers objects without
// the decisions annotation, and what the annotation has no room for. The logger in the
// context names the object.
func logDecisions(ctx context.Context, decisions []chain.Decision) {
	log := logr.FromContextOrDiscard(ctx).V(1)
	if !log.Enabled() {
		return
	}
	for i := range decisions {
		d := &decisions[i]
		operations := make([]string, len(d.Effects))
		for n := range d.Effects {
			operations[n] = EffectText(&d.Effects[n])
		}
		values := []any{"point", d.Point, "policy", d.Binding, "module", d.Module, "digest", chain.ShortDigest(d.Digest), "operations", operations}
		if d.Moment != "" {
			values = append(values, "moment", d.Moment)
		}
		if len(d.Kept) > 0 {
			values = append(values, "kept", d.Kept)
		}
		if d.Ignored != "" {
			values = append(values, "ignored", d.Ignored)
		}
		if d.FellBack != "" {
			values = append(values, "fellBack", d.FellBack)
		}
		if d.Denied {
			values = append(values, "denied", d.Denied)
		}
		log.Info("A policy answered", values...)
	}
}
