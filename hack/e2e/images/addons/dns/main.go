// Command dns is CoreDNS with the plugins that a cluster's DNS needs.
package main

import (
	"github.com/coredns/coredns/coremain"

	// Plugins of the Corefile.
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() { coremain.Run() }
