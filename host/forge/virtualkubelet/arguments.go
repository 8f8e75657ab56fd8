package virtualkubelet

import (
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/host/forge/remote"
)

// The arguments for the access of remote pods to this cluster's API server.
const (
	FlagAccess         = "--enable-apiserver-support"
	FlagAudienceTokens = "--send-audience-tokens"
	FlagServerHost     = "--home-api-server-host"
	FlagServerPort     = "--home-api-server-port"
	FlagAccountWorkers = "--serviceaccount-reflection-workers"
)

// flagSecretTypes is the argument with the types of Secrets that are not reflected.
const flagSecretTypes = "--secret-types-not-reflected"

// WithheldSecretTypes returns the types of Secrets that a virtual kubelet with these arguments does not
// reflect.
func WithheldSecretTypes(arguments []string) []string {
	isFlag := func(argument string) bool { return strings.HasPrefix(argument, flagSecretTypes+"=") }
	if !slices.ContainsFunc(arguments, isFlag) {
		return remote.WithheldSecretTypes()
	}
	return strings.Split(ValueOf(arguments, flagSecretTypes), ",")
}

// WorkersFlag returns the argument with the number of objects of a resource that are reflected at
// once; 0 disables its reflection.
func WorkersFlag(resource string) string { return "--" + resource + "-reflection-workers" }

// TypeFlag returns the argument with the policy of the reflection of a resource.
func TypeFlag(resource string) string { return "--" + resource + "-reflection-type" }

// ValueOf returns the value of an argument; the last one counts. It is "true" for one without
// value, and "" for a missing one.
func ValueOf(arguments []string, flag string) string {
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
