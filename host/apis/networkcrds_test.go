package apis_test

import "maps"

// reference returns the fields of a reference to an object.
func reference(path, required string) map[string]string {
	fields := map[string]string{path: "object" + required}
	for _, name := range []string{"apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid"} {
		fields[path+"."+name] = "string"
	}
	return fields
}

// secret returns the fields of a reference to a Secret of the same namespace.
func secret(path string) map[string]string {
	return map[string]string{path: "object", path + ".name": "string default: "}
}

// object returns the fields of an object with metadata and a spec that is not checked.
func object(path, required string) map[string]string {
	return map[string]string{
		path: "object" + required, path + ".metadata": "object", path + ".metadata.annotations": "map of string", path + ".metadata.finalizers": "list",
		path + ".metadata.labels": "map of string", path + ".metadata.name": "string", path + ".metadata.namespace": "string", path + ".spec": "object",
	}
}

// cidrs returns the fields of a cluster's networks.
func cidrs(path string) map[string]string {
	return map[string]string{path: "object", path + ".cidr": "object", path + ".cidr.pod": "list", path + ".cidr.external": "list"}
}

// networkCRDs are what two clusters agree on in the reference.
func networkCRDs() map[string]crd {
	return map[string]crd{
		"configurations.networking.liqo.io": {
			shortNames: "conf", scope: "Namespaced",
			columns: []string{
				"Desired Pod CIDR  .spec.remote.cidr.pod", "Remapped Pod CIDR .status.remote.cidr.pod",
				"Desired External CIDR .spec.remote.cidr.external 1", "Remapped External CIDR .status.remote.cidr.external 1",
				age, `ClusterID .metadata.labels.liqo\.io/remote-cluster-id 1`,
			},
			fields: join(cidrs("spec.local"), cidrs("spec.remote"), cidrs("status.remote"), map[string]string{
				"status.conditions":                      "list",
				"status.conditions[].type":               "string*",
				"status.conditions[].status":             "string* True|False|Unknown",
				"status.conditions[].observedGeneration": "int64",
				"status.conditions[].lastTransitionTime": "date-time*",
				"status.conditions[].reason":             "string*",
				"status.conditions[].message":            "string*",
			}),
		},
		"connections.networking.liqo.io": {
			shortNames: "conn", scope: "Namespaced",
			columns: []string{"Type .spec.type", "Status .status.value", age, "Latency .status.latency.value 1"},
			fields: join(reference("spec.gatewayRef", "*"), map[string]string{
				"spec.type":                "string* Server|Client",
				"status.value":             "string",
				"status.latency":           "object",
				"status.latency.value":     "string",
				"status.latency.timestamp": "date-time",
			}),
		},
		"publickeies.networking.liqo.io": {
			shortNames: "pk pkies pkey", scope: "Namespaced", hasNoStatus: true,
			fields: map[string]string{"spec.publicKey": "bytes"},
		},
	}
}

// endpoint returns the fields of the address of a gateway.
func endpoint(path string) map[string]string {
	return map[string]string{
		path: "object rule: port and ports exclude each other", path + ".addresses": "list", path + ".port": "int32", path + ".ports": "list",
		path + ".protocol": "string TCP|UDP",
	}
}

// internalEndpoint returns the fields of the address of a gateway inside of its cluster.
func internalEndpoint(path string) map[string]string {
	return map[string]string{path: "object", path + ".ip": "ipv4", path + ".node": "string"}
}

func gatewayColumns(template, endpoint string) []string {
	return []string{
		"Template Kind " + template + ".kind 1", "Template Name " + template + ".name", "Template Namespace " + template + ".namespace 1",
		"IP " + endpoint + ".addresses[*]", "Port " + endpoint + ".port", "Protocol " + endpoint + ".protocol 1", "MTU .spec.mtu 1", age,
	}
}

// gatewayCRDs are the ends of tunnels in the reference.
func gatewayCRDs() map[string]crd {
	return map[string]crd{
		"gatewayservers.networking.liqo.io": {
			shortNames: "gws gwserver", scope: "Namespaced", columns: gatewayColumns(".spec.serverTemplateRef", ".status.endpoint"),
			fields: join(
				reference("spec.serverTemplateRef", ""), secret("spec.secretRef"), reference("status.serverRef", ""), reference("status.secretRef", ""),
				endpoint("status.endpoint"), internalEndpoint("status.internalEndpoint"), map[string]string{
					"spec.mtu":                     "integer",
					"spec.serviceAnnotations":      "map of string",
					"spec.serviceLabels":           "map of string",
					"spec.endpoint":                "object rule: exactly one of port and ports is required rule: nodePort and nodePorts exclude each other",
					"spec.endpoint.port":           "int32",
					"spec.endpoint.ports":          "list",
					"spec.endpoint.serviceType":    "string ClusterIP|NodePort|LoadBalancer|ExternalName default: ClusterIP",
					"spec.endpoint.nodePort":       "int32",
					"spec.endpoint.nodePorts":      "list",
					"spec.endpoint.loadBalancerIP": "string",
				}),
		},
		"gatewayclients.networking.liqo.io": {
			shortNames: "gwc gwclient", scope: "Namespaced", columns: gatewayColumns(".spec.clientTemplateRef", ".spec.endpoint"),
			fields: join(
				reference("spec.clientTemplateRef", ""), secret("spec.secretRef"), reference("status.clientRef", ""), reference("status.secretRef", ""),
				endpoint("spec.endpoint"), internalEndpoint("status.internalEndpoint"), map[string]string{"spec.mtu": "integer"}),
		},
	}
}

// wireGuardCRDs are the gateways with WireGuard in the reference.
func wireGuardCRDs() map[string]crd {
	common := join(object("spec.deployment", "*"), secret("spec.secretRef"), object("spec.metrics.service", ""), object("spec.metrics.serviceMonitor", ""),
		reference("status.secretRef", ""), internalEndpoint("status.internalEndpoint"),
		map[string]string{"spec.metrics": "object", "spec.metrics.enabled": "boolean*"})
	template := join(object("spec.template", ""), map[string]string{
		"spec.objectKind": "object", "spec.objectKind.apiVersion": "string", "spec.objectKind.kind": "string",
	})
	return map[string]crd{
		"wggatewayservers.networking.liqo.io": {
			shortNames: "wgs wggs", scope: "Namespaced", fields: join(common, object("spec.service", "*"), endpoint("status.endpoint")),
		},
		"wggatewayclients.networking.liqo.io":         {shortNames: "wgc wggc", scope: "Namespaced", fields: maps.Clone(common)},
		"wggatewayservertemplates.networking.liqo.io": {shortNames: "wggst wgst", scope: "Namespaced", hasNoStatus: true, fields: template},
		"wggatewayclienttemplates.networking.liqo.io": {shortNames: "wggct wgct", scope: "Namespaced", hasNoStatus: true, fields: maps.Clone(template)},
	}
}

// fabricCRDs are the network inside of a cluster in the reference.
func fabricCRDs() map[string]crd {
	return map[string]crd{
		"internalfabrics.networking.liqo.io": {
			shortNames: "if ifabric", scope: "Namespaced", hasNoStatus: true, columns: []string{"Gateway IP .spec.gatewayIP", age},
			fields: map[string]string{
				"spec.mtu": "integer", "spec.remoteCIDRs": "list", "spec.gatewayIP": "ipv4*",
				"spec.interface": "object*", "spec.interface.node": "object*", "spec.interface.node.name": "string*",
				"spec.interface.gateway": "object*", "spec.interface.gateway.ip": "ipv4*",
			},
		},
		"internalnodes.networking.liqo.io": {
			shortNames: "in inode", scope: "Cluster", columns: []string{"Node IP Local .status.nodeIP.local", "Node IP Remote .status.nodeIP.remote", age},
			fields: map[string]string{
				"spec.interface": "object*", "spec.interface.gateway": "object*", "spec.interface.gateway.name": "string*",
				"spec.interface.node": "object*", "spec.interface.node.ip": "ipv4*",
				"status.nodeIP": "object", "status.nodeIP.local": "ipv4", "status.nodeIP.remote": "ipv4",
			},
		},
		"genevetunnels.networking.liqo.io": {
			shortNames: "gvtn", scope: "Namespaced", hasNoStatus: true,
			fields: join(reference("spec.internalNodeRef", "*"), reference("spec.internalFabricRef", "*"), map[string]string{"spec.id": "int32*"}),
		},
	}
}

// match returns the fields of the conditions of a rule.
func match(path string) map[string]string {
	path += ".match"
	return map[string]string{
		path: "list", path + "[].op": "string* eq|neq",
		path + "[].ip": "object", path + "[].ip.value": "string*", path + "[].ip.position": "string* src|dst",
		path + "[].port": "object", path + "[].port.value": "string*", path + "[].port.position": "string* src|dst",
		path + "[].proto": "object", path + "[].proto.value": "string* tcp|udp",
		path + "[].dev": "object", path + "[].dev.value": "string*", path + "[].dev.position": "string* in|out",
	}
}

// ruleCRDs are the rules of hosts in the reference.
func ruleCRDs() map[string]crd {
	status := map[string]string{
		"status.conditions": "list", "status.conditions[].host": "string*", "status.conditions[].type": "string* Applied|Error",
		"status.conditions[].status": "string*", "status.conditions[].lastTransitionTime": "date-time",
	}
	const chain, rule = "spec.table.chains[]", "spec.table.rules[]"
	const nat, filter, route, path = chain + ".rules.natRules", chain + ".rules.filterRules", chain + ".rules.routeRules", rule + ".routes"
	return map[string]crd{
		"firewallconfigurations.networking.liqo.io": {
			shortNames: "fw fwconfig fwcfg", scope: "Namespaced", columns: []string{age},
			fields: join(status, match(nat+"[]"), match(filter+"[]"), reference(nat+"[].targetRef", ""), map[string]string{
				"spec.table": "object", "spec.table.name": "string*", "spec.table.family": "string* INET|IPV4|IPV6|ARP|NETDEV|BRIDGE",
				"spec.table.chains": "list",
				chain + ".name":     "string*", chain + ".type": "string* filter|route|nat", chain + ".policy": "string* drop|accept",
				chain + ".hook": "string* prerouting|input|forward|output|postrouting|ingress", chain + ".priority": "int32 default: 0",
				chain + ".rules": "object",
				nat:              "list", nat + "[].name": "string", nat + "[].natType": "string* dnat|snat|masquerade", nat + "[].to": "string",
				filter: "list", filter + "[].name": "string", filter + "[].counter": "boolean default: true",
				filter + "[].action": "string* ctmark|metamarkfromctmark|tcpmssclamp|accept|drop|reject|notrack", filter + "[].value": "string",
				route: "list", route + "[].name": "string",
			}),
		},
		"routeconfigurations.networking.liqo.io": {
			shortNames: "rcnf rcnfg rcfg routecfg", scope: "Namespaced", columns: []string{age},
			fields: join(status, reference("spec.table.targetRef", ""), reference(rule+".targetRef", ""), reference(path+"[].targetRef", ""), map[string]string{
				"spec.table": "object", "spec.table.name": "string*", "spec.table.rules": "list*",
				rule + ".dst": "cidr", rule + ".src": "cidr", rule + ".iif": "string", rule + ".oif": "string", rule + ".fwmark": "integer",
				rule + ".priority": "integer", path: "list*",
				path + "[].dst": "cidr*", path + "[].src": "ipv4", path + "[].gw": "ipv4", path + "[].dev": "string", path + "[].onlink": "boolean",
				path + "[].scope": "string global|link|host|site|nowhere",
			}),
		},
	}
}

// ipamCRDs are networks and addresses in the reference.
func ipamCRDs() map[string]crd {
	return map[string]crd{
		"networks.ipam.liqo.io": {
			shortNames: "net", scope: "Namespaced", columns: []string{"Desired CIDR .spec.cidr", "Remapped CIDR .status.cidr", age},
			fields: map[string]string{
				"spec.cidr": "cidr* rule: cidr is immutable", "spec.preAllocated": "int32 rule: preAllocated is immutable", "status.cidr": "cidr",
			},
		},
		"ips.ipam.liqo.io": {
			scope: "Namespaced", columns: []string{"Local IP .spec.ip", "Remapped IP .status.ip", "Remapped IP CIDR .status.cidr", age},
			fields: join(reference("spec.networkRef", ""), object("spec.serviceTemplate", ""), map[string]string{
				"spec.ip": "ipv4* rule: ip is immutable", "spec.masquerade": "boolean",
				"status.ip": "ipv4 rule: ip is immutable", "status.cidr": "cidr rule: cidr is immutable",
			}),
		},
	}
}
