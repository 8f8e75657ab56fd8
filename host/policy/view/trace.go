package view

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/longshore-dev/longshore/host/policy/chain"
)

// trace logs, with verbosity 1, which policy wrote or dropped which path (no values), why
// one was passed over, and which one refused: provenance for objects that carry no
// annotation, and for what the annotation has no room for. The logger in the context says
// which object it is about.
func trace(ctx context.Context, decisions []chain.Decision) {
	log := logr.FromContextOrDiscard(ctx).V(1)
	if !log.Enabled() {
		return
	}
	for i := range decisions {
		d := &decisions[i]
		did := make([]string, len(d.Effects))
		for n := range d.Effects {
			did[n] = EffectText(&d.Effects[n])
		}
		about := []any{"point", d.Point, "policy", d.Binding, "module", d.Module, "digest", chain.ShortDigest(d.Digest), "operations", did}
		for _, more := range []struct {
			key   string
			value any
			tell  bool
		}{
			{"moment", d.Moment, d.Moment != ""},
			{"kept", d.Kept, len(d.Kept) > 0},
			{"ignored", d.Ignored, d.Ignored != ""},
			{"fellBack", d.FellBack, d.FellBack != ""},
			{"denied", d.Denied, d.Denied},
		} {
			if more.tell {
				about = append(about, more.key, more.value)
			}
		}
		log.Info("A policy answered", about...)
	}
}
