package virtualnode

import (
	"slices"
	"strings"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// The arguments for the access of remote pods to this cluster's API server (wire 3.5).
const (
	flagAccess     = "--enable-apiserver-support"
	flagServerHost = "--home-api-server-host"
	flagServerPort = "--home-api-server-port"
)

// valueOf returns the value of an argument; the last one counts. It is "true" for one without
// value, and "" for a missing one.
func valueOf(arguments []string, flag string) string {
	value := ""
	for _, argument := range arguments {
		name, given, hasValue := strings.Cut(argument, "=")
		if name != flag {
			continue
		}
		if value = given; !hasValue {
			value = "true"
		}
	}
	return value
}

// accessProblem returns why the address of the API server is incomplete, or "". With one half,
// remote pods would present their tokens to the provider's API server (T32). A VirtualNode that
// was incomplete before can be changed.
func accessProblem(before, after *offloadingv1beta1.VirtualNode) string {
	isIncomplete := func(vn *offloadingv1beta1.VirtualNode) bool {
		arguments := virtualkubelet.Arguments(vn)
		return (valueOf(arguments, flagServerHost) == "") != (valueOf(arguments, flagServerPort) == "")
	}
	if !isIncomplete(after) || before != nil && isIncomplete(before) {
		return ""
	}
	return "arguments " + flagServerHost + " and " + flagServerPort +
		" must be set together, in the VkOptionsTemplate or in spec.template: with one of them, remote pods would use the provider's API server"
}

// warnAccess returns a warning if added arguments enable the access to an API server whose
// address is not known.
func warnAccess(added []string, vn *offloadingv1beta1.VirtualNode) []string {
	enabled := slices.IndexFunc(added, func(argument string) bool {
		return argument == flagAccess || argument == flagAccess+"=true"
	})
	if enabled < 0 || valueOf(virtualkubelet.Arguments(vn), flagServerHost) != "" {
		return nil
	}
	return []string{"argument \"" + added[enabled] + "\" has no effect without " + flagServerHost + " and " + flagServerPort +
		" or a Configuration of the provider's networks, over which remote pods reach this cluster's API server"}
}
