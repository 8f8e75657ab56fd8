package main

import (
	"os"
	"testing"

	"github.com/longshore-dev/longshore/sdk/guesttest"
)

// The policy natively; the compiled module is asked the same, in our host, in stock Extism
// and through longshorectl, by conformance/suite.
func TestVectors(t *testing.T) { guesttest.Vectors(t, os.DirFS("vectors")) }
