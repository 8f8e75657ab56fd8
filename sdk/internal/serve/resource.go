package serve

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// Responses registers the policy that answers a point with whole responses, but for their
// version.
func Responses[F any](point contract.Point, facts func(*json.Scanner, *F), policy func(*guest.Request[F]) (contract.Response, error)) {
	register(point, facts, policy)
}
