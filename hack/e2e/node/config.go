// Package node runs a Kubernetes cluster of one real node: control plane, containerd, kubelet,
// CNI and kube-proxy, in namespaces of its own. Nothing in it knows Longshore.
package node

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path/filepath"
)

// Config is what a node is started with.
type Config struct {
	// Name is that of cluster and node.
	Name string
	// Dir holds all data and logs. It must be a path of the machine's own disk: containerd
	// mounts overlays on it.
	Dir string
	// Address is that of the node and of its API server, with the length of the network that
	// the nodes share; Gateway is the address of the bridge there.
	Address, Gateway string
	PrefixLength     int
	// PodCIDR and ServiceCIDR are the ranges of the cluster.
	PodCIDR, ServiceCIDR string
	// Routes are the pod ranges of other clusters, by the address of their node.
	Routes map[string]string
	// ClusterDNS is the address that pods get as their name server; empty: none.
	ClusterDNS string
	// ManagerArgs are flags of the controller manager.
	ManagerArgs []string
	// TestPlane is the binary of the control plane, the kubelet and kube-proxy.
	TestPlane string
	// Images are archives that the node has; Pause is the name of the sandbox image.
	Images []string
	Pause  string
}

// CgroupRoot is the cgroup of everything that the node's kubelet starts. It is another one for
// each folder.
func (c *Config) CgroupRoot() string {
	return fmt.Sprintf("/longshore-e2e-%s-%08x", c.Name, crc32.ChecksumIEEE([]byte(c.Dir)))
}

// Sockets and state are below /run, which is the node's own: the path of a socket is short.
const (
	containerdSocket = "/run/containerd/containerd.sock"
	containerdState  = "/run/containerd/state"
)

func (c *Config) path(parts ...string) string {
	return filepath.Join(append([]string{c.Dir}, parts...)...)
}

// cniPluginDirs are where distributions put the plugins.
var cniPluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// containerdConfig is in version 2, which containerd 1.6 and later read.
func (c *Config) containerdConfig(pluginDir string) string {
	return fmt.Sprintf(`version = 2
root = %[1]q
state = %[2]q
[grpc]
address = %[3]q
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %[4]q
disable_apparmor = true
# Without CAP_SYS_RESOURCE runc cannot lower the score of the sandbox.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = %[5]q
conf_dir = %[6]q
`, c.path("containerd"), containerdState, containerdSocket, c.Pause, pluginDir, c.path("cni"))
}

// cniConfig connects the pods by a bridge; they keep their addresses on the way out.
func (c *Config) cniConfig() map[string]any {
	return map[string]any{
		"cniVersion": "0.4.0", "name": "pods",
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
				"ipam": map[string]any{
					"type": "host-local", "dataDir": c.path("ipam"),
					"ranges": []any{[]any{map[string]any{"subnet": c.PodCIDR}}},
					"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
		},
	}
}

func (c *Config) kubeletConfig(caFile string, cgroup1 bool) map[string]any {
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": c.Address, "tlsCertFile": c.path("kubelet.crt"), "tlsPrivateKeyFile": c.path("kubelet.key"),
		"authentication": map[string]any{
			"x509": map[string]any{"clientCAFile": caFile}, "anonymous": map[string]any{"enabled": false},
			"webhook": map[string]any{"enabled": true},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"cgroupDriver":             "cgroupfs", "cgroupRoot": c.CgroupRoot(),
		"failSwapOn": false, "oomScoreAdj": 0, "resolvConf": "", "clusterDomain": "cluster.local",
		"podLogsDir": c.path("pods"), "volumePluginDir": c.path("volumeplugins"),
		// What the disk and the memory of the machine hold has nothing to do with the tests, and
		// images cannot be pulled again.
		"evictionHard":                map[string]any{"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"nodeStatusUpdateFrequency": "5s", "syncFrequency": "10s",
	}
	if c.ClusterDNS != "" {
		config["clusterDNS"] = []any{c.ClusterDNS}
	}
	if cgroup1 {
		config["failCgroupV1"] = false
	}
	return config
}

func (c *Config) proxyConfig(kubeconfig string) map[string]any {
	return map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode": "iptables", "clusterCIDR": c.PodCIDR, "hostnameOverride": c.Name,
		"clientConnection": map[string]any{"kubeconfig": kubeconfig},
		// The settings of connection tracking are the machine's.
		"conntrack":          map[string]any{"maxPerCore": 0, "min": 0},
		"iptables":           map[string]any{"minSyncPeriod": "200ms"},
		"healthzBindAddress": "127.0.0.1:10256", "metricsBindAddress": "127.0.0.1:10249",
	}
}

// encode returns JSON, which all of these programs read as YAML.
func encode(value any) ([]byte, error) {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding a configuration: %w", err)
	}
	return data, nil
}
