// The policy "accelerator" in AssemblyScript, with the SDK: a pod that selects nodes with an
// accelerator gets the toleration of their taint.

import { Answer, Point, Request, manifest, quote, serve } from "@longshore/policy";

export function describe(): i32 {
  return manifest("accelerator", "1.0.0", [
    new Point("PodMutation", ["/object/spec/nodeSelector"], ["Admission"]).writes("/spec/tolerations", ["ensure"]),
  ]);
}

export function pod_mutation(): i32 {
  return serve("PodMutation", (request: Request, answer: Answer) => {
    const kind = request.facts.get("object").get("spec").get("nodeSelector").get("accelerator");
    if (!kind.exists) return;
    if (!kind.isString) return answer.fail("spec.nodeSelector.accelerator is not a string");
    answer.ensure("/spec/tolerations", '[{"key":"accelerator","operator":"Equal","value":' + quote(kind.text) + ',"effect":"NoSchedule"}]');
  });
}
