// The policy "accelerator" with Extism's own kit for AssemblyScript: what it imports
// and how it reads and answers is the kit's, and none of ours.
//
//	asc pdk.ts --outFile pdk.wasm --optimize --runtime stub --use abort=pdk/stop

import { Host, Memory } from "@extism/as-pdk/index";
import { error_set } from "@extism/as-pdk/lib/env";
import { after, before, manifest, notAString, notJSON, nothing } from "./answers";
import { found, foundEnd, scan, wrong } from "./json";

function stop(message: string | null, file: string | null, line: u32, column: u32): void {
  unreachable();
}

function fail(text: string): i32 {
  error_set(Memory.allocateString(text).offset);
  return 1;
}

export function describe(): i32 {
  Host.outputString(manifest);
  return 0;
}

export function pod_mutation(): i32 {
  const input = Host.input();
  if (!scan(input.dataStart, input.byteLength)) return fail(notJSON);
  if (wrong) return fail(notAString);
  if (found == 0) {
    Host.outputString(nothing);
    return 0;
  }
  // Not Host.outputString: it counts UTF-16 units where it means bytes.
  const text = before + String.UTF8.decodeUnsafe(found, foundEnd - found) + after;
  Host.output(Uint8Array.wrap(String.UTF8.encode(text)));
  return 0;
}
