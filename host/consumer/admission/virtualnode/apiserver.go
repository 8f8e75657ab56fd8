package virtualnode

import (
	"slices"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// accessProblem returns why the address of the API server is incomplete, or "". With one half,
// remote pods would present their tokens to the provider's API server. A VirtualNode that
// was incomplete before can be changed.
func accessProblem(before, after *offloadingv1beta1.VirtualNode) string {
	isIncomplete := func(vn *offloadingv1beta1.VirtualNode) bool {
		arguments := virtualkubelet.Arguments(vn)
		return (virtualkubelet.ValueOf(arguments, virtualkubelet.FlagServerHost) == "") != (virtualkubelet.ValueOf(arguments, virtualkubelet.FlagServerPort) == "")
	}
	if !isIncomplete(after) || before != nil && isIncomplete(before) {
		return ""
	}
	return "arguments " + virtualkubelet.FlagServerHost + " and " + virtualkubelet.FlagServerPort +
		" must be set together, in the VkOptionsTemplate or in spec.template: with one of them, remote pods would use the provider's API server"
}

// warnAccess returns a warning if added arguments enable the access to an API server whose
// address is not known.
func warnAccess(added []string, vn *offloadingv1beta1.VirtualNode) []string {
	enabled := slices.IndexFunc(added, func(argument string) bool {
		return argument == virtualkubelet.FlagAccess || argument == virtualkubelet.FlagAccess+"=true"
	})
	if enabled < 0 || virtualkubelet.ValueOf(virtualkubelet.Arguments(vn), virtualkubelet.FlagServerHost) != "" {
		return nil
	}
	return []string{"argument \"" + added[enabled] + "\" has no effect without " + virtualkubelet.FlagServerHost + " and " + virtualkubelet.FlagServerPort +
		" or a Configuration of the provider's networks, over which remote pods reach this cluster's API server"}
}
