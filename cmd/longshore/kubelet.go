package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/policy/compiler"
)

// kubeletCommand accepts every flag of the reference's virtual kubelet, because
// VirtualNode templates of other clusters contain them.
func kubeletCommand() *cobra.Command {
	o := kubelet.DefaultOptions()
	var kubeconfig string
	workers, types := map[string]*uint{}, map[string]*string{}
	find := func() (*rest.Config, error) { return home(kubeconfig) }
	cmd := subcommand("kubelet", "Run one virtual node", find, func(cmd *cobra.Command, config *rest.Config) (app, error) {
		o.Config, o.Identity, o.PolicyCompiler = config, os.Getenv("POD_NAME"), compiler.Own()
		o.WithoutEffect = withoutEffect(cmd.Flags())
		for resource, n := range workers {
			o.ReflectionWorkers[resource] = int(*n)
		}
		for resource, name := range types {
			o.ReflectionTypes[resource] = *name
		}
		return kubelet.New(cmd.Context(), o)
	})
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "home-kubeconfig", "", "kubeconfig of this cluster; empty takes KUBECONFIG, or the service account")
	identityFlags(f, &o)
	nodeFlags(f, &o)
	networkFlags(f, &o)
	clientFlags(f, &o)
	klogFlags(f)
	for resource, n := range kubelet.Resources() {
		workers[resource] = f.Uint(resource+"-reflection-workers", uint(n), resource+" objects reflected at once; 0 switches the reflection off")
	}
	for _, resource := range kubelet.TypedResources() {
		types[resource] = f.String(resource+"-reflection-type", o.ReflectionTypes[resource], "DenyList (all but the skipped) or AllowList (only the allowed)")
	}
	f.VisitAll(func(flag *pflag.Flag) {
		if reason := kubelet.WithoutEffect(flag.Name); reason != "" {
			flag.Usage += " (no effect: " + reason + ")"
		}
	})
	return cmd
}

// withoutEffect lists the flags that were set and have no effect.
func withoutEffect(f *pflag.FlagSet) []string {
	var given []string
	f.Visit(func(flag *pflag.Flag) {
		if kubelet.WithoutEffect(flag.Name) != "" {
			given = append(given, "--"+flag.Name)
		}
	})
	return given
}

func home(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return ownCluster()
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading --home-kubeconfig: %w", err)
	}
	return config, nil
}

func identityFlags(f *pflag.FlagSet, o *kubelet.Options) {
	f.StringVar(&o.NodeName, "nodename", o.NodeName, "name of the virtual node")
	f.StringVar(&o.ForeignKubeconfigSecretName, "foreign-kubeconfig-secret-name", o.ForeignKubeconfigSecretName, "Secret in the tenant namespace with the provider's kubeconfig")
	f.StringVar(&o.NodeIP, "node-ip", "", "address of this process")
	f.StringVar(&o.TenantNamespace, "tenant-namespace", o.TenantNamespace, "tenant namespace of the provider")
	f.StringVar(&o.Namespace, "liqo-namespace", o.Namespace, "Longshore's own namespace")
	f.StringVar(&o.HomeClusterID, "home-cluster-id", "", "identity of this cluster")
	f.StringVar(&o.ForeignClusterID, "foreign-cluster-id", "", "identity of the provider")
	f.DurationVar(&o.ResyncPeriod, "resync-period", o.ResyncPeriod, "how often every object is decided again, spread over the period; what is as it should be costs no request; 0 is never")
	policyFlags(f, &o.PolicyCacheDir, &o.PrecompiledPolicyDir, &o.PolicyNamespaces, &o.PolicyReportKeys)
	f.StringSliceVar(&o.SecretTypesNotReflected, "secret-types-not-reflected", o.SecretTypesNotReflected, "types of Secrets that are not reflected, beside the tokens of service accounts")
	f.BoolVar(&o.EnableAPIServerSupport, "enable-apiserver-support", o.EnableAPIServerSupport, "let offloaded pods reach this cluster's API server")
	f.BoolVar(&o.SendAudienceTokens, "send-audience-tokens", false, "send offloaded pods the tokens that they project for other audiences than the API server, also where they do not reach it")
	f.StringVar(&o.HomeAPIServerHost, "home-api-server-host", "", "host under which offloaded pods reach this cluster's API server")
	f.StringVar(&o.HomeAPIServerPort, "home-api-server-port", "", "port of --home-api-server-host")
	f.BoolVar(&o.EnableStorage, "enable-storage", o.EnableStorage, "reflect volume claims")
	f.StringVar(&o.RemoteRealStorageClassName, "remote-real-storage-class-name", o.RemoteRealStorageClassName, "storage class on the provider")
	f.BoolVar(&o.EnableIngress, "enable-ingress", o.EnableIngress, "set the ingress class of reflected Ingresses")
	f.StringVar(&o.RemoteRealIngressClassName, "remote-real-ingress-class-name", o.RemoteRealIngressClassName, "ingress class on the provider")
	f.BoolVar(&o.EnableLoadBalancer, "enable-load-balancer", o.EnableLoadBalancer, "set the load balancer class of reflected Services")
	f.StringVar(&o.RemoteRealLoadBalancerClassName, "remote-real-load-balancer-class-name", o.RemoteRealLoadBalancerClassName, "load balancer class on the provider")
	f.StringVar(&o.VirtualStorageClassName, "virtual-storage-class-name", o.VirtualStorageClassName, "storage class whose ephemeral volumes are claims of the provider; for other claims the provisioner of the class decides")
}

func nodeFlags(f *pflag.FlagSet, o *kubelet.Options) {
	f.BoolVar(&o.CreateNode, "create-node", o.CreateNode, "create the Node")
	f.BoolVar(&o.NodeCheckNetwork, "node-check-network", o.NodeCheckNetwork, "let the network's state decide about readiness")
	f.StringToStringVar(&o.NodeExtraAnnotations, "node-extra-annotations", nil, "further annotations of the Node")
	f.StringToStringVar(&o.NodeExtraLabels, "node-extra-labels", nil, "further labels of the Node")
	f.StringVar(&o.CertificateType, "certificate-type", o.CertificateType, "signer of the serving certificate: kubelet, aws or self-signed")
	f.StringVar(&o.KubeletClientCAFile, "kubelet-client-ca-file", "", "authority of the kubelet API's clients; empty takes this cluster's own")
	f.IntVar(&o.ListenPort, "listen-port", o.ListenPort, "port of the kubelet API")
	f.IntVar(&o.HealthPort, "health-port", o.HealthPort, "port of --node-ip where /healthz and /readyz are served, over HTTP; 0 serves neither")
	f.BoolVar(&o.EnableProfiling, "enable-profiling", false, "serve pprof beside the metrics")
	f.DurationVar(&o.NodeLeaseDuration, "node-lease-duration", o.NodeLeaseDuration, "duration of the Node's lease")
	f.DurationVar(&o.NodePingInterval, "node-ping-interval", o.NodePingInterval, "how often the provider is asked whether it lives; 0 switches off")
	f.DurationVar(&o.NodePingTimeout, "node-ping-timeout", o.NodePingTimeout, "how long the provider may take to answer")
	f.BoolVar(&o.MetricsEnabled, "metrics-enabled", false, "serve metrics")
	f.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress, "where metrics are served")
	f.BoolVar(&o.VKLeaseEnabled, "vk-lease-enabled", o.VKLeaseEnabled, "elect one of this node's replicas to work, and one of the provider's virtual kubelets to reflect what they share; without, each does all")
	f.DurationVar(&o.VKLeaseDuration, "vk-lease-duration", o.VKLeaseDuration, "how long the others wait for one that does not renew its lease")
	f.DurationVar(&o.VKLeaseRenewInterval, "vk-lease-renew-interval", o.VKLeaseRenewInterval, "how long the elected tries to renew a lease before giving up")
	f.DurationVar(&o.VKLeaseRetryPeriod, "vk-lease-retry-period", o.VKLeaseRetryPeriod, "how often a lease is renewed, or asked for by the others")
}

func networkFlags(f *pflag.FlagSet, o *kubelet.Options) {
	f.BoolVar(&o.DisableIPReflection, "disable-ip-reflection", false, "leave addresses out of the local pods' status")
	f.StringSliceVar(&o.LocalPodCIDRs, "local-podcidr", nil, "pod CIDRs of this cluster")
	f.StringSliceVar(&o.RemotePodCIDRs, "remote-pod-cidr", nil, "pod CIDRs of the provider, as it sees them")
	f.StringSliceVar(&o.RemotePodCIDRRemaps, "remote-pod-cidr-remap", nil, "pod CIDRs of the provider, as this cluster sees them")
	f.StringSliceVar(&o.RemoteExternalCIDRs, "remote-external-cidr", nil, "external CIDRs of the provider, as it sees them")
	f.StringSliceVar(&o.RemoteExternalCIDRRemap, "remote-external-cidr-remap", nil, "external CIDRs of the provider, as this cluster sees them")
}

func clientFlags(f *pflag.FlagSet, o *kubelet.Options) {
	f.DurationVar(&o.ClientTimeout, "client-timeout", o.ClientTimeout, "how long a request may take, but for watches and streams; 0 means one minute")
	f.IntVar(&o.ClientQPS, "client-qps", o.ClientQPS, "requests per second to each cluster; 0 leaves it to the API server")
	f.IntVar(&o.ClientMaxBurst, "client-max-burst", o.ClientMaxBurst, "requests at once to each cluster")
}

// klogFlags accepts the flags of the Kubernetes libraries under their prefix. Where their
// lines go is decided for the process as a whole, so of these flags only the verbosity
// has an effect.
func klogFlags(f *pflag.FlagSet) {
	plain := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(plain)
	plain.VisitAll(func(fl *flag.Flag) {
		prefixed := *fl
		prefixed.Name = "klog." + fl.Name
		if fl.Name != "v" && fl.Name != "vmodule" {
			prefixed.Usage += " (no effect: lines go where those of the process go)"
		}
		f.AddGoFlag(&prefixed)
	})
}
