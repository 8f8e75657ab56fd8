// The policy "accelerator" in C, without a library: a pod that selects nodes with an
// accelerator gets the toleration of their taint.
//
// It reads the whole request as JSON and refuses what is none; what it keeps is the
// string at /facts/object/spec/nodeSelector/accelerator, as it is written, quotes
// included. The host writes names without escapes, so names are compared as they are.
//
//	clang --target=wasm32 -O2 -nostdlib -ffreestanding -Wl,--no-entry -Wl,--strip-all -o policy.wasm policy.c

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define IMPORT(name) __attribute__((import_module("extism:host/env"), import_name(#name))) extern
#define EXPORT(name) __attribute__((export_name(#name)))

IMPORT(input_length) u64 input_length(void);
IMPORT(input_load_u8) u8 input_load_u8(u64 offset);
IMPORT(input_load_u64) u64 input_load_u64(u64 offset);
IMPORT(alloc) u64 alloc(u64 bytes);
IMPORT(store_u8) void store_u8(u64 address, u8 value);
IMPORT(store_u64) void store_u64(u64 address, u64 value);
IMPORT(output_set) void output_set(u64 address, u64 bytes);
IMPORT(error_set) void error_set(u64 address);

extern u8 __heap_base;

static const u8 *at, *end;          // what is left of the request
static const u8 *found, *found_end; // the value, quotes included
static int wrong;                   // something else than a string stands there

enum { steps = 5, deepest = 64 };
static const char *const path[steps] = {"facts", "object", "spec", "nodeSelector", "accelerator"};

// A compiler may make calls of this from loops.
void *memcpy(void *to, const void *from, unsigned long n) {
	for (u8 *t = to; n > 0; n--) *t++ = *(const u8 *)from, from = (const u8 *)from + 1;
	return to;
}

static void load(void) {
	u64 n = input_length();
	u8 *buffer = (u8 *)(((u32)&__heap_base + 7) & ~7u);
	u32 have = __builtin_wasm_memory_size(0) << 16, need = (u32)buffer + (u32)n;
	if (need > have && __builtin_wasm_memory_grow(0, (need - have + 65535) >> 16) == -1ul) __builtin_trap();
	u64 i = 0;
	for (; i + 8 <= n; i += 8) *(u64 *)(buffer + i) = input_load_u64(i);
	for (; i < n; i++) buffer[i] = input_load_u8(i);
	at = buffer;
	end = buffer + n;
}

static int peek(void) { return at < end ? *at : 0; }

static int take(int c) {
	if (peek() != c || at == end) return 0;
	at++;
	return 1;
}

static void space(void) {
	while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
}

static int literal(const char *word) {
	for (; *word; word++)
		if (!take(*word)) return 0;
	return 1;
}

static int hex(int c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f'); }

static int string(void) {
	if (!take('"')) return 0;
	while (at < end) {
		int c = *at++;
		if (c == '"') return 1;
		if (c < 0x20) return 0;
		if (c != '\\') continue;
		switch (c = peek(), at++, c) {
		case 'u':
			for (int i = 0; i < 4; i++, at++)
				if (!hex(peek())) return 0;
		case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
			break;
		default:
			return 0;
		}
	}
	return 0;
}

static int digits(void) {
	const u8 *begin = at;
	while (at < end && *at >= '0' && *at <= '9') at++;
	return at > begin;
}

static int number(void) {
	take('-');
	if (!take('0') && !digits()) return 0;
	if (take('.') && !digits()) return 0;
	if (take('e') || take('E')) {
		if (!take('+')) take('-');
		if (!digits()) return 0;
	}
	return 1;
}

// next answers with the state behind the name that ends here.
static int next(int state, const u8 *begin) {
	if (state < 0 || state >= steps) return -1;
	const char *want = path[state];
	for (begin++; begin < at - 1; begin++, want++)
		if (*begin != (u8)*want) return -1; // a zero ends the wanted name
	return *want ? -1 : state + 1;
}

// value skips a value. On the way to what we look for, state is the number of names
// that led here, and -1 elsewhere.
static int value(int state, int depth) {
	if (depth > deepest) return 0;
	space();
	const u8 *begin = at;
	switch (peek()) {
	case '"':
		if (!string()) return 0;
		if (state == steps) found = begin, found_end = at;
		return 1;
	case '{':
		wrong |= state == steps;
		at++, space();
		if (take('}')) return 1;
		do {
			space();
			begin = at;
			if (!string()) return 0;
			int after = next(state, begin);
			space();
			if (!take(':') || !value(after, depth + 1)) return 0;
			space();
		} while (take(','));
		return take('}');
	case '[':
		wrong |= state == steps;
		at++, space();
		if (take(']')) return 1;
		do {
			if (!value(-1, depth + 1)) return 0;
			space();
		} while (take(','));
		return take(']');
	}
	wrong |= state == steps;
	switch (peek()) {
	case 't': return literal("true");
	case 'f': return literal("false");
	case 'n': return literal("null");
	default: return number();
	}
}

static u64 length(const char *text) {
	u64 n = 0;
	while (text[n]) n++;
	return n;
}

static u64 put(u64 to, const u8 *from, u64 n) {
	u64 i = 0;
	for (; i + 8 <= n; i += 8) {
		u64 word;
		__builtin_memcpy(&word, from + i, 8);
		store_u64(to + i, word);
	}
	for (; i < n; i++) store_u8(to + i, from[i]);
	return to + n;
}

static int fail(const char *text) {
	u64 block = alloc(length(text));
	put(block, (const u8 *)text, length(text));
	error_set(block);
	return 1;
}

static int answer(const char *before, const u8 *middle, u64 n, const char *after) {
	u64 bytes = length(before) + n + length(after), block = alloc(bytes), p = block;
	p = put(p, (const u8 *)before, length(before));
	p = put(p, middle, n);
	put(p, (const u8 *)after, length(after));
	output_set(block, bytes);
	return 0;
}

EXPORT(describe) int describe(void) {
	return answer("{\"name\":\"accelerator\",\"version\":\"1.0.0\",\"contracts\":[\"v1alpha1\"],"
	              "\"points\":[{\"point\":\"PodMutation\",\"moments\":[\"Admission\"],\"reads\":[\"/object/spec/nodeSelector\"],"
	              "\"writes\":[{\"path\":\"/spec/tolerations\",\"verbs\":[\"ensure\"]}]}]}", 0, 0, "");
}

EXPORT(pod_mutation) int pod_mutation(void) {
	load();
	int good = value(0, 0);
	space();
	if (!good || at != end) return fail("the request is not JSON");
	if (wrong) return fail("spec.nodeSelector.accelerator is not a string");
	if (!found) return answer("{\"version\":\"v1alpha1\"}", 0, 0, "");
	return answer("{\"version\":\"v1alpha1\",\"operations\":[{\"op\":\"ensure\",\"path\":\"/spec/tolerations\","
	              "\"value\":[{\"key\":\"accelerator\",\"operator\":\"Equal\",\"value\":",
	              found, (u64)(found_end - found), ",\"effect\":\"NoSchedule\"}]}]}");
}
