package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

const (
	noNetworking = "Longshore has no networking module: pods of both clusters reach each other over networks that exist"
	byHelm       = "Longshore is installed by Helm: helm install longshore charts/longshore --namespace longshore --create-namespace --set clusterID=NAME; " +
		"docs/howto/move-from-the-reference.md maps the values"
)

// refused are the commands of the reference's command-line client that this one does not have,
// with the reason. They are not listed in the help.
func refused(root *cobra.Command) {
	for _, name := range []string{"install", "upgrade"} {
		root.AddCommand(refusal(name, byHelm))
	}
	root.AddCommand(refusal("uninstall", "Longshore is uninstalled by Helm: helm uninstall longshore --namespace longshore"), refusal("network", noNetworking),
		refusal("test", noNetworking))
	for _, parent := range root.Commands() {
		switch parent.Name() {
		case "create", "delete":
			parent.AddCommand(refusal("configuration", noNetworking), refusal("gatewayserver", noNetworking), refusal("gatewayclient", noNetworking), refusal("publickey", noNetworking))
		case "generate":
			parent.AddCommand(refusal("configuration", noNetworking), refusal("publickey", noNetworking))
		}
	}
}

func refusal(name, reason string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: reason, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return output.Usagef("%s", reason) },
	}
}

// refusedFlag is a flag of the reference that has one meaning here, or none.
type refusedFlag struct {
	// accepts are the values that change nothing; all others are refused.
	accepts []string
	reason  string
}

// String implements pflag.Value.
func (*refusedFlag) String() string { return "" }

// Type implements pflag.Value.
func (*refusedFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (f *refusedFlag) Set(value string) error {
	if slices.Contains(f.accepts, value) {
		return nil
	}
	return errors.New(f.reason)
}

// refusedFlags adds the flags of the reference's client that the commands do not have.
func refusedFlags(root *cobra.Command) {
	const ownMetadata = "objects get the labels and annotations that the clusters read; add others with kubectl label and kubectl annotate"
	const waits = "the command always waits: what is left of a peering would block the next step; run it in the background instead"
	both := []string{"true", "false"}
	addTo := func(set *pflag.FlagSet, names []string, flag refusedFlag) {
		for _, name := range names {
			set.Var(&flag, name, flag.reason)
			set.Lookup(name).Hidden = true
			if slices.Contains(flag.accepts, "true") || name == "in-band" {
				set.Lookup(name).NoOptDefVal = "true"
			}
		}
	}
	addTo(root.PersistentFlags(), []string{"global-labels", "global-annotations"}, refusedFlag{reason: ownMetadata})
	// Commands that ask before they act have a flag of this name.
	addTo(root.PersistentFlags(), []string{"skip-confirm"}, refusedFlag{accepts: both, reason: "it must be true or false"})
	add := func(path string, names []string, flag refusedFlag) {
		found, _, err := root.Find(strings.Fields(path))
		if err != nil {
			panic(err) // The paths are constant.
		}
		addTo(found.Flags(), names, flag)
	}
	add("peer", []string{
		"gw-server-service-location", "gw-server-service-type", "gw-server-service-port", "gw-server-service-nodeport", "gw-server-service-loadbalancerip",
		"gw-client-address", "gw-client-port", "mtu",
	}, refusedFlag{reason: noNetworking})
	add("peer", []string{"skip-validation"}, refusedFlag{accepts: both, reason: "it must be true or false"})
	add("version", []string{"client"}, refusedFlag{accepts: both, reason: "it must be true or false"})
	for _, path := range []string{"peer", "authenticate"} {
		add(path, []string{"in-band"}, refusedFlag{accepts: []string{"false"}, reason: noNetworking + "; set --proxy-url to a proxy that the consumer reaches"})
	}
	for _, path := range []string{"unpeer", "unauthenticate"} {
		add(path, []string{"wait"}, refusedFlag{accepts: []string{"true"}, reason: waits})
	}
	add("generate peering-user", []string{"tls-compatibility-mode"}, refusedFlag{
		accepts: []string{"auto", "false"}, reason: "the key of a peering user is always Ed25519",
	})
	copies := []string{"containers-cpu-requests", "containers-cpu-limits", "containers-ram-requests", "containers-ram-limits", "restic-image", "restic-server-image"}
	add("move volume", copies, refusedFlag{reason: "the volume is copied by Longshore's image without restic; set --image to use another one"})
}
