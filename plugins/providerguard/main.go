// Command providerguard is a policy module for providers: it refuses pods of consumers that
// could reach a node or have no limits, and adds requests that are missing. README.md
// explains how to build and load it.
package main

import (
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	"github.com/longshore-dev/longshore/sdk/guest/settings"
	"github.com/longshore-dev/longshore/sdk/guest/shadowpodadmission"
)

func init() {
	describe.Handle(manifest)
	settings.Handle(checkSettings)
	shadowpodadmission.Handle(guard)
}

// main is never called: the host calls the exports of a library.
func main() {}
