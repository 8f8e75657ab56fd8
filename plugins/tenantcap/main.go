// Command tenantcap is a policy module for providers: it bounds what a tenant is granted by its
// ResourceSlices, and may refuse tenants that it does not know. README.md
// explains how to build and load it.
package main

import (
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	"github.com/longshore-dev/longshore/sdk/guest/resourcesliceadmission"
	"github.com/longshore-dev/longshore/sdk/guest/settings"
)

func init() {
	describe.Handle(manifest)
	settings.Handle(checkSettings)
	resourcesliceadmission.Handle(limit)
}

// main is never called: the host calls the exports of a library.
func main() {}
