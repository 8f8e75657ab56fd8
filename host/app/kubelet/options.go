package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/vkflag"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policysource/report"
)

// CertificateType selects the signer of the kubelet API's serving certificate.
type CertificateType string

// The certificate types.
const (
	CertificateKubelet    CertificateType = "kubelet"
	CertificateAWS        CertificateType = "aws"
	CertificateSelfSigned CertificateType = "self-signed"
)

// Resources returns the default of each flag --<resource>-reflection-workers : more
// than Liqo has, but for endpointslice.
func Resources() map[string]int {
	return map[string]int{
		"pod": 20, "endpointslice": 10, "service": 10, "ingress": 10, "configmap": 10, "secret": 10,
		"serviceaccount": 10, "persistentvolumeclaim": 10, "event": 10,
	}
}

// TypedResources returns the resources with a flag --<resource>-reflection-type.
func TypedResources() []string {
	return []string{"service", "ingress", "configmap", "secret", "event"}
}

// Options configure an [App]. Their names follow the flags of Liqo, all of which are
// accepted, because VirtualNode templates contain them.
type Options struct {
	// Config reaches the consumer's API server.
	Config *rest.Config
	// Identity is this replica's identity in leases; empty uses the host name.
	Identity string
	// PolicyCacheDir is the compilation cache of policies; empty disables it.
	PolicyCacheDir string
	// PrecompiledPolicyDir holds the compiled built-in policies; it may be absent.
	PrecompiledPolicyDir string
	// PolicyCompiler compiles the modules of policies in another process; nil compiles them in
	// this process without a limit.
	PolicyCompiler engine.Compiler
	// PolicyNamespaces are further namespaces whose ConfigMaps may contain modules of policies.
	PolicyNamespaces []string
	// PolicyReportKeys are the public keys of the conformance reports that modules need; none if they
	// need no report.
	PolicyReportKeys []string
	// WithoutEffect are the given arguments that are not implemented yet; they are logged.
	WithoutEffect []string
	// KubeletClientCAFile verifies clients of the kubelet API; empty uses the consumer's
	// certificate authority.
	KubeletClientCAFile string

	ForeignKubeconfigSecretName string
	NodeName                    string
	NodeIP                      string
	TenantNamespace             string
	Namespace                   string
	HomeClusterID               string
	ForeignClusterID            string
	ResyncPeriod                time.Duration
	DisableIPReflection         bool
	LocalPodCIDRs               []string
	CertificateType             string
	ListenPort                  int
	// HealthPort serves /healthz and /readyz on NodeIP over HTTP; 0 disables it.
	HealthPort      int
	EnableProfiling bool

	// ReflectionWorkers and ReflectionTypes have resources as keys.
	ReflectionWorkers map[string]int
	ReflectionTypes   map[string]string
	// SecretTypesNotReflected are the types of Secrets that stay in the consumer.
	SecretTypesNotReflected []string

	CreateNode           bool
	NodeLeaseDuration    time.Duration
	NodePingInterval     time.Duration
	NodePingTimeout      time.Duration
	NodeCheckNetwork     bool
	NodeExtraAnnotations map[string]string
	NodeExtraLabels      map[string]string

	EnableAPIServerSupport          bool
	SendAudienceTokens              bool
	EnableStorage                   bool
	VirtualStorageClassName         string
	RemoteRealStorageClassName      string
	EnableIngress                   bool
	RemoteRealIngressClassName      string
	EnableLoadBalancer              bool
	RemoteRealLoadBalancerClassName string

	MetricsEnabled bool
	MetricsAddress string

	HomeAPIServerHost       string
	HomeAPIServerPort       string
	RemotePodCIDRs          []string
	RemotePodCIDRRemaps     []string
	RemoteExternalCIDRs     []string
	RemoteExternalCIDRRemap []string

	VKLeaseEnabled       bool
	VKLeaseDuration      time.Duration
	VKLeaseRenewInterval time.Duration
	VKLeaseRetryPeriod   time.Duration

	// ClientTimeout bounds each request except watches and streams; 0 means deadline.Default.
	ClientTimeout time.Duration
	// ClientQPS and ClientMaxBurst limit the requests to each cluster; without ClientQPS, only
	// the API server limits them.
	ClientQPS      int
	ClientMaxBurst int
}

// DefaultOptions returns the defaults of the flags.
func DefaultOptions() Options {
	types := map[string]string{}
	for _, resource := range TypedResources() {
		types[resource] = string(offloadingv1beta1.DenyList)
	}
	return Options{
		NodeName: "virtual-kubelet", TenantNamespace: "default", Namespace: "liqo", ResyncPeriod: 10 * time.Hour,
		CertificateType: string(CertificateKubelet), ListenPort: 10250,
		ReflectionWorkers: Resources(), ReflectionTypes: types,
		SecretTypesNotReflected: remote.WithheldSecretTypes(),
		CreateNode:              true, NodeLeaseDuration: 40 * time.Second, NodePingInterval: 10 * time.Second,
		NodePingTimeout: time.Second, NodeCheckNetwork: true,
		VirtualStorageClassName: "liqo", MetricsAddress: ":8082",
		VKLeaseEnabled: true, VKLeaseDuration: 15 * time.Second, VKLeaseRenewInterval: 10 * time.Second,
		VKLeaseRetryPeriod: 5 * time.Second, ClientMaxBurst: 100,
	}
}

// component returns the identity of the virtual kubelet in reports.
func (o *Options) component(reader client.Reader) report.Identity {
	return policies.OfVirtualNode(reader, client.ObjectKey{Namespace: o.TenantNamespace, Name: o.NodeName})
}

// identity returns the identity of this replica in leases: the name of its pod, so that a container that
// is started again takes its leases at once. Two pods of a Deployment never have one name at a time, a
// later one gets another random name, and the kubelet starts a container after its previous instance ended.
func (o *Options) identity() (string, error) {
	if o.Identity != "" {
		return o.Identity, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("finding an identity for the lease (POD_NAME is not set): %w", err)
	}
	return host + "-" + strconv.Itoa(os.Getpid()), nil
}

// withRate returns a copy of a configuration with the limits of --client-qps and --client-max-burst.
func (o *Options) withRate(config *rest.Config) *rest.Config {
	limited := rest.CopyConfig(config)
	limited.QPS, limited.Burst = -1, 0
	if o.ClientQPS > 0 {
		limited.QPS, limited.Burst = float32(o.ClientQPS), o.ClientMaxBurst
	}
	limited.UserAgent = "longshore-virtual-kubelet/" + o.NodeName
	return limited
}

var clusterID = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Validate returns all errors of the options, with the flags to correct.
func (o *Options) Validate() error {
	errs := []error{o.validateNames(), o.validateNode(), o.validateReflection(), o.validateLease(), o.validateNetworks()}
	if o.Config == nil {
		errs = append(errs, errors.New("the consumer's kubeconfig is missing: set --home-kubeconfig or KUBECONFIG, or run in a pod"))
	}
	if o.ClientTimeout < 0 || o.ClientQPS < 0 || o.ClientMaxBurst < 0 {
		errs = append(errs, errors.New("--client-timeout, --client-qps and --client-max-burst must not be negative"))
	}
	return errors.Join(errs...)
}

func (o *Options) validateNames() error {
	var errs []error
	for flag, id := range map[string]string{"--home-cluster-id": o.HomeClusterID, "--foreign-cluster-id": o.ForeignClusterID} {
		if id == "" {
			errs = append(errs, fmt.Errorf("%s is required", flag))
		} else if !clusterID.MatchString(id) {
			errs = append(errs, fmt.Errorf("invalid %s %q: a cluster ID consists of lower-case letters, digits and dashes", flag, id))
		}
	}
	if o.HomeClusterID != "" && o.HomeClusterID == o.ForeignClusterID {
		errs = append(errs, fmt.Errorf("--home-cluster-id and --foreign-cluster-id are both %q: a cluster cannot offload to itself", o.HomeClusterID))
	}
	if o.ForeignKubeconfigSecretName == "" {
		errs = append(errs, errors.New("--foreign-kubeconfig-secret-name is required: set spec.kubeconfigSecretRef of the VirtualNode"))
	}
	for _, problem := range utilvalidation.IsDNS1123Subdomain(o.NodeName) {
		errs = append(errs, fmt.Errorf("invalid --nodename %q: %s", o.NodeName, problem))
	}
	for flag, namespace := range map[string]string{"--tenant-namespace": o.TenantNamespace, "--liqo-namespace": o.Namespace} {
		for _, problem := range validation.ValidateNamespaceName(namespace, false) {
			errs = append(errs, fmt.Errorf("invalid %s %q: %s", flag, namespace, problem))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) validateNode() error {
	var errs []error
	if net.ParseIP(o.NodeIP) == nil {
		errs = append(errs, fmt.Errorf("invalid --node-ip %q: must be the IP address on which the virtual kubelet listens", o.NodeIP))
	}
	if o.ListenPort < 1 || o.ListenPort > 65535 {
		errs = append(errs, fmt.Errorf("invalid --listen-port %d: must be between 1 and 65535", o.ListenPort))
	}
	if o.HealthPort < 0 || o.HealthPort > 65535 || o.HealthPort == o.ListenPort {
		errs = append(errs, fmt.Errorf("invalid --health-port %d: must be between 1 and 65535 and differ from --listen-port, or be 0", o.HealthPort))
	}
	if !slices.Contains([]CertificateType{CertificateKubelet, CertificateAWS, CertificateSelfSigned}, CertificateType(o.CertificateType)) {
		errs = append(errs, fmt.Errorf("invalid --certificate-type %q: must be %s, %s or %s", o.CertificateType, CertificateKubelet, CertificateAWS, CertificateSelfSigned))
	}
	if o.NodeLeaseDuration < 4*time.Second {
		errs = append(errs, fmt.Errorf("invalid --node-lease-duration %s: must be at least 4s", o.NodeLeaseDuration))
	}
	if o.NodePingInterval < 0 {
		errs = append(errs, fmt.Errorf("invalid --node-ping-interval %s: must not be negative; 0 disables the ping", o.NodePingInterval))
	}
	if o.NodePingInterval > 0 && o.NodePingTimeout <= 0 {
		errs = append(errs, fmt.Errorf("invalid --node-ping-timeout %s: must be positive", o.NodePingTimeout))
	}
	for flag, pairs := range map[string]map[string]string{"--node-extra-labels": o.NodeExtraLabels, "--node-extra-annotations": o.NodeExtraAnnotations} {
		for key := range pairs {
			for _, problem := range utilvalidation.IsQualifiedName(key) {
				errs = append(errs, fmt.Errorf("invalid key %[2]q of %[1]s: %[3]s", flag, key, problem))
			}
		}
	}
	return errors.Join(errs...)
}

func (o *Options) validateReflection() error {
	var errs []error
	for _, resource := range slices.Sorted(maps.Keys(o.ReflectionWorkers)) {
		if workers := o.ReflectionWorkers[resource]; workers < 0 {
			errs = append(errs, fmt.Errorf("invalid --%s-reflection-workers %d: must not be negative; 0 disables the reflection", resource, workers))
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(o.ReflectionTypes)) {
		value := offloadingv1beta1.ReflectionType(o.ReflectionTypes[resource])
		if value != offloadingv1beta1.AllowList && value != offloadingv1beta1.DenyList {
			errs = append(errs, fmt.Errorf("invalid --%s-reflection-type %q: must be %s or %s", resource, value, offloadingv1beta1.DenyList, offloadingv1beta1.AllowList))
		}
	}
	if err := policies.ValidateNamespaces(o.PolicyNamespaces); err != nil {
		errs = append(errs, err)
	}
	if err := policies.ValidateReportKeys(o.PolicyReportKeys); err != nil {
		errs = append(errs, err)
	}
	if o.ResyncPeriod < 0 {
		errs = append(errs, fmt.Errorf("invalid --resync-period %s: must not be negative", o.ResyncPeriod))
	}
	if (o.HomeAPIServerHost == "") != (o.HomeAPIServerPort == "") {
		errs = append(errs, errors.New("--home-api-server-host and --home-api-server-port must be set together"))
	}
	if o.HomeAPIServerPort != "" {
		if port, err := strconv.ParseUint(o.HomeAPIServerPort, 10, 16); err != nil || port == 0 {
			errs = append(errs, fmt.Errorf("invalid --home-api-server-port %q: must be between 1 and 65535", o.HomeAPIServerPort))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) validateLease() error {
	if !o.VKLeaseEnabled {
		return nil
	}
	switch {
	case o.VKLeaseRetryPeriod <= 0:
		return fmt.Errorf("invalid --vk-lease-retry-period %s: must be positive", o.VKLeaseRetryPeriod)
	case float64(o.VKLeaseRenewInterval) <= 1.2*float64(o.VKLeaseRetryPeriod):
		return fmt.Errorf("invalid --vk-lease-renew-interval %s: must be more than 1.2 times --vk-lease-retry-period, %s", o.VKLeaseRenewInterval, o.VKLeaseRetryPeriod)
	case o.VKLeaseDuration <= o.VKLeaseRenewInterval:
		return fmt.Errorf("invalid --vk-lease-duration %s: must be longer than --vk-lease-renew-interval, %s", o.VKLeaseDuration, o.VKLeaseRenewInterval)
	}
	return nil
}

func (o *Options) validateNetworks() error {
	var errs []error
	for flag, cidrs := range map[string][]string{
		"--local-podcidr": o.LocalPodCIDRs, "--remote-pod-cidr": o.RemotePodCIDRs, "--remote-pod-cidr-remap": o.RemotePodCIDRRemaps,
		"--remote-external-cidr": o.RemoteExternalCIDRs, "--remote-external-cidr-remap": o.RemoteExternalCIDRRemap,
	} {
		for _, cidr := range cidrs {
			if _, _, err := net.ParseCIDR(cidr); err != nil {
				errs = append(errs, fmt.Errorf("invalid CIDR %[2]q in %[1]s", flag, cidr))
			}
		}
	}
	if len(o.RemotePodCIDRs) != len(o.RemotePodCIDRRemaps) {
		errs = append(errs, fmt.Errorf("--remote-pod-cidr and --remote-pod-cidr-remap must have the same number of values: got %d and %d", len(o.RemotePodCIDRs), len(o.RemotePodCIDRRemaps)))
	}
	if len(o.RemoteExternalCIDRs) != len(o.RemoteExternalCIDRRemap) {
		errs = append(errs, fmt.Errorf("--remote-external-cidr and --remote-external-cidr-remap must have the same number of values: got %d and %d", len(o.RemoteExternalCIDRs), len(o.RemoteExternalCIDRRemap)))
	}
	return errors.Join(errs...)
}

// WithoutEffect returns why a flag, named without dashes, has no effect; empty if it has one.
func WithoutEffect(flag string) string { return vkflag.WithoutEffect(flag) }
