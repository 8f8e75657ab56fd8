// An AssemblyScript policy that reads behind the end of an array. What AssemblyScript
// calls then is stop, which hands the message to the host.

@external("extism:host/env", "input_length") declare function input_length(): u64;
@external("extism:host/env", "alloc") declare function alloc(bytes: u64): u64;
@external("extism:host/env", "store_u8") declare function store_u8(address: u64, value: u8): void;
@external("extism:host/env", "output_set") declare function output_set(address: u64, bytes: u64): void;
@external("extism:host/env", "error_set") declare function error_set(address: u64): void;

function block(text: string): u64 {
  const at = alloc(text.length);
  for (let i = 0; i < text.length; i++) store_u8(at + i, u8(text.charCodeAt(i)));
  return at;
}

function stop(message: string | null, file: string | null, line: u32, column: u32): void {
  error_set(block((message === null ? "abort" : message) + " at " + (file === null ? "" : file) + ":" + line.toString()));
  unreachable();
}

function answer(text: string): i32 {
  output_set(block(text), text.length);
  return 0;
}

export function describe(): i32 {
  return answer(
    '{"name":"probe","version":"1.0.0","contracts":["v1alpha1"],"points":[{"point":"PodMutation",' +
    '"moments":["Admission"],"reads":["/object/metadata"]}]}');
}

export function pod_mutation(): i32 {
  if (input_length() < 1024) return answer('{"version":"v1alpha1"}');
  const pools: string[] = ["a", "b"];
  return pools[i32(input_length())].length;
}
