package planner

import (
	"strconv"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// apiServer returns where remote pods of a virtual node reach the consumer's API server, according to
// the arguments of its virtual kubelet. It is empty if they do not, or if the address is that of a
// network between the clusters, which the virtual kubelet looks up.
func apiServer(vn *offloadingv1beta1.VirtualNode) remote.APIServer {
	arguments := virtualkubelet.Arguments(vn)
	if !sendsTokens(arguments, virtualkubelet.FlagAccess) {
		return remote.APIServer{}
	}
	return remote.APIServer{
		Host: virtualkubelet.ValueOf(arguments, virtualkubelet.FlagServerHost), Port: virtualkubelet.ValueOf(arguments, virtualkubelet.FlagServerPort),
	}
}

// sendsAudienceTokens reports whether tokens for other audiences are sent to pods without access.
func sendsAudienceTokens(vn *offloadingv1beta1.VirtualNode) bool {
	return sendsTokens(virtualkubelet.Arguments(vn), virtualkubelet.FlagAudienceTokens)
}

// sendsTokens reports whether a boolean argument is true, and tokens are sent at all.
func sendsTokens(arguments []string, flag string) bool {
	enabled, err := strconv.ParseBool(virtualkubelet.ValueOf(arguments, flag))
	return err == nil && enabled && virtualkubelet.ValueOf(arguments, virtualkubelet.FlagAccountWorkers) != "0"
}
