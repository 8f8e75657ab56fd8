package move

import (
	"io"
	"testing"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output/outputtest"
)

func TestTheResultFitsATerminal(t *testing.T) {
	moved := &request{source: "data-" + outputtest.Long, target: "data-" + outputtest.Long + "-milan", node: outputtest.Long}
	outputtest.Table(t, "move", false, func(w io.Writer, _ output.Style) error { return moved.print(w) })
}
