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
	enabled, err := strconv.ParseBool(virtualkubelet.ValueOf(arguments, virtualkubelet.FlagAccess))
	if err != nil || !enabled || virtualkubelet.ValueOf(arguments, virtualkubelet.FlagAccountWorkers) == "0" {
		return remote.APIServer{}
	}
	return remote.APIServer{
		Host: virtualkubelet.ValueOf(arguments, virtualkubelet.FlagServerHost), Port: virtualkubelet.ValueOf(arguments, virtualkubelet.FlagServerPort),
	}
}
