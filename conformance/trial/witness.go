package trial

import (
	"bytes"
	"context"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

// Call is one call of a module.
type Call struct {
	// Request is what the module was given, Answer what it returned.
	Request, Answer []byte
	// Stats is what the call used.
	Stats engine.Stats
}

// witness is a policy that records its last call.
type witness struct {
	chain.Policy

	last Call
}

// Call implements chain.Policy.
func (w *witness) Call(ctx context.Context, export string, request []byte) ([]byte, engine.Stats, error) {
	answer, stats, err := w.Policy.Call(ctx, export, request)
	w.last = Call{Request: bytes.Clone(request), Answer: answer, Stats: stats}
	return answer, stats, err
}
