// Command residency is a policy module that keeps pods out of regions that their owner
// does not allow: it denies the offloading, with a reason. README.md explains how to build
// and load it.
package main

import (
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	"github.com/longshore-dev/longshore/sdk/guest/podmutation"
	"github.com/longshore-dev/longshore/sdk/guest/settings"
)

func init() {
	describe.Handle(manifest)
	settings.Handle(checkSettings)
	podmutation.Handle(guard)
}

// main is never called: the host calls the exports of a library.
func main() {}
