// Package e2e tests Longshore on real nodes: two clusters with control plane, containerd,
// kubelet, CNI and kube-proxy each, in network namespaces of one machine. `make e2e` runs it as
// root; docs/howto/run-on-real-nodes.md says what it needs and what it proves.
package e2e
