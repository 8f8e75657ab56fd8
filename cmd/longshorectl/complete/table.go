package complete

import (
	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/policy"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// free is a value that only the user can know: a new name, a quantity, a duration.
var free = value{}

// path is a file or a folder.
var path = value{files: true}

var (
	namespaces       = oneOf(local.names(core("namespaces")))
	remoteNamespaces = oneOf(remote.names(core("namespaces")))
	modules          = value{files: true, extensions: []string{"wasm", "gz", "zst"}}
)

// arguments has the commands with arguments, by their path without the program's name.
var arguments = map[string]cobra.CompletionFunc{
	"activate tenant":        oneOf(tenants).argument,
	"cordon resourceslice":   oneOf(copiedSlices).argument,
	"cordon tenant":          oneOf(tenants).argument,
	"create resourceslice":   oneOf(ownSlices).argument,
	"create virtualnode":     oneOf(virtualNodes).argument,
	"delete resourceslice":   oneOf(ownSlices).argument,
	"delete virtualnode":     oneOf(virtualNodes).argument,
	"drain tenant":           oneOf(tenants).argument,
	"explain":                objects,
	"force unpeer":           oneOf(peers).argument,
	"get kubeconfig":         oneOf(inTenantNamespace(authv1beta1.GroupVersion.WithResource("identities"))).argument,
	"get resourceslice":      oneOf(allSlices).argument,
	"get virtualnode":        oneOf(virtualNodes).argument,
	"info":                   value{source: peersOrWord, repeated: true}.argument,
	"move volume":            oneOf(local.namesHere(core("persistentvolumeclaims"))).argument,
	"offload namespace":      value{source: namespaces.source, repeated: true}.argument,
	"policy bench":           modules.argument,
	"policy build":           path.argument,
	"policy conform":         modules.argument,
	"policy init":            free.argument,
	"policy inspect":         modules.argument,
	"policy push":            modules.argument,
	"policy run":             modules.argument,
	"policy test":            modules.argument,
	"policy verify-report":   path.argument,
	"policy watch":           path.argument,
	"uncordon resourceslice": oneOf(copiedSlices).argument,
	"uncordon tenant":        oneOf(tenants).argument,
	"unoffload namespace":    value{source: offloaded, repeated: true}.argument,
}

// flags has the flags by their name, those of one command behind its path. A flag whose type lists
// its values needs no entry.
var flags = map[string]value{
	// Clusters.
	"--kubeconfig": path, "--remote-kubeconfig": path, "conform cluster --consumer": path, "conform cluster --provider": path,
	"--context": oneOf(local.contexts), "--remote-context": oneOf(remote.contexts),
	"--cluster": oneOf(local.clusters), "--remote-cluster": oneOf(remote.clusters), "--user": oneOf(local.users), "--remote-user": oneOf(remote.users),
	"--consumer-context": oneOf(consumer.contexts), "--provider-context": oneOf(provider.contexts),
	"--remote-cluster-id": oneOf(peers), "--consumer-cluster-id": oneOf(peers),

	// Namespaces. A tenant namespace of the other cluster is in a cluster that is not reached.
	"--namespace": namespaces, "--longshore-namespace": namespaces, "--remote-namespace": remoteNamespaces,
	"--remote-namespace-name": free, "--remote-tenant-namespace": free, "conform cluster --namespace": free,
	"--ns-selector": someOf(labelsOf(core("namespaces"), func(map[string]string) bool { return true })),

	// Objects.
	"--resource-slice-name":    oneOf(ownSlices),
	"--kubeconfig-secret-name": oneOf(inTenantNamespace(core("secrets"))),
	"--vk-options-template":    oneOf(templates),
	"--target-node":            oneOf(local.names(core("nodes"))),
	"--node":                   oneOf(virtualNodes),
	"--selector":               someOf(labelsOf(core("nodes"), isVirtualNode)),
	"--storage-class":          oneOf(local.names(storageClasses)),
	"--runtime-class":          oneOf(local.names(runtimeClasses)),
	"--policy":                 oneOf(local.names(policies)),
	"--name":                   oneOf(local.names(policies)),
	"move volume --to":         oneOf(local.namesHere(core("persistentvolumeclaims"))),

	// What the provider offers, as its slices report it.
	"--class": oneOf(classesOfSlices), "--resource-slice-class": oneOf(classesOfSlices),
	"--storage-classes": someOf(granted(storageOfProvider)), "--ingress-classes": someOf(granted(ingressOfProvider)),
	"--load-balancer-classes": someOf(granted(loadBalancersOfProvider)), "--node-selector": someOf(granted(nodeLabelsOfProvider)),

	// Fixed values.
	"--pod-offloading-strategy": fixed(offloadingv1beta1.LocalPodOffloadingStrategyType, offloadingv1beta1.RemotePodOffloadingStrategyType,
		offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType),
	"--namespace-mapping-strategy": fixed(offloadingv1beta1.DefaultNameMappingStrategyType, offloadingv1beta1.EnforceSameNameMappingStrategyType,
		offloadingv1beta1.SelectedNameMappingStrategyType),
	"--lang":     fixed(policy.Languages()...),
	"--point":    fixed(contract.Points()...),
	"--moment":   fixed("Admission", "Offload"),
	"--resource": {source: resources, open: true},

	// Files.
	"--filename": path, "--folder": path, "--html": path, "--input": path, "--junit": path, "--key": path, "--module": modules, "--namespace-offloading": path,
	"--policies": path, "--policy-cache-dir": path, "--report": path, "--sdk": path, "--settings": path, "--sign-key": path, "--spec": path,
	"--vectors": path, "--virtual-node": path,

	// What only the user knows. A RuntimeClass of remote pods is in the provider.
	"--calls": free, "--cluster-id": free, "--cpu": free, "--fuel": free, "--get": free, "--image": free, "--labels": free, "--memory": free, "--nonce": free,
	"--pods": free, "--proxy-url": free, "--runtime-class-name": free, "--timeout": free,
}
