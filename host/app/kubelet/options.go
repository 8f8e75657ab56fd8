package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/kit/vkflag"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

// CertificateType says who signs the certificate of the kubelet API.
type CertificateType string

// The certificate types (wire 3.12).
const (
	CertificateKubelet    CertificateType = "kubelet"
	CertificateAWS        CertificateType = "aws"
	CertificateSelfSigned CertificateType = "self-signed"
)

// Resources lists the kinds that flags --<resource>-reflection-workers exist for, with
// their defaults (wire 7.1, but for pods: deviations).
func Resources() map[string]int {
	return map[string]int{
		"pod": 20, "endpointslice": 10, "service": 3, "ingress": 3, "configmap": 3, "secret": 3,
		"serviceaccount": 3, "persistentvolumeclaim": 3, "event": 3,
	}
}

// TypedResources lists the kinds that flags --<resource>-reflection-type exist for.
func TypedResources() []string {
	return []string{"service", "ingress", "configmap", "secret", "event"}
}

// Options configures an App. The names are those of the flags of wire 7.1,
// which stand in VirtualNode templates; all of them are accepted.
type Options struct {
	// Config reaches the consumer's API server.
	Config *rest.Config
	// Identity is this replica's name in the lease; empty takes the host's.
	Identity string
	// PolicyCacheDir keeps compiled policies between starts; empty keeps none.
	PolicyCacheDir string
	// PolicyCompiler compiles the modules of policies outside of this process; nil compiles
	// them in it, without a limit.
	PolicyCompiler engine.Compiler
	// PolicyNamespaces are the namespaces beside Namespace whose ConfigMaps may hold
	// modules of policies.
	PolicyNamespaces []string
	// WithoutEffect are the arguments that were given and change nothing yet: they are told
	// in the log, so that nobody looks for their effect in vain.
	WithoutEffect []string
	// KubeletClientCAFile verifies clients of the kubelet API; empty takes the
	// consumer's own authority.
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
	// HealthPort is where NodeIP serves /healthz and /readyz, over HTTP; 0 serves neither.
	HealthPort      int
	EnableProfiling bool

	// ReflectionWorkers and ReflectionTypes are by resource.
	ReflectionWorkers map[string]int
	ReflectionTypes   map[string]string

	CreateNode           bool
	NodeLeaseDuration    time.Duration
	NodePingInterval     time.Duration
	NodePingTimeout      time.Duration
	NodeCheckNetwork     bool
	NodeExtraAnnotations map[string]string
	NodeExtraLabels      map[string]string

	EnableAPIServerSupport          bool
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

	// ClientTimeout bounds each request but watches and streams; 0 means deadline.Default.
	ClientTimeout time.Duration
	// ClientQPS and ClientMaxBurst bound the requests to each cluster; no QPS means no
	// bound: the API server's priority and fairness decides.
	ClientQPS      int
	ClientMaxBurst int
}

// DefaultOptions returns the defaults of wire 7.1.
func DefaultOptions() Options {
	types := map[string]string{}
	for _, resource := range TypedResources() {
		types[resource] = string(offloadingv1beta1.DenyList)
	}
	return Options{
		NodeName: "virtual-kubelet", TenantNamespace: "default", Namespace: "liqo", ResyncPeriod: 10 * time.Hour,
		CertificateType: string(CertificateKubelet), ListenPort: 10250,
		ReflectionWorkers: Resources(), ReflectionTypes: types,
		CreateNode: true, NodeLeaseDuration: 40 * time.Second, NodePingInterval: 10 * time.Second,
		NodePingTimeout: time.Second, NodeCheckNetwork: true,
		VirtualStorageClassName: "liqo", MetricsAddress: ":8082",
		VKLeaseEnabled: true, VKLeaseDuration: 15 * time.Second, VKLeaseRenewInterval: 10 * time.Second,
		VKLeaseRetryPeriod: 5 * time.Second, ClientMaxBurst: 100,
	}
}

var clusterID = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Validate says what is wrong with the options, all of it.
func (o *Options) Validate() error {
	errs := []error{o.validateNames(), o.validateNode(), o.validateReflection(), o.validateLease(), o.validateNetworks()}
	if o.Config == nil {
		errs = append(errs, errors.New("the consumer's kubeconfig is missing: set --home-kubeconfig or KUBECONFIG, or run in a pod"))
	}
	if o.ClientTimeout < 0 || o.ClientQPS < 0 || o.ClientMaxBurst < 0 {
		errs = append(errs, errors.New("--client-timeout, --client-qps and --client-max-burst cannot be negative"))
	}
	return errors.Join(errs...)
}

func (o *Options) validateNames() error {
	var errs []error
	for flag, id := range map[string]string{"--home-cluster-id": o.HomeClusterID, "--foreign-cluster-id": o.ForeignClusterID} {
		if id == "" {
			errs = append(errs, fmt.Errorf("%s is required", flag))
		} else if !clusterID.MatchString(id) {
			errs = append(errs, fmt.Errorf("%s is %q: a cluster ID has lower-case letters, digits and dashes inside", flag, id))
		}
	}
	if o.HomeClusterID != "" && o.HomeClusterID == o.ForeignClusterID {
		errs = append(errs, fmt.Errorf("--home-cluster-id and --foreign-cluster-id are both %q: a cluster does not offload to itself", o.HomeClusterID))
	}
	if o.ForeignKubeconfigSecretName == "" {
		errs = append(errs, errors.New("--foreign-kubeconfig-secret-name is required: set spec.kubeconfigSecretRef of the VirtualNode"))
	}
	for _, problem := range utilvalidation.IsDNS1123Subdomain(o.NodeName) {
		errs = append(errs, fmt.Errorf("--nodename is %q: %s", o.NodeName, problem))
	}
	for flag, namespace := range map[string]string{"--tenant-namespace": o.TenantNamespace, "--liqo-namespace": o.Namespace} {
		for _, problem := range validation.ValidateNamespaceName(namespace, false) {
			errs = append(errs, fmt.Errorf("%s is %q: %s", flag, namespace, problem))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) validateNode() error {
	var errs []error
	if net.ParseIP(o.NodeIP) == nil {
		errs = append(errs, fmt.Errorf("--node-ip is %q: it must be the IP address on which the virtual kubelet listens", o.NodeIP))
	}
	if o.ListenPort < 1 || o.ListenPort > 65535 {
		errs = append(errs, fmt.Errorf("--listen-port is %d: a port is between 1 and 65535", o.ListenPort))
	}
	if o.HealthPort < 0 || o.HealthPort > 65535 || o.HealthPort == o.ListenPort {
		errs = append(errs, fmt.Errorf("--health-port is %d: a port is between 1 and 65535, and another one than --listen-port; 0 serves none", o.HealthPort))
	}
	if !slices.Contains([]CertificateType{CertificateKubelet, CertificateAWS, CertificateSelfSigned}, CertificateType(o.CertificateType)) {
		errs = append(errs, fmt.Errorf("--certificate-type is %q: want %s, %s or %s", o.CertificateType, CertificateKubelet, CertificateAWS, CertificateSelfSigned))
	}
	if o.NodeLeaseDuration < 4*time.Second {
		errs = append(errs, fmt.Errorf("--node-lease-duration is %s: at least 4s are needed", o.NodeLeaseDuration))
	}
	if o.NodePingInterval < 0 {
		errs = append(errs, fmt.Errorf("--node-ping-interval is %s: it cannot be negative; 0 switches the ping off", o.NodePingInterval))
	}
	if o.NodePingInterval > 0 && o.NodePingTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--node-ping-timeout is %s: a ping needs some time", o.NodePingTimeout))
	}
	for flag, pairs := range map[string]map[string]string{"--node-extra-labels": o.NodeExtraLabels, "--node-extra-annotations": o.NodeExtraAnnotations} {
		for key := range pairs {
			for _, problem := range utilvalidation.IsQualifiedName(key) {
				errs = append(errs, fmt.Errorf("%s has key %q: %s", flag, key, problem))
			}
		}
	}
	return errors.Join(errs...)
}

func (o *Options) validateReflection() error {
	var errs []error
	for _, resource := range slices.Sorted(maps.Keys(o.ReflectionWorkers)) {
		if workers := o.ReflectionWorkers[resource]; workers < 0 {
			errs = append(errs, fmt.Errorf("--%s-reflection-workers is %d: it cannot be negative; 0 switches the reflection off", resource, workers))
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(o.ReflectionTypes)) {
		value := offloadingv1beta1.ReflectionType(o.ReflectionTypes[resource])
		if value != offloadingv1beta1.AllowList && value != offloadingv1beta1.DenyList {
			errs = append(errs, fmt.Errorf("--%s-reflection-type is %q: want %s or %s", resource, value, offloadingv1beta1.DenyList, offloadingv1beta1.AllowList))
		}
	}
	if err := policies.ValidateNamespaces(o.PolicyNamespaces); err != nil {
		errs = append(errs, err)
	}
	if o.ResyncPeriod < 0 {
		errs = append(errs, fmt.Errorf("--resync-period is %s: it cannot be negative", o.ResyncPeriod))
	}
	if (o.HomeAPIServerHost == "") != (o.HomeAPIServerPort == "") {
		errs = append(errs, errors.New("--home-api-server-host and --home-api-server-port only make sense together (T32)"))
	}
	if o.HomeAPIServerPort != "" {
		if port, err := strconv.ParseUint(o.HomeAPIServerPort, 10, 16); err != nil || port == 0 {
			errs = append(errs, fmt.Errorf("--home-api-server-port is %q: a port is between 1 and 65535", o.HomeAPIServerPort))
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
		return fmt.Errorf("--vk-lease-retry-period is %s: it must be positive", o.VKLeaseRetryPeriod)
	case float64(o.VKLeaseRenewInterval) <= 1.2*float64(o.VKLeaseRetryPeriod):
		return fmt.Errorf("--vk-lease-renew-interval is %s: it must be more than 1.2 times --vk-lease-retry-period, %s", o.VKLeaseRenewInterval, o.VKLeaseRetryPeriod)
	case o.VKLeaseDuration <= o.VKLeaseRenewInterval:
		return fmt.Errorf("--vk-lease-duration is %s: it must be longer than --vk-lease-renew-interval, %s", o.VKLeaseDuration, o.VKLeaseRenewInterval)
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
				errs = append(errs, fmt.Errorf("%s: %q is no CIDR", flag, cidr))
			}
		}
	}
	if len(o.RemotePodCIDRs) != len(o.RemotePodCIDRRemaps) {
		errs = append(errs, fmt.Errorf("--remote-pod-cidr and --remote-pod-cidr-remap come in pairs: there are %d and %d", len(o.RemotePodCIDRs), len(o.RemotePodCIDRRemaps)))
	}
	if len(o.RemoteExternalCIDRs) != len(o.RemoteExternalCIDRRemap) {
		errs = append(errs, fmt.Errorf("--remote-external-cidr and --remote-external-cidr-remap come in pairs: there are %d and %d", len(o.RemoteExternalCIDRs), len(o.RemoteExternalCIDRRemap)))
	}
	return errors.Join(errs...)
}

// WithoutEffect returns why a flag, named without dashes, has no effect; "" when it has
// one.
func WithoutEffect(flag string) string { return vkflag.WithoutEffect(flag) }
