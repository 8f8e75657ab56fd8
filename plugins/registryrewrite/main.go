// Command registryrewrite is a policy module that pulls images from mirrors: it
// rewrites the image of every container of an offloaded pod by a list of prefixes.
// README.md explains how to build and load it.
package main

import (
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	"github.com/longshore-dev/longshore/sdk/guest/podmutation"
	"github.com/longshore-dev/longshore/sdk/guest/settings"
)

func init() {
	describe.Handle(manifest)
	settings.Handle(checkSettings)
	podmutation.Handle(rewriteImages)
}

// main is never called: the host calls the exports of a library.
func main() {}
