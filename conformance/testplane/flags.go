package testplane

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// auditPolicy records each request of each user once, when it is answered (a watch also
// when it begins), without its content.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// controlPlaneArgs are the arguments of the test plane's cp.
func (c *Cluster) controlPlaneArgs() ([]string, error) {
	audit, err := c.auditArgs()
	if err != nil {
		return nil, err
	}
	args := []string{"cp", "--dir=" + c.Dir, "--kubeconfig=" + c.Kubeconfig(), fmt.Sprintf("--temporary=%t", c.options.Temporary)}
	add := func(kind string, sets ...[]string) {
		for _, set := range sets {
			for _, arg := range set {
				args = append(args, "--"+kind+"="+arg)
			}
		}
	}
	add("apiserver-arg", c.apiServerArgs(), audit, c.options.APIServerArgs)
	add("manager-arg", c.managerArgs(), c.options.ManagerArgs)
	add("scheduler-arg", c.schedulerArgs(), c.options.SchedulerArgs)
	return args, nil
}

func (c *Cluster) apiServerArgs() []string {
	// The default of API servers refuses loopback addresses, and then the server accepts
	// connections without ever answering.
	reconciler := "none"
	if c.options.Routed {
		reconciler = "lease"
	}
	return []string{
		"--bind-address=" + c.options.Address,
		"--advertise-address=" + c.options.Address,
		"--secure-port=" + strconv.Itoa(c.options.Port),
		"--endpoint-reconciler-type=" + reconciler,
		"--service-cluster-ip-range=" + c.options.ServiceCIDR,
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		"--tls-cert-file=" + c.pki("apiserver.crt"),
		"--tls-private-key-file=" + c.pki("apiserver.key"),
		"--client-ca-file=" + c.CAFile(),
		"--service-account-key-file=" + c.ServiceAccountKeyFile(),
		"--service-account-signing-key-file=" + c.ServiceAccountKeyFile(),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--kubelet-client-certificate=" + c.pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + c.pki("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + c.CAFile(),
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + c.FrontProxyCAFile(),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + c.pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + c.pki("front-proxy-client.key"),
	}
}

func (c *Cluster) managerArgs() []string {
	cidr, maskSize := defaultPodCIDR, strconv.Itoa(nodeCIDRMaskSize)
	if c.options.PodCIDR != "" {
		cidr = c.options.PodCIDR
		_, maskSize, _ = strings.Cut(cidr, "/")
	}
	return []string{
		"--kubeconfig=" + c.pki(managerFile+".kubeconfig"),
		"--leader-elect=false",
		"--secure-port=0",
		// Each controller under its own name, as in a real cluster: their RBAC rules
		// apply, and audit logs name the controller.
		"--use-service-account-credentials=true",
		// With the default of 20 a second the first Deployment waits for seconds.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--service-account-private-key-file=" + c.ServiceAccountKeyFile(),
		"--root-ca-file=" + c.CAFile(),
		"--cluster-signing-cert-file=" + c.CAFile(),
		"--cluster-signing-key-file=" + c.pki("ca.key"),
		"--allocate-node-cidrs=true",
		"--cluster-cidr=" + cidr,
		"--node-cidr-mask-size=" + maskSize,
		"--service-cluster-ip-range=" + c.options.ServiceCIDR,
	}
}

func (c *Cluster) schedulerArgs() []string {
	return []string{
		"--kubeconfig=" + c.pki(schedulerFile+".kubeconfig"),
		"--leader-elect=false",
		"--secure-port=0",
	}
}

// auditArgs writes the audit policy when an audit log is wanted.
func (c *Cluster) auditArgs() ([]string, error) {
	if c.options.AuditLog == "" {
		return nil, nil
	}
	policy := c.path("audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("writing the audit policy: %w", err)
	}
	return []string{
		"--audit-policy-file=" + policy,
		"--audit-log-path=" + c.options.AuditLog,
		// Batches may be dropped when they come too fast, and then counts are wrong.
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=100000", // MB: never start another file
	}, nil
}
