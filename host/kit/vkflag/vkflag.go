// Package vkflag lists the flags of the virtual kubelet that have no effect in this version.
//
// All flags of the reference system are accepted, because VirtualNode templates on
// the wire contain them. Those whose values are read elsewhere have no effect.
package vkflag

import (
	"slices"
	"strings"
)

// translation is the reason of the flags with networks of the provider.
const translation = "addresses are translated by the Configuration of the provider"

// reasons maps flags without effect to the reason.
var reasons = map[string]string{
	"remote-pod-cidr": translation, "remote-pod-cidr-remap": translation,
	"remote-external-cidr": translation, "remote-external-cidr-remap": translation,
}

// WithoutEffect returns why a flag has no effect, or "". The name is without dashes.
func WithoutEffect(flag string) string { return reasons[flag] }

// boolean lists the flags whose value may be omitted and is then true.
var boolean = []string{
	"create-node", "disable-ip-reflection", "enable-apiserver-support", "enable-ingress", "enable-load-balancer",
	"enable-profiling", "enable-storage", "metrics-enabled", "node-check-network", "send-audience-tokens", "vk-lease-enabled",
}

// IsBoolean reports whether the value of a flag may be omitted. The name may have dashes.
func IsBoolean(flag string) bool { return slices.Contains(boolean, strings.TrimLeft(flag, "-")) }

// Warn returns a warning about an argument, "--flag" or "--flag=value", that has no effect, or
// "". Arguments that disable a feature that does not exist need no warning.
func Warn(argument string) string {
	name, value, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
	reason := reasons[name]
	if reason == "" || value == "false" || value == "0" {
		return ""
	}
	return "argument \"" + argument + "\" has no effect in this version: " + reason
}
