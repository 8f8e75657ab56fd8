package restore

import (
	"context"
	"time"

	"k8s.io/client-go/tools/cache"
)

// DetectAt is [Detect] with a clock.
func DetectAt(lw cache.ListerWatcher, now func() time.Time) cache.ListerWatcher {
	return detect(lw, nil, isBehind, now)
}

// Ask asks a group with a list of the caller.
func (g *Group) Ask(ctx context.Context, list func(context.Context) (string, error)) (string, error) {
	return g.ask(ctx, list)
}
