package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/longshore-dev/longshore/host/app/check"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/replicator"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/app/uninstall"
	"github.com/longshore-dev/longshore/host/app/webhook"
	"github.com/longshore-dev/longshore/host/policy/compiler"
)

// defaultOptions is the VkOptionsTemplate of the chart.
var defaultOptions = types.NamespacedName{Namespace: "longshore", Name: "virtual-kubelet-default"}

// app is a composed process.
type app interface {
	Run(ctx context.Context) error
}

// subcommand returns a command that finds its cluster, composes a process and runs it until
// a signal.
func subcommand(use, short string, find func() (*rest.Config, error), compose func(*cobra.Command, *rest.Config) (app, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := find()
			if err != nil {
				return err
			}
			composed, err := compose(cmd, config)
			if err != nil {
				return err
			}
			return composed.Run(cmd.Context())
		},
	}
}

// ownCluster reads KUBECONFIG, the in-cluster configuration, or the user's own file, in this
// order. Client-side throttling is off: the API server's own priority and fairness decides.
func ownCluster() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" || errors.Is(err, rest.ErrNotInCluster) {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	}
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("not a pod with a service account, and no kubeconfig names a cluster: set KUBECONFIG to a file")
	}
	if err != nil {
		return nil, fmt.Errorf("finding the own cluster (KUBECONFIG, or a service account): %w", err)
	}
	config.QPS = -1
	return config, nil
}

// ownClient returns a client of the own cluster that knows the kinds of Longshore.
func ownClient() (client.Client, error) {
	config, err := ownCluster()
	if err != nil {
		return nil, err
	}
	kinds, err := scheme.New()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: kinds})
	if err != nil {
		return nil, fmt.Errorf("creating a client of the own cluster: %w", err)
	}
	return c, nil
}

func managerCommand() *cobra.Command {
	o := manager.Options{DefaultVkOptions: defaultOptions}
	cmd := subcommand("manager", "Run the controllers of both roles", ownCluster, func(_ *cobra.Command, config *rest.Config) (app, error) {
		o.Config, o.PodName, o.Policies.Compiler, o.Policies.Metrics = config, os.Getenv("POD_NAME"), compiler.Own(), metrics.Registry
		return manager.New(o)
	})
	f := cmd.Flags()
	processFlags(f, &o.Options)
	electionFlag(f, &o.LeaderElection)
	f.IntVar(&o.ShadowPodWorkers, "shadow-pod-ctrl-workers", 10, "ShadowPods worked on at once")
	f.IntVar(&o.ShadowEndpointSliceWorkers, "shadow-endpointslice-ctrl-workers", 10, "ShadowEndpointSlices worked on at once")
	f.StringVar(&o.PodSecurityLevel, "pod-security-level", "baseline", "Pod Security level of the pods of consumers: privileged, baseline or restricted; a namespace's label pod-security.kubernetes.io/enforce takes precedence")
	f.BoolVar(&o.NodeFailure, "enable-node-failure-controller", false, "delete terminating pods of consumers on nodes that are not ready without their kubelet's confirmation, so that they are created on other nodes")
	f.StringSliceVar(&o.ReservedNamespaces, "reserved-namespaces", nil, "patterns of names that consumers do not get for namespaces, such as istio-*; names that end in their own cluster ID are excepted")
	f.StringVar(&o.ConsumerLimits, "consumer-limits", "", "what a consumer has in this cluster beside its pods: JSON with namespaces, their number, perNamespace, the ResourceQuota of each of them, tenantNamespace, that of its tenant namespace, and perConsumer, the largest sums of these ResourceQuotas; empty for no limits")
	f.Var(objectKey{&o.DefaultVkOptions}, "vk-options-default-template", "VkOptionsTemplate of VirtualNodes that name none; virtual kubelets with its image follow it")
	f.StringVar(&o.KubeletNetworkPolicy, "vk-network-policy", "", "give virtual kubelets NetworkPolicies that allow the kubelet API and the metrics: JSON with metricsFrom, the peers that may read the metrics, and egress, the egress rules; {} restricts neither")
	f.BoolVar(&o.Replication, "enable-replication", true, "run the replicator in this process; switch it off where the replicator runs alone")
	resyncFlag(f, &o.ResyncPeriod)
	f.DurationVar(&o.PingInterval, "foreign-cluster-ping-interval", 15*time.Second, "pause between probes of a provider's API server; 0 switches them off")
	f.DurationVar(&o.PingTimeout, "foreign-cluster-ping-timeout", 5*time.Second, "timeout of a probe of a provider's API server")
	f.StringVar(&o.Peering.APIServerAddress, "api-server-address-override", "", "address, host:port or URL, at which peers reach the API server; empty means that of the first control-plane node")
	f.BoolVar(&o.Peering.TrustedCA, "trusted-ca", false, "a certificate authority that every system trusts signed the API server's certificate: peers get none")
	f.StringToStringVar(&o.Peering.ClusterLabels, "cluster-labels", nil, "labels of the virtual nodes that consumers make of this cluster")
	f.BoolVar(&o.Peering.DefaultClassEnabled, "default-resource-slice-class-enabled", true, "grant the resources that ResourceSlices of the default class ask for")
	f.StringToStringVar(&o.Peering.DefaultNodeResources, "default-node-resources", nil, "resources granted to ResourceSlices that do not name them; cpu=4, memory=8Gi, pods=110 and ephemeral-storage=20Gi when absent")
	f.StringVar(&o.Peering.LimitsEnforcement, "default-limits-enforcement", "None", "requests and limits that Quotas demand of the containers of consumers: None, Soft (requests of cpu and memory) or Hard (limits equal to requests, too)")
	f.BoolVar(&o.Storage.Enabled, "enable-storage", false, "provision the volumes of claims whose storage class has the provisioner liqo.io/storage, and offer the storage classes of this cluster to consumers")
	f.StringVar(&o.Storage.RealClass, "real-storage-class-name", "", "storage class of volumes in this cluster, and the default one that consumers get; empty means the default class")
	f.StringVar(&o.Storage.Namespace, "storage-namespace", "liqo-storage", "namespace of the claims behind volumes in this cluster")
	f.BoolVar(&o.Network.Enabled, "enable-ipam", false, "allocate the CIDRs of Networks and the addresses of IPs, and complete the Configurations of peers")
	f.StringSliceVar(&o.Network.Pools, "ipam-pools", []string{"10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12"}, "networks that CIDRs are allocated from")
	policyFlags(f, &o.Policies.CacheDir, &o.Policies.PrecompiledDir, &o.Policies.Namespaces, &o.Policies.ReportKeys)
	return cmd
}

func replicatorCommand() *cobra.Command {
	o := replicator.Options{}
	cmd := subcommand("replicator", "Copy custom resources to the providers and their status back, apart from the manager", ownCluster, func(_ *cobra.Command, config *rest.Config) (app, error) {
		o.Config = config
		return replicator.New(o)
	})
	f := cmd.Flags()
	processFlags(f, &o.Options)
	electionFlag(f, &o.LeaderElection)
	resyncFlag(f, &o.ResyncPeriod)
	return cmd
}

func webhookCommand() *cobra.Command {
	o := webhook.Options{DefaultOptions: defaultOptions}
	cmd := subcommand("webhook", "Serve the admission webhooks", ownCluster, func(cmd *cobra.Command, config *rest.Config) (app, error) {
		o.Config, o.PodName, o.PolicyCompiler = config, os.Getenv("POD_NAME"), compiler.Own()
		return webhook.New(cmd.Context(), o)
	})
	f := cmd.Flags()
	processFlags(f, &o.Options)
	f.StringVar(&o.BindAddress, "webhook-address", "", "address to listen on; empty means all")
	f.IntVar(&o.Port, "webhook-port", 9443, "port to listen on")
	f.DurationVar(&o.ShutdownDelay, "shutdown-delay", 5*time.Second, "how long to keep serving after the signal to stop, while the endpoints of the Service change")
	f.BoolVar(&o.ResourceEnforcement, "enable-resource-enforcement", true, "restrict the ShadowPods of consumers to their Quotas")
	f.StringSliceVar(&o.Allowed.PriorityClasses, "consumer-priority-classes", nil, "PriorityClasses that consumers may choose for their pods, * for all; empty means none, so that their pods get the default of the cluster")
	f.StringSliceVar(&o.Allowed.Schedulers, "consumer-schedulers", nil, "schedulers beside the default one that consumers may choose for their pods, * for all")
	f.StringVar(&o.SecretName, "secret-name", "longshore-webhook-certs", "Secret with the serving certificate")
	f.BoolVar(&o.ExternalCertificate, "external-certificate", false, "another controller, such as cert-manager, keeps the serving certificate in the Secret, with its authority under the key ca.crt")
	f.StringVar(&o.PriorityClassName, "vk-priority-class", "", "priority class of the pods of virtual kubelets")
	f.StringToStringVar(&o.NodeSelector, "vk-node-selector", nil, "labels of the nodes of virtual kubelets' pods, KEY=VALUE")
	f.StringVar(&o.Affinity, "vk-affinity", "", "affinity of virtual kubelets' pods, JSON as in a pod")
	f.StringVar(&o.ServiceName, "service-name", "longshore-webhook", "Service that the certificate is for")
	f.StringVar(&o.ConfigurationName, "configuration-name", "longshore-webhook", "webhook configurations whose caBundle is kept")
	f.StringSliceVar(&o.PodCIDRs, "podcidr", nil, "pod CIDRs of this cluster, handed to virtual kubelets as --local-podcidr; their addresses are not translated for providers")
	f.Var(objectKey{&o.DefaultOptions}, "vk-options-default-template", "VkOptionsTemplate of VirtualNodes that name none")
	f.StringVar(&o.RuntimeClassName, "liqo-runtime-class", "liqo", "runtime class that asks for a virtual node")
	policyFlags(f, &o.PolicyCacheDir, &o.PrecompiledPolicyDir, &o.PolicyNamespaces, &o.PolicyReportKeys)
	return cmd
}

// uninstallCommand is what the chart's pre-delete hook runs.
func uninstallCommand() *cobra.Command {
	o := uninstall.Options{PollInterval: time.Second}
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Withdraw what Longshore runs elsewhere, before its components are removed", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Client, err = ownClient(); err != nil {
				return err
			}
			o.Out = cmd.OutOrStdout()
			if err := uninstall.Run(cmd.Context(), o); err != nil {
				return fmt.Errorf("withdrawing from the cluster: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&o.StageTimeout, "stage-timeout", time.Minute, "how long each stage waits for the components, before it removes their finalizers")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 4*time.Minute, "how long all stages wait together")
	return cmd
}

// checkCommand is what the chart's `helm test` runs.
func checkCommand() *cobra.Command {
	o := check.Options{PollInterval: time.Second}
	cmd := &cobra.Command{
		Use: "check", Short: "Check that the API server reaches the webhook and that all policies are ready", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Client, err = ownClient(); err != nil {
				return err
			}
			o.Out = cmd.OutOrStdout()
			if err := check.Run(cmd.Context(), o); err != nil {
				return fmt.Errorf("checking the installation: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Namespace, "liqo-namespace", "longshore", "Longshore's own namespace")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", time.Minute, "how long a check may fail until it counts")
	return cmd
}
