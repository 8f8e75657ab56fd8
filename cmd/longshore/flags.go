package main

import (
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/longshore-dev/longshore/host/app/process"
)

// processFlags are those of every process but the virtual kubelet, whose flags stand in
// VirtualNode templates on the wire.
func processFlags(f *pflag.FlagSet, o *process.Options) {
	o.Identity = process.PodIdentity(os.Getenv("POD_NAME"), os.Getenv("POD_UID"))
	f.StringVar(&o.ClusterID, "cluster-id", "", "identity of this cluster")
	f.StringVar(&o.Namespace, "liqo-namespace", "longshore", "Longshore's own namespace")
	f.StringVar(&o.MetricsAddress, "metrics-address", ":8082", "where metrics are served; 0 switches off")
	f.StringVar(&o.HealthProbeAddress, "health-probe-address", ":8081", "where health probes are answered; 0 switches off")
}

// electionFlag is that of a process of which one of several replicas works.
func electionFlag(f *pflag.FlagSet, elect *bool) {
	f.BoolVar(elect, "enable-leader-election", true, "elect one of several replicas")
}

// resyncFlag is that of a process with a replicator.
func resyncFlag(f *pflag.FlagSet, period *time.Duration) {
	f.DurationVar(period, "resync-period", 10*time.Hour, "how often the replicator compares all objects again")
}

// policyFlags are those of a process that asks policies.
func policyFlags(f *pflag.FlagSet, cacheDir, precompiledDir *string, namespaces, reportKeys *[]string) {
	f.StringVar(cacheDir, "policy-cache-dir", "", "folder that keeps compiled policies between starts")
	f.StringVar(precompiledDir, "precompiled-policy-dir", precompiledDirDefault, "folder of the image with the compiled built-in policies; where it is absent, or for another kind of processor, they are compiled")
	f.StringSliceVar(namespaces, "policy-namespace", nil, "namespaces beside Longshore's own whose ConfigMaps may hold modules of policies")
	f.StringArrayVar(reportKeys, "policy-report-key", nil, "public key, in PEM or the base64 of its DER: with any, modules need a conformance report that one of them verifies")
}
