// Package vkflag knows which flags of the virtual kubelet have no effect in this version,
// so that every place where somebody reads or sets one can say so.
//
// All flags of the reference system are accepted (wire 7.1): they stand in
// VirtualNode templates on the wire. Those of parts that are not built yet do nothing.
package vkflag

import (
	"slices"
	"strings"
)

// The parts of Longshore that are not built yet.
const (
	endpointSlices = "EndpointSlices are not reflected yet"
	claims         = "volume claims are not reflected yet"
	tokens         = "tokens of service accounts are not reflected yet"
	events         = "events are not reflected yet"
	access         = "offloaded pods do not reach this cluster's API server yet"
	translation    = "addresses are not translated yet"
)

// reasons holds every flag without effect, by name.
var reasons = map[string]string{
	"local-podcidr": endpointSlices, "endpointslice-reflection-workers": endpointSlices,
	"enable-storage": claims, "virtual-storage-class-name": claims,
	"remote-real-storage-class-name": claims, "persistentvolumeclaim-reflection-workers": claims,
	"serviceaccount-reflection-workers": tokens,
	"event-reflection-workers":          events, "event-reflection-type": events,
	"enable-apiserver-support": access, "home-api-server-host": access, "home-api-server-port": access,
	"remote-pod-cidr": translation, "remote-pod-cidr-remap": translation,
	"remote-external-cidr": translation, "remote-external-cidr-remap": translation,
}

// WithoutEffect returns why a flag, given by its name without dashes, has no effect, and
// "" when it has one.
func WithoutEffect(flag string) string { return reasons[flag] }

// switches are the flags that may stand without a value, which then is true.
var switches = []string{
	"create-node", "disable-ip-reflection", "enable-apiserver-support", "enable-ingress", "enable-load-balancer",
	"enable-profiling", "enable-storage", "metrics-enabled", "node-check-network", "vk-lease-enabled",
}

// IsSwitch reports whether a flag, given with or without its dashes, may stand without a
// value.
func IsSwitch(flag string) bool { return slices.Contains(switches, strings.TrimLeft(flag, "-")) }

// Remark returns a sentence about an argument, "--flag" or "--flag=value", that asks for
// what has no effect; "" for all others, and for those that switch off what is not there.
func Remark(argument string) string {
	name, value, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
	reason := reasons[name]
	if reason == "" || value == "false" || value == "0" {
		return ""
	}
	return "argument \"" + argument + "\" has no effect in this version: " + reason
}
