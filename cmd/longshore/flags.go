package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/replicator"
	"github.com/longshore-dev/longshore/host/app/webhook"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/types"
)

func newLogger(text bool, verbosity int) logr.Logger {
	return zap.New(zap.UseDevMode(text), zap.Level(uberzap.NewAtomicLevelAt(zapcore.Level(-verbosity))))
}

// ownCluster reads KUBECONFIG or the in-cluster configuration. Client-side throttling is
// off: the API server's own priority and fairness decides.
func ownCluster() (*rest.Config, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the own cluster (KUBECONFIG, or a service account): %w", err)
	}
	config.QPS = -1
	return config, nil
}

func managerCommand() *cobra.Command {
	o := manager.Options{}
	cmd := &cobra.Command{
		Use: "manager", Short: "Run the controllers of both roles", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Config, err = ownCluster(); err != nil {
				return err
			}
			app, err := manager.New(o)
			if err != nil {
				return err
			}
			return app.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.ClusterID, "cluster-id", "", "identity of this cluster")
	f.StringVar(&o.Namespace, "liqo-namespace", "longshore", "Longshore's own namespace")
	f.StringVar(&o.MetricsAddress, "metrics-address", ":8082", "where metrics are served; 0 switches off")
	f.StringVar(&o.HealthProbeAddress, "health-probe-address", ":8081", "where health probes are answered; 0 switches off")
	f.BoolVar(&o.LeaderElection, "enable-leader-election", true, "elect one of several replicas")
	f.IntVar(&o.ShadowPodWorkers, "shadow-pod-ctrl-workers", 10, "ShadowPods worked on at once")
	return cmd
}

func replicatorCommand() *cobra.Command {
	o := replicator.Options{}
	cmd := &cobra.Command{
		Use: "replicator", Short: "Copy custom resources to the providers and their status back", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Config, err = ownCluster(); err != nil {
				return err
			}
			app, err := replicator.New(o)
			if err != nil {
				return err
			}
			return app.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.ClusterID, "cluster-id", "", "identity of this cluster")
	f.StringVar(&o.Namespace, "liqo-namespace", "longshore", "Longshore's own namespace")
	f.StringVar(&o.MetricsAddress, "metrics-address", ":8082", "where metrics are served; 0 switches off")
	f.StringVar(&o.HealthProbeAddress, "health-probe-address", ":8081", "where health probes are answered; 0 switches off")
	f.BoolVar(&o.LeaderElection, "enable-leader-election", true, "elect one of several replicas")
	f.DurationVar(&o.ResyncPeriod, "resync-period", 10*time.Hour, "how often everything is compared again")
	return cmd
}

// objectKey is a flag of the form namespace/name.
type objectKey struct{ key *client.ObjectKey }

// String implements pflag.Value.
func (k objectKey) String() string {
	if k.key == nil || k.key.Name == "" {
		return ""
	}
	return k.key.String()
}

// Set implements pflag.Value.
func (k objectKey) Set(value string) error {
	parsed, err := parseObjectKey(value)
	if err != nil {
		return err
	}
	*k.key = parsed
	return nil
}

// Type implements pflag.Value.
func (k objectKey) Type() string { return "namespace/name" }

func webhookCommand() *cobra.Command {
	o := webhook.Options{DefaultOptions: types.NamespacedName{Namespace: "longshore", Name: "virtual-kubelet-default"}}
	cmd := &cobra.Command{
		Use: "webhook", Short: "Serve the admission webhooks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Config, err = ownCluster(); err != nil {
				return err
			}
			o.PodName = os.Getenv("POD_NAME")
			app, err := webhook.New(cmd.Context(), o)
			if err != nil {
				return err
			}
			return app.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.ClusterID, "cluster-id", "", "identity of this cluster")
	f.StringVar(&o.Namespace, "liqo-namespace", "longshore", "Longshore's own namespace")
	f.StringVar(&o.BindAddress, "webhook-address", "", "address to listen on; empty means all")
	f.IntVar(&o.Port, "webhook-port", 9443, "port to listen on")
	f.DurationVar(&o.ShutdownDelay, "shutdown-delay", 5*time.Second, "how long to serve on when told to stop, while the Service's endpoints change")
	f.StringVar(&o.MetricsAddress, "metrics-address", ":8082", "where metrics are served; 0 switches off")
	f.StringVar(&o.HealthProbeAddress, "health-probe-address", ":8081", "where health probes are answered; 0 switches off")
	f.StringVar(&o.SecretName, "secret-name", "longshore-webhook-certs", "Secret with the serving certificate")
	f.StringVar(&o.ServiceName, "service-name", "longshore-webhook", "Service that the certificate is for")
	f.StringVar(&o.ConfigurationName, "configuration-name", "longshore-webhook", "webhook configurations whose caBundle is kept")
	f.StringSliceVar(&o.PodCIDRs, "podcidr", nil, "pod CIDRs of this cluster, handed to virtual kubelets as --local-podcidr (no effect: EndpointSlices are not reflected yet)")
	f.Var(objectKey{&o.DefaultOptions}, "vk-options-default-template", "VkOptionsTemplate of VirtualNodes that name none")
	f.StringVar(&o.RuntimeClassName, "liqo-runtime-class", "liqo", "runtime class that asks for a virtual node")
	f.StringVar(&o.PolicyCacheDir, "policy-cache-dir", "", "folder that keeps compiled policies between starts")
	f.StringSliceVar(&o.PolicyNamespaces, "policy-namespace", nil, "namespaces beside Longshore's own whose ConfigMaps may hold modules of policies")
	return cmd
}
