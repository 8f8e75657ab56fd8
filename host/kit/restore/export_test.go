package restore

import (
	"time"

	"k8s.io/client-go/tools/cache"
)

// DetectAt is [Detect] with a clock.
func DetectAt(lw cache.ListerWatcher, now func() time.Time) cache.ListerWatcher {
	return detect(lw, isBehind, now)
}
