// A C policy that gives up: __builtin_trap, after it has said why, or without.

typedef unsigned char u8;
typedef unsigned long long u64;

#define IMPORT(name) __attribute__((import_module("extism:host/env"), import_name(#name))) extern
#define EXPORT(name) __attribute__((export_name(#name)))

IMPORT(input_length) u64 input_length(void);
IMPORT(alloc) u64 alloc(u64 bytes);
IMPORT(store_u8) void store_u8(u64 address, u8 value);
IMPORT(output_set) void output_set(u64 address, u64 bytes);
IMPORT(error_set) void error_set(u64 address);

static u64 text(const char *words, u64 *bytes) {
	for (*bytes = 0; words[*bytes]; ++*bytes)
		;
	u64 block = alloc(*bytes);
	for (u64 i = 0; i < *bytes; i++) store_u8(block + i, (u8)words[i]);
	return block;
}

static int answer(const char *words) {
	u64 bytes, block = text(words, &bytes);
	output_set(block, bytes);
	return 0;
}

EXPORT(describe) int describe(void) {
	return answer("{\"name\":\"probe\",\"version\":\"1.0.0\",\"contracts\":[\"v1alpha1\"],"
	              "\"points\":[{\"point\":\"PodMutation\",\"moments\":[\"Admission\"],\"reads\":[\"/object/metadata\"]}]}");
}

EXPORT(pod_mutation) int pod_mutation(void) {
	u64 bytes, n = input_length();
	if (n < 1024) return answer("{\"version\":\"v1alpha1\"}");
	if (n > 4096) error_set(text("assertion failed: pool != NULL (policy.c:42)", &bytes));
	__builtin_trap();
}
