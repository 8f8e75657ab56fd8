// The host's functions. Addresses are those of the host's memory.

@external("extism:host/env", "input_length") declare function input_length(): u64;
@external("extism:host/env", "input_load_u8") declare function input_load_u8(offset: u64): u8;
@external("extism:host/env", "input_load_u64") declare function input_load_u64(offset: u64): u64;
@external("extism:host/env", "alloc") declare function alloc(bytes: u64): u64;
@external("extism:host/env", "store_u8") declare function store_u8(address: u64, value: u8): void;
@external("extism:host/env", "store_u64") declare function store_u64(address: u64, value: u64): void;
@external("extism:host/env", "output_set") declare function output_set(address: u64, bytes: u64): void;
@external("extism:host/env", "error_set") declare function error_set(address: u64): void;
@external("extism:host/env", "log_info") declare function log_info(address: u64): void;

// readInput copies the input of the call. The buffer must be kept.
export function readInput(): ArrayBuffer {
  const n = i32(input_length());
  const buffer = new ArrayBuffer(n);
  const at = changetype<usize>(buffer);
  let i = 0;
  for (; i + 8 <= n; i += 8) store<u64>(at + i, input_load_u64(i));
  for (; i < n; i++) store<u8>(at + i, input_load_u8(i));
  return buffer;
}

// block copies text into a new block of the host's memory.
function block(bytes: ArrayBuffer): u64 {
  const n = bytes.byteLength, at = changetype<usize>(bytes);
  const address = alloc(n);
  let i = 0;
  for (; i + 8 <= n; i += 8) store_u64(address + i, load<u64>(at + i));
  for (; i < n; i++) store_u8(address + i, load<u8>(at + i));
  return address;
}

function encode(text: string): ArrayBuffer {
  return String.UTF8.encode(text, false, String.UTF8.ErrorMode.REPLACE);
}

// answerWith sets the output of the call.
export function answerWith(text: string): i32 {
  const bytes = encode(text);
  output_set(block(bytes), bytes.byteLength);
  return 0;
}

// fail reports an error, and returns the result of the export.
export function fail(message: string): i32 {
  error_set(block(encode(message)));
  return 1;
}

// log writes a line to the host's log.
export function log(text: string): void {
  log_info(block(encode(text)));
}
