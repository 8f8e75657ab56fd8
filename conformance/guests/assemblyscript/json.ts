// A JSON scanner that keeps one value: the string at
// /facts/object/spec/nodeSelector/accelerator, as it is written, quotes included. The
// host writes names without escapes, so names are compared as they are.

const path: StaticArray<StaticArray<u8>> = [
  bytes("facts"), bytes("object"), bytes("spec"), bytes("nodeSelector"), bytes("accelerator"),
];
const steps: i32 = 5;
const deepest: i32 = 64;

function bytes(text: string): StaticArray<u8> {
  const out = new StaticArray<u8>(text.length);
  for (let i = 0; i < text.length; i++) out[i] = u8(text.charCodeAt(i));
  return out;
}

let at: usize = 0;
let end: usize = 0;

// Where the value was found, 0 for nowhere.
export let found: usize = 0;
export let foundEnd: usize = 0;
// Something else than a string stands there.
export let wrong: bool = false;

// scan tells whether the n bytes at the address are one JSON value.
export function scan(address: usize, n: usize): bool {
  at = address;
  end = address + n;
  if (!value(0, 0)) return false;
  space();
  return at == end;
}

@inline function peek(): i32 {
  return at < end ? i32(load<u8>(at)) : 0;
}

@inline function take(c: i32): bool {
  if (at >= end || i32(load<u8>(at)) != c) return false;
  at++;
  return true;
}

function space(): void {
  while (at < end) {
    const c = load<u8>(at);
    if (c != 0x20 && c != 0x0a && c != 0x0d && c != 0x09) return;
    at++;
  }
}

function literal(a: i32, b: i32, c: i32): bool {
  at++;
  return take(a) && take(b) && take(c);
}

function hex(c: i32): bool {
  return (c >= 0x30 && c <= 0x39) || ((c | 32) >= 0x61 && (c | 32) <= 0x66);
}

function str(): bool {
  if (!take(0x22)) return false;
  while (at < end) {
    let c = i32(load<u8>(at++));
    if (c == 0x22) return true;
    if (c < 0x20) return false;
    if (c != 0x5c) continue;
    c = peek();
    at++;
    if (c == 0x75) { // u
      for (let i = 0; i < 4; i++, at++) if (!hex(peek())) return false;
    } else if (c != 0x22 && c != 0x5c && c != 0x2f && c != 0x62 && c != 0x66 && c != 0x6e && c != 0x72 && c != 0x74) {
      return false;
    }
  }
  return false;
}

function digits(): bool {
  const begin = at;
  while (at < end && load<u8>(at) >= 0x30 && load<u8>(at) <= 0x39) at++;
  return at > begin;
}

function number(): bool {
  take(0x2d);
  if (!take(0x30) && !digits()) return false;
  if (take(0x2e) && !digits()) return false;
  if (take(0x65) || take(0x45)) {
    if (!take(0x2b)) take(0x2d);
    return digits();
  }
  return true;
}

// next answers with the state behind the name that ends here.
function next(state: i32, begin: usize): i32 {
  if (state < 0 || state >= steps) return -1;
  const want = unchecked(path[state]);
  if (i32(at - begin) != want.length + 2) return -1;
  for (let i = 0; i < want.length; i++) {
    if (load<u8>(begin + 1 + i) != unchecked(want[i])) return -1;
  }
  return state + 1;
}

// value skips a value. On the way to what we look for, state is the number of names
// that led here, and -1 elsewhere.
function value(state: i32, depth: i32): bool {
  if (depth > deepest) return false;
  space();
  const c = peek();
  if (c == 0x22) {
    const begin = at;
    if (!str()) return false;
    if (state == steps) {
      found = begin;
      foundEnd = at;
    }
    return true;
  }
  if (state == steps) wrong = true;
  switch (c) {
    case 0x7b: return object(state, depth);
    case 0x5b: return array(depth);
    case 0x74: return literal(0x72, 0x75, 0x65);
    case 0x66: return literal(0x61, 0x6c, 0x73) && take(0x65);
    case 0x6e: return literal(0x75, 0x6c, 0x6c);
    default: return number();
  }
}

function object(state: i32, depth: i32): bool {
  at++;
  space();
  if (take(0x7d)) return true;
  do {
    space();
    const begin = at;
    if (!str()) return false;
    const after = next(state, begin);
    space();
    if (!take(0x3a) || !value(after, depth + 1)) return false;
    space();
  } while (take(0x2c));
  return take(0x7d);
}

function array(depth: i32): bool {
  at++;
  space();
  if (take(0x5d)) return true;
  do {
    if (!value(-1, depth + 1)) return false;
    space();
  } while (take(0x2c));
  return take(0x5d);
}
