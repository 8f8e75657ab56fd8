// Command metadatascrub is a policy module that removes labels and annotations by patterns
// for each kind of object, before they reach a provider. README.md explains how to build and
// load it.
package main

import (
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	"github.com/longshore-dev/longshore/sdk/guest/metadatafilter"
	"github.com/longshore-dev/longshore/sdk/guest/settings"
)

func init() {
	describe.Handle(manifest)
	settings.Handle(checkSettings)
	metadatafilter.HandleEntries(scrub)
}

// main is never called: the host calls the exports of a library.
func main() {}
