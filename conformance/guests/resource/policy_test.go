package main

import (
	"os"
	"testing"

	"github.com/longshore-dev/longshore/sdk/guesttest"
)

// The policy natively; conformance/suite asks the compiled module the same, in our host and
// in stock Extism.
func TestVectors(t *testing.T) { guesttest.Vectors(t, os.DirFS("vectors")) }
