package invariants_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/longshore-dev/longshore/host/forge/invariants"
)

func TestGuardedKeys(t *testing.T) {
	for _, key := range []string{
		"k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network", "cni.projectcalico.org/ipAddrs", "kubernetes.io/egress-bandwidth",
		"io.katacontainers.config.hypervisor.kernel_params", "run.oci.hooks", "io.containerd.runc.v2.group", "io.kubernetes.cri-o.Devices", "cri-o.io/devices",
		"container.apparmor.security.beta.kubernetes.io/web", "seccomp.security.alpha.kubernetes.io/pod", "cdi.k8s.io/gpu", "devices.nri.io/container.web",
		"iam.amazonaws.com/role", "eks.amazonaws.com/role-arn", "iam.gke.io/gcp-service-account", "azure.workload.identity/use", "aadpodidbinding",
	} {
		assert.True(t, invariants.GuardedKey(key), key)
	}
	for _, key := range []string{"app", "example.com/team", "kubernetes.io/change-cause", "liqo.io/anti-affinity-preset", "example.com/run.oci."} {
		assert.False(t, invariants.GuardedKey(key), key)
	}
}
