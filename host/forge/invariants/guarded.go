package invariants

import "strings"

// guardedPrefixes are prefixes of labels and annotations on which runtimes, networks or
// clouds act.
var guardedPrefixes = []string{
	// Networks: further interfaces, addresses and bandwidth.
	"k8s.v1.cni.cncf.io/", "v1.multus-cni.io/", "cni.projectcalico.org/", "ovn.kubernetes.io/", "k8s.ovn.org/", "io.cilium.", "cilium.io/",
	"kubernetes.io/egress-bandwidth", "kubernetes.io/ingress-bandwidth",
	// Runtimes: hooks, devices, virtual machines, confinement.
	"io.katacontainers.", "run.oci.", "io.containerd.", "io.kubernetes.cri", "cri-o.", "cdi.k8s.io/", "dev.gvisor.",
	"container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/",
	// Clouds: the identity of the pod.
	"iam.amazonaws.com/", "eks.amazonaws.com/", "vpc.amazonaws.com/", "iam.gke.io/", "azure.workload.identity/", "aadpodidbinding",
}

// GuardedKey reports whether container runtimes, networks or clouds act on a label or an
// annotation. A policy may set it only if an operator grants the key.
func GuardedKey(key string) bool {
	for _, prefix := range guardedPrefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	// Plugins of the Node Resource Interface: devices.nri.io/container.web.
	domain, _, _ := strings.Cut(key, "/")
	return domain == "nri.io" || strings.HasSuffix(domain, ".nri.io") || strings.HasSuffix(domain, ".noderesource.dev")
}
