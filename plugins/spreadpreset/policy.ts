// The policy spread-preset: an annotation spreads the pods of an application over clusters,
// over the nodes of each cluster, or over both. README.md explains how to build and load it.

import { Answer, Point, Request, Value, manifest, quote, serve, serveSettings } from "@longshore/policy";

// presetAnnotation of a pod is "clusters", "nodes" or "clusters+nodes".
const presetAnnotation = "example.com/spread";

// appLabel selects the pods that are spread: those with the same value.
const appLabel = "app.kubernetes.io/name";

// clusterLabel and nodeLabel are labels of nodes. Virtual nodes have the first.
const clusterLabel = "liqo.io/remote-cluster-id";
const nodeLabel = "kubernetes.io/hostname";

const constraints = "/spec/topologySpreadConstraints";

// escaped is a key as a token of a path.
function escaped(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

// describe declares one annotation, one label and the constraints that there are. The pod
// that is created is spread over clusters, because the local scheduler chooses them; the
// remote pod over nodes.
export function describe(): i32 {
  return manifest("spread-preset", "1.0.0", [
    new Point("PodMutation", [
      "/object/metadata/labels/" + escaped(appLabel),
      "/object/metadata/annotations/" + escaped(presetAnnotation),
      "/object" + constraints,
      "/local/metadata/annotations/" + escaped(presetAnnotation),
    ]).writes(constraints, ["ensure"]),
  ]);
}

// spreads reports whether a pod has a constraint over a topology already. Kubernetes takes
// one for each topology, and its author's stays.
function spreads(pod: Value, topology: string): bool {
  const have = pod.get("spec").get("topologySpreadConstraints").members;
  for (let i = 0; i < have.length; i++) {
    if (have[i].value.get("topologyKey").text == topology) return true;
  }
  return false;
}

// check returns what is wrong with the settings.
function check(settings: Value): string {
  return settings.exists && settings.json != "{}" && settings.json != "null" ? "spec.settings: this policy has none" : "";
}

export function validate_settings(): i32 {
  return serveSettings(check);
}

export function pod_mutation(): i32 {
  return serve("PodMutation", (request: Request, answer: Answer) => {
    const problem = check(request.settings);
    if (problem.length > 0) return answer.fail(problem);
    const atAdmission = request.moment == "Admission";
    const object = request.facts.get("object");
    const from = atAdmission ? object : request.facts.get("local");
    const preset = from.get("metadata").get("annotations").get(presetAnnotation);
    if (!preset.exists) return;
    if (preset.text != "clusters" && preset.text != "nodes" && preset.text != "clusters+nodes") {
      return answer.deny("UnknownSpread", "the annotation " + presetAnnotation + " is " + preset.json + ": set it to clusters, nodes or clusters+nodes");
    }
    if (preset.text == (atAdmission ? "nodes" : "clusters")) return;
    const app = object.get("metadata").get("labels").get(appLabel);
    if (!app.isString) return answer.warn("the pod has no label " + appLabel + ", so it is not spread");
    const topology = atAdmission ? clusterLabel : nodeLabel;
    if (spreads(object, topology)) return;
    answer.ensure(constraints, '[{"maxSkew":1,"topologyKey":' + quote(topology) + ',"whenUnsatisfiable":"ScheduleAnyway",' +
      '"labelSelector":{"matchLabels":{' + quote(appLabel) + ":" + app.json + "}}}]");
  });
}
