package peer

import (
	"io"
	"testing"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output/outputtest"
)

func TestTheResultFitsATerminal(t *testing.T) {
	result := &Result{Consumer: "rome", Provider: outputtest.Long, State: "Peered", VirtualNode: outputtest.Long}
	outputtest.Table(t, "peer", false, func(w io.Writer, _ output.Style) error { return result.text(w) })
}
