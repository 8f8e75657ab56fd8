package suite

import (
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// generatedFacts is the number of generated facts for each point and moment.
const generatedFacts = 16

// generator makes valid objects. The seed is constant, so a report can be repeated.
type generator struct {
	*rand.Rand

	// full adds everything that is optional, minimal nothing.
	full, minimal bool
}

func newRandom(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 12))
}

// generated returns facts for a point: the least that Kubernetes allows, then everything, then
// anything between.
func generated(point contract.Point, moment contract.Moment) []map[string]any {
	all := make([]map[string]any, generatedFacts)
	for i := range all {
		g := &generator{Rand: newRandom(uint64(i)), minimal: i == 0, full: i == 1}
		all[i] = g.facts(point, moment)
	}
	return all
}

// promised returns the facts that every request of a point has.
func promised(point contract.Point, moment contract.Moment) map[string]any {
	return generated(point, moment)[0]
}

func (g *generator) facts(point contract.Point, moment contract.Moment) map[string]any {
	pod := g.pod()
	facts := map[string]any{memberObject: pod, "virtualNode": g.virtualNode()}
	switch {
	case point == contract.PodMutation && moment == contract.MomentAdmission:
		delete(facts, "virtualNode")
		facts["namespace"] = map[string]any{"name": "shop", "labels": map[string]any{"team": "a"}}
		facts["offloading"] = map[string]any{
			"podOffloadingStrategy": pick(g, "Local", "Remote", "LocalAndRemote"),
			"clusterSelector":       map[string]any{"nodeSelectorTerms": g.some([]any{nodeTerm("region", "eu"), nodeTerm("zone", "a")})},
		}
		facts["request"] = map[string]any{"user": "ada", "groups": []any{"system:authenticated"}, "dryRun": g.chance()}
		facts["runtimeClassName"] = "liqo"
	case point == contract.MetadataFilter:
		facts[memberObject] = map[string]any{"apiVersion": "v1", "kind": pick(g, "Pod", "ConfigMap", "Secret", "Service"), "metadata": pod["metadata"]}
		facts["notReflected"] = map[string]any{"labels": g.some([]any{"team", "app"}), "annotations": g.some([]any{"example.com/note"})}
	case point == contract.ResourceSliceAdmission:
		facts = map[string]any{
			memberObject: map[string]any{
				"apiVersion": "authentication.liqo.io/v1beta1", "kind": "ResourceSlice", "metadata": pod["metadata"],
				"spec":   map[string]any{"class": "default", "resources": g.entries("cpu", "64", "memory", "128Gi", "nvidia.com/gpu", "2")},
				"status": map[string]any{"resources": g.entries("cpu", "64", "memory", "128Gi", "pods", "110")},
			},
			"tenant":    map[string]any{"clusterID": "rome"},
			"namespace": map[string]any{"name": "liqo-tenant-rome", "labels": map[string]any{"liqo.io/remote-cluster-id": "rome"}},
			"defaults":  map[string]any{"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "20Gi"},
		}
	case point == contract.ShadowPodAdmission:
		delete(facts, "virtualNode")
		facts["tenant"] = map[string]any{"clusterID": "rome"}
		facts["namespace"] = map[string]any{"name": "shop-rome", "labels": map[string]any{"liqo.io/remote-cluster-id": "rome"}}
		facts["request"] = map[string]any{"user": "gpu-0123456789ab", "groups": []any{"rome"}, "dryRun": g.chance()}
		if !g.minimal {
			facts["quota"] = map[string]any{
				"resources": map[string]any{"cpu": "4", "pods": "110"}, "used": g.entries("cpu", "500m", "pods", "1"),
				"limitsEnforcement": pick(g, "None", "Soft", "Hard"),
			}
		}
	case point == contract.ResourceMutation:
		object := g.resource(pod)
		facts[memberObject] = object
		facts["local"] = map[string]any{"apiVersion": "v1", "kind": object["kind"], "metadata": object["metadata"]}
	default:
		facts["local"] = pod
		if slices.Contains(point.Rules().Facts, "patch") && !g.minimal {
			facts["patch"] = map[string]any{
				"nodeSelector": map[string]any{"pool": "gpu"}, "tolerations": []any{map[string]any{"key": "gpu", "operator": "Exists"}},
				"affinity": map[string]any{"nodeAffinity": requiredTerms(nodeTerm("zone", "a"))}, "runtimeClassName": pick(g, "gvisor", "kata"),
			}
		}
	}
	return facts
}

// chance decides about something optional.
func (g *generator) chance() bool { return g.full || !g.minimal && g.IntN(2) == 0 }

func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

// some keeps items by chance.
func (g *generator) some(items []any) []any {
	kept := []any{}
	for _, item := range items {
		if g.chance() {
			kept = append(kept, item)
		}
	}
	return kept
}

// entries keeps members by chance.
func (g *generator) entries(from ...string) map[string]any {
	kept := map[string]any{}
	for i := 0; i < len(from); i += 2 {
		if g.chance() {
			kept[from[i]] = from[i+1]
		}
	}
	return kept
}

func nodeTerm(key string, values ...any) map[string]any {
	return map[string]any{"matchExpressions": []any{map[string]any{"key": key, "operator": "In", "values": values}}}
}

func requiredTerms(terms ...any) map[string]any {
	return map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": terms}}
}

func (g *generator) virtualNode() map[string]any {
	return map[string]any{
		"name": "milan", "providerClusterID": "milan", "consumerClusterID": "rome",
		"labels": g.entries("region", "eu", "topology.kubernetes.io/zone", "a"),
	}
}

func (g *generator) metadata() map[string]any {
	metadata := map[string]any{"name": pick(g, "web", "web-0", "db"), "namespace": "shop"}
	if labels := g.entries("app", "web", "team", pick(g, "a", "b"), "example.com/tier", "front", "offloading.liqo.io/origin", "rome"); len(labels) > 0 {
		metadata["labels"] = labels
	}
	annotations := g.entries("example.com/note", "größe \"ä\" \t\u2028", "liqo.io/anti-affinity-preset", pick(g, "soft", "hard", "propagate"), "example.com/region", "eu")
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	return metadata
}

// resource makes a reflected object of any kind.
func (g *generator) resource(pod map[string]any) map[string]any {
	object := map[string]any{"apiVersion": "v1", "metadata": pod["metadata"]}
	switch object["kind"] = pick(g, "ConfigMap", "Secret", "Service", "Pod"); object["kind"] {
	case "ConfigMap":
		object["data"] = g.entries("region", "home", "a.b", "")
	case "Secret":
		object["type"] = "Opaque"
		object["data"] = g.entries("password", "aHVudGVyMg==")
	case "Service":
		object["spec"] = map[string]any{"type": "ClusterIP", "selector": g.entries("app", "web"), "ports": []any{map[string]any{"name": "http", "port": int64(80)}}}
	default:
		object["spec"] = pod["spec"]
	}
	return object
}

func (g *generator) pod() map[string]any {
	spec := map[string]any{}
	var containers []any
	for i := range 1 + g.IntN(3) {
		containers = append(containers, g.container(strconv.Itoa(i)))
	}
	spec["containers"] = containers
	if g.chance() {
		spec["initContainers"] = []any{g.container("init")}
	}
	if selector := g.entries("accelerator", pick(g, "gpu", "tpu"), "disk", "fast"); len(selector) > 0 {
		spec["nodeSelector"] = selector
	}
	spec["volumes"] = []any{map[string]any{"name": "data", "emptyDir": map[string]any{}}}
	if tolerations := g.some([]any{
		map[string]any{"key": "accelerator", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
		map[string]any{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300)},
	}); len(tolerations) > 0 {
		spec["tolerations"] = tolerations
	}
	if g.chance() {
		selector := map[string]any{"matchLabels": map[string]any{"app": "web"}}
		spec["affinity"] = map[string]any{
			"nodeAffinity":    requiredTerms(nodeTerm("region", "eu", "us")),
			"podAntiAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}}},
		}
		spec["topologySpreadConstraints"] = []any{map[string]any{"maxSkew": int64(1), "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}}
	}
	if g.chance() {
		spec["securityContext"] = map[string]any{"runAsUser": int64(1000), "seccompProfile": map[string]any{"type": "RuntimeDefault"}}
	}
	if g.chance() {
		spec["runtimeClassName"] = pick(g, "liqo", "gvisor", "nvidia")
	}
	if g.chance() {
		spec["priorityClassName"] = "high"
	}
	return map[string]any{"metadata": g.metadata(), "spec": spec}
}

func (g *generator) container(suffix string) map[string]any {
	container := map[string]any{
		"name":  "c" + suffix,
		"image": pick(g, "web:1", "docker.io/library/web@sha256:0", "quay.io/team/log:2", "localhost:5000/a/b", "registry.example/team/web:v1"),
	}
	if g.chance() {
		resources := map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "64Mi"}}
		if g.chance() {
			resources["limits"] = map[string]any{"memory": "128Mi", "nvidia.com/gpu": "1"}
			resources["requests"] = map[string]any{"memory": "64Mi", "nvidia.com/gpu": "1"}
		}
		container["resources"] = resources
	}
	if g.chance() {
		container["env"] = []any{map[string]any{"name": "A", "value": "x"}}
		container["volumeMounts"] = []any{map[string]any{"name": "data", "mountPath": "/data"}}
	}
	if g.chance() {
		container["securityContext"] = map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}}}
	}
	return container
}
