// The policy "accelerator" with Extism's kit for AssemblyScript, whose functions read the
// input and write the answer.

import { Host, Memory } from "@extism/as-pdk/index";
import { error_set } from "@extism/as-pdk/lib/env";
import { Value, quote } from "@longshore/policy/json";

function stop(message: string | null, file: string | null, line: u32, column: u32): void {
  unreachable();
}

function fail(text: string): i32 {
  error_set(Memory.allocateString(text).offset);
  return 1;
}

// Host.outputString counts UTF-16 units where it means bytes.
function answer(text: string): i32 {
  Host.output(Uint8Array.wrap(String.UTF8.encode(text)));
  return 0;
}

export function describe(): i32 {
  return answer(
    '{"name":"accelerator","version":"1.0.0","contracts":["v1alpha1"],"points":[{"point":"PodMutation",' +
    '"moments":["Admission"],"reads":["/object/spec/nodeSelector"],' +
    '"writes":[{"path":"/spec/tolerations","verbs":["ensure"]}]}]}');
}

export function pod_mutation(): i32 {
  const input = Host.input();
  const request = Value.parse(input.dataStart, input.byteLength);
  if (!request.exists) return fail("the request is not JSON");
  const kind = request.get("facts").get("object").get("spec").get("nodeSelector").get("accelerator");
  if (!kind.exists) return answer('{"version":"v1alpha1"}');
  if (!kind.isString) return fail("spec.nodeSelector.accelerator is not a string");
  return answer(
    '{"version":"v1alpha1","operations":[{"op":"ensure","path":"/spec/tolerations",' +
    '"value":[{"key":"accelerator","operator":"Equal","value":' + quote(kind.text) + ',"effect":"NoSchedule"}]}]}');
}
