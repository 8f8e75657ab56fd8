// The policy "accelerator" in AssemblyScript, with the host's functions declared by
// hand: a pod that selects nodes with an accelerator gets the toleration of their taint.
//
//	asc policy.ts --outFile policy.wasm --optimize --runtime stub --use abort=policy/stop

import { after, before, manifest, notAString, notJSON, nothing } from "./answers";
import { found, foundEnd, scan, wrong } from "./json";

@external("extism:host/env", "input_length") declare function input_length(): u64;
@external("extism:host/env", "input_load_u8") declare function input_load_u8(offset: u64): u8;
@external("extism:host/env", "input_load_u64") declare function input_load_u64(offset: u64): u64;
@external("extism:host/env", "alloc") declare function alloc(bytes: u64): u64;
@external("extism:host/env", "store_u8") declare function store_u8(address: u64, value: u8): void;
@external("extism:host/env", "store_u64") declare function store_u64(address: u64, value: u64): void;
@external("extism:host/env", "output_set") declare function output_set(address: u64, bytes: u64): void;
@external("extism:host/env", "error_set") declare function error_set(address: u64): void;

// stop is what AssemblyScript calls when it gives up. The message reaches the host as
// the module's error.
function stop(message: string | null, file: string | null, line: u32, column: u32): void {
  fail((message === null ? "abort" : message) + " at " + (file === null ? "" : file) + ":" + line.toString());
  unreachable();
}

function put(to: u64, from: usize, n: usize): u64 {
  let i: usize = 0;
  for (; i + 8 <= n; i += 8) store_u64(to + i, load<u64>(from + i));
  for (; i < n; i++) store_u8(to + i, load<u8>(from + i));
  return to + n;
}

function ascii(to: u64, text: string): u64 {
  for (let i = 0; i < text.length; i++) store_u8(to + i, u8(text.charCodeAt(i)));
  return to + text.length;
}

function fail(text: string): i32 {
  const block = alloc(text.length);
  ascii(block, text);
  error_set(block);
  return 1;
}

function answer(text: string): i32 {
  const block = alloc(text.length);
  ascii(block, text);
  output_set(block, text.length);
  return 0;
}

export function describe(): i32 {
  return answer(manifest);
}

export function pod_mutation(): i32 {
  const n = usize(input_length());
  const input = heap.alloc(n);
  let i: usize = 0;
  for (; i + 8 <= n; i += 8) store<u64>(input + i, input_load_u64(i));
  for (; i < n; i++) store<u8>(input + i, input_load_u8(i));
  if (!scan(input, n)) return fail(notJSON);
  if (wrong) return fail(notAString);
  if (found == 0) return answer(nothing);
  const bytes = before.length + i32(foundEnd - found) + after.length;
  const block = alloc(bytes);
  ascii(put(ascii(block, before), found, foundEnd - found), after);
  output_set(block, bytes);
  return 0;
}
