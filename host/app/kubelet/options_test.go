package kubelet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/app/kubelet"
)

func validOptions() kubelet.Options {
	o := kubelet.DefaultOptions()
	o.Config = &rest.Config{}
	o.HomeClusterID, o.ForeignClusterID, o.ForeignKubeconfigSecretName, o.NodeIP = "rome", "milan", "kubeconfig", "127.0.0.9"
	return o
}

func TestValidateNamesTheFlag(t *testing.T) {
	valid := validOptions()
	require.NoError(t, valid.Validate())
	for name, tc := range map[string]struct {
		alter func(*kubelet.Options)
		want  string
	}{
		"no kubeconfig":               {func(o *kubelet.Options) { o.Config = nil }, "set --home-kubeconfig or KUBECONFIG"},
		"no home ID":                  {func(o *kubelet.Options) { o.HomeClusterID = "" }, "--home-cluster-id is required"},
		"a home ID with capitals":     {func(o *kubelet.Options) { o.HomeClusterID = "Rome" }, `invalid --home-cluster-id "Rome"`},
		"no provider ID":              {func(o *kubelet.Options) { o.ForeignClusterID = "" }, "--foreign-cluster-id is required"},
		"the same ID twice":           {func(o *kubelet.Options) { o.ForeignClusterID = "rome" }, "are both \"rome\""},
		"no Secret":                   {func(o *kubelet.Options) { o.ForeignKubeconfigSecretName = "" }, "set spec.kubeconfigSecretRef of the VirtualNode"},
		"a node name with capitals":   {func(o *kubelet.Options) { o.NodeName = "Milan" }, `invalid --nodename "Milan"`},
		"a namespace with capitals":   {func(o *kubelet.Options) { o.TenantNamespace = "X" }, `invalid --tenant-namespace "X"`},
		"an invalid address":          {func(o *kubelet.Options) { o.NodeIP = "localhost" }, `invalid --node-ip "localhost"`},
		"no address":                  {func(o *kubelet.Options) { o.NodeIP = "" }, "--node-ip"},
		"an invalid port":             {func(o *kubelet.Options) { o.ListenPort = 70000 }, "invalid --listen-port 70000"},
		"the same port twice":         {func(o *kubelet.Options) { o.HealthPort = o.ListenPort }, "invalid --health-port 10250"},
		"an unknown certificate":      {func(o *kubelet.Options) { o.CertificateType = "x" }, `invalid --certificate-type "x": must be kubelet, aws or self-signed`},
		"a short lease":               {func(o *kubelet.Options) { o.NodeLeaseDuration = time.Second }, "invalid --node-lease-duration 1s"},
		"a negative ping interval":    {func(o *kubelet.Options) { o.NodePingInterval = -1 }, "--node-ping-interval"},
		"no ping timeout":             {func(o *kubelet.Options) { o.NodePingTimeout = 0 }, "invalid --node-ping-timeout 0s"},
		"an invalid label":            {func(o *kubelet.Options) { o.NodeExtraLabels = map[string]string{"a b": ""} }, `invalid key "a b" of --node-extra-labels`},
		"negative workers":            {func(o *kubelet.Options) { o.ReflectionWorkers["pod"] = -1 }, "invalid --pod-reflection-workers -1"},
		"an unknown reflection type":  {func(o *kubelet.Options) { o.ReflectionTypes["secret"] = "Some" }, `invalid --secret-reflection-type "Some": must be DenyList or AllowList`},
		"a type that only pods have":  {func(o *kubelet.Options) { o.ReflectionTypes["ingress"] = "CustomLiqo" }, `invalid --ingress-reflection-type "CustomLiqo"`},
		"a host without a port":       {func(o *kubelet.Options) { o.HomeAPIServerHost = "x" }, "must be set together"},
		"a short lease duration":      {func(o *kubelet.Options) { o.VKLeaseDuration = o.VKLeaseRenewInterval }, "invalid --vk-lease-duration 10s"},
		"a short renew interval":      {func(o *kubelet.Options) { o.VKLeaseRetryPeriod = o.VKLeaseRenewInterval }, "invalid --vk-lease-renew-interval 10s"},
		"an invalid report key":       {func(o *kubelet.Options) { o.PolicyReportKeys = []string{"x"} }, "--policy-report-key: reading public key 1"},
		"an invalid policy namespace": {func(o *kubelet.Options) { o.PolicyNamespaces = []string{"Team"} }, "--policy-namespace"},
		"an invalid CIDR":             {func(o *kubelet.Options) { o.LocalPodCIDRs = []string{"10.0.0.0"} }, `invalid CIDR "10.0.0.0" in --local-podcidr`},
		"a CIDR without a remap":      {func(o *kubelet.Options) { o.RemotePodCIDRs = []string{"10.0.0.0/16"} }, "must have the same number of values: got 1 and 0"},
		"a negative limit":            {func(o *kubelet.Options) { o.ClientQPS = -1 }, "must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			o := validOptions()
			tc.alter(&o)
			assert.ErrorContains(t, o.Validate(), tc.want)
		})
	}
}

func TestValidateReturnsAllErrors(t *testing.T) {
	o := kubelet.Options{}
	err := o.Validate()
	for _, flag := range []string{"--home-cluster-id", "--foreign-cluster-id", "--foreign-kubeconfig-secret-name", "--nodename", "--node-ip", "--listen-port", "--certificate-type"} {
		assert.ErrorContains(t, err, flag)
	}
}

func TestValidateIgnoresADisabledLease(t *testing.T) {
	o := validOptions()
	o.VKLeaseEnabled, o.VKLeaseDuration = false, 0
	assert.NoError(t, o.Validate())
}
