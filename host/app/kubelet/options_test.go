package kubelet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/app/kubelet"
)

func good() kubelet.Options {
	o := kubelet.DefaultOptions()
	o.Config = &rest.Config{}
	o.HomeClusterID, o.ForeignClusterID, o.ForeignKubeconfigSecretName, o.NodeIP = "rome", "milan", "kubeconfig", "127.0.0.9"
	return o
}

func TestOptionsSayWhatIsWrongWithEachFlag(t *testing.T) {
	valid := good()
	require.NoError(t, valid.Validate())
	for name, tc := range map[string]struct {
		alter func(*kubelet.Options)
		want  string
	}{
		"no kubeconfig":                   {func(o *kubelet.Options) { o.Config = nil }, "set --home-kubeconfig or KUBECONFIG"},
		"no home ID":                      {func(o *kubelet.Options) { o.HomeClusterID = "" }, "--home-cluster-id is required"},
		"a home ID with capitals":         {func(o *kubelet.Options) { o.HomeClusterID = "Rome" }, `--home-cluster-id is "Rome": a cluster ID has lower-case letters`},
		"no provider ID":                  {func(o *kubelet.Options) { o.ForeignClusterID = "" }, "--foreign-cluster-id is required"},
		"the same ID twice":               {func(o *kubelet.Options) { o.ForeignClusterID = "rome" }, "a cluster does not offload to itself"},
		"no Secret":                       {func(o *kubelet.Options) { o.ForeignKubeconfigSecretName = "" }, "set spec.kubeconfigSecretRef of the VirtualNode"},
		"a node name with capitals":       {func(o *kubelet.Options) { o.NodeName = "Milan" }, `--nodename is "Milan"`},
		"a namespace with capitals":       {func(o *kubelet.Options) { o.TenantNamespace = "X" }, `--tenant-namespace is "X"`},
		"an address that is none":         {func(o *kubelet.Options) { o.NodeIP = "localhost" }, `--node-ip is "localhost"`},
		"no address":                      {func(o *kubelet.Options) { o.NodeIP = "" }, "--node-ip"},
		"a port that is none":             {func(o *kubelet.Options) { o.ListenPort = 70000 }, "--listen-port is 70000"},
		"one port for two servers":        {func(o *kubelet.Options) { o.HealthPort = o.ListenPort }, "--health-port is 10250"},
		"an unknown certificate":          {func(o *kubelet.Options) { o.CertificateType = "x" }, `--certificate-type is "x": want kubelet, aws or self-signed`},
		"a short lease":                   {func(o *kubelet.Options) { o.NodeLeaseDuration = time.Second }, "--node-lease-duration is 1s"},
		"a negative ping":                 {func(o *kubelet.Options) { o.NodePingInterval = -1 }, "--node-ping-interval"},
		"a ping without time":             {func(o *kubelet.Options) { o.NodePingTimeout = 0 }, "--node-ping-timeout is 0s"},
		"a label that is none":            {func(o *kubelet.Options) { o.NodeExtraLabels = map[string]string{"a b": ""} }, `--node-extra-labels has key "a b"`},
		"negative workers":                {func(o *kubelet.Options) { o.ReflectionWorkers["pod"] = -1 }, "--pod-reflection-workers is -1"},
		"an unknown reflection type":      {func(o *kubelet.Options) { o.ReflectionTypes["secret"] = "Some" }, `--secret-reflection-type is "Some": want DenyList or AllowList`},
		"the type of pods":                {func(o *kubelet.Options) { o.ReflectionTypes["ingress"] = "CustomLiqo" }, `--ingress-reflection-type is "CustomLiqo"`},
		"half of an address":              {func(o *kubelet.Options) { o.HomeAPIServerHost = "x" }, "only make sense together (T32)"},
		"a lease that cannot renew":       {func(o *kubelet.Options) { o.VKLeaseDuration = o.VKLeaseRenewInterval }, "--vk-lease-duration is 10s"},
		"a lease that cannot retry":       {func(o *kubelet.Options) { o.VKLeaseRetryPeriod = o.VKLeaseRenewInterval }, "--vk-lease-renew-interval is 10s"},
		"a policy namespace that is none": {func(o *kubelet.Options) { o.PolicyNamespaces = []string{"Team"} }, `--policy-namespace: "Team" is no namespace name`},
		"a CIDR that is none":             {func(o *kubelet.Options) { o.LocalPodCIDRs = []string{"10.0.0.0"} }, `--local-podcidr: "10.0.0.0" is no CIDR`},
		"a CIDR without its pair":         {func(o *kubelet.Options) { o.RemotePodCIDRs = []string{"10.0.0.0/16"} }, "come in pairs: there are 1 and 0"},
		"a negative limit":                {func(o *kubelet.Options) { o.ClientQPS = -1 }, "cannot be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			o := good()
			tc.alter(&o)
			assert.ErrorContains(t, o.Validate(), tc.want)
		})
	}
}

func TestOptionsSayAllThatIsWrongAtOnce(t *testing.T) {
	o := kubelet.Options{}
	err := o.Validate()
	for _, flag := range []string{"--home-cluster-id", "--foreign-cluster-id", "--foreign-kubeconfig-secret-name", "--nodename", "--node-ip", "--listen-port", "--certificate-type"} {
		assert.ErrorContains(t, err, flag)
	}
}

func TestALeaseThatIsOffNeedsNoTimes(t *testing.T) {
	o := good()
	o.VKLeaseEnabled, o.VKLeaseDuration = false, 0
	assert.NoError(t, o.Validate())
}
