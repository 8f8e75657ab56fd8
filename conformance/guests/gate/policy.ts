// The policy "gate" in AssemblyScript, with the SDK: as in policy.c.

import { Answer, Point, Request, manifest, serve } from "@longshore/policy";

const SITE = "example.com/site";
const ORIGIN = "example.com/origin";

export function describe(): i32 {
  return manifest("gate", "1.0.0", [
    new Point("ResourceMutation", ["/local/metadata/labels/example.com~1site", "/virtualNode/consumerClusterID"]).writes("/metadata/annotations", ["merge"], [ORIGIN]),
    new Point("ShadowPodAdmission", ["/object/spec/containers[*]/name", "/object/spec/containers[*]/securityContext/privileged"]),
    new Point("ResourceSliceAdmission", ["/object/spec/class"]),
  ]);
}

export function resource_mutation(): i32 {
  return serve("ResourceMutation", (request: Request, answer: Answer) => {
    const site = request.facts.get("local").get("metadata").get("labels").get(SITE);
    const consumer = request.facts.get("virtualNode").get("consumerClusterID").text;
    if (site.isString && site.text == "home") return answer.skip("HomeOnly", "it is of use in cluster " + consumer + " only");
    if (site.exists && !(site.isString && site.text == "any")) return answer.fail("label " + SITE + " is not home or any");
    answer.mergeString("/metadata/annotations", ORIGIN, consumer);
  });
}

export function shadow_pod_admission(): i32 {
  return serve("ShadowPodAdmission", (request: Request, answer: Answer) => {
    const containers = request.facts.get("object").get("spec").get("containers").members;
    for (let i = 0; i < containers.length; i++) {
      if (containers[i].value.get("securityContext").get("privileged").isTrue) {
        return answer.deny("Privileged", "container " + containers[i].value.get("name").text + " is privileged");
      }
    }
  });
}

export function resource_slice_admission(): i32 {
  return serve("ResourceSliceAdmission", (request: Request, answer: Answer) => {
    const name = request.facts.get("object").get("spec").get("class");
    if (name.isString && name.text != "" && name.text != "default") answer.deny("UnknownClass", "class " + name.text + " is not granted");
  });
}
