// longshore.h is the SDK for policies in C: one header, without a library.
//
//	clang --target=wasm32 -O2 -nostdlib -ffreestanding -Wl,--no-entry -Wl,--strip-all -o module.wasm policy.c
//
// A policy includes this header in one file, defines its manifest with LS_MANIFEST, and
// answers each extension point of the manifest with LS_POINT. docs/reference/abi.md
// describes the ABI, and sdk/contract/schema has a JSON schema for each document.
//
// Every call starts from the same state of the module, so nothing needs to be freed.

#ifndef LONGSHORE_H
#define LONGSHORE_H

typedef unsigned char ls_u8;
typedef unsigned int ls_u32;
typedef unsigned long long ls_u64;

// LS_CONTRACT is the version of the contract that this header implements.
#define LS_CONTRACT "v1alpha1"

#define LS_IMPORT(name) __attribute__((import_module("extism:host/env"), import_name(#name))) extern
#define LS_EXPORT(name) __attribute__((export_name(#name)))
#define LS_UNUSED __attribute__((unused))

LS_IMPORT(input_length) ls_u64 ls_host_input_length(void);
LS_IMPORT(input_load_u8) ls_u8 ls_host_input_load_u8(ls_u64 offset);
LS_IMPORT(input_load_u64) ls_u64 ls_host_input_load_u64(ls_u64 offset);
LS_IMPORT(alloc) ls_u64 ls_host_alloc(ls_u64 bytes);
LS_IMPORT(store_u8) void ls_host_store_u8(ls_u64 address, ls_u8 value);
LS_IMPORT(store_u64) void ls_host_store_u64(ls_u64 address, ls_u64 value);
LS_IMPORT(output_set) void ls_host_output_set(ls_u64 address, ls_u64 bytes);
LS_IMPORT(error_set) void ls_host_error_set(ls_u64 address);
LS_IMPORT(log_info) void ls_host_log_info(ls_u64 address);

extern ls_u8 __heap_base;

// Memory.

// memcpy is called by code that the compiler generates.
__attribute__((weak)) void *memcpy(void *to, const void *from, unsigned long n) {
	for (unsigned long i = 0; i < n; i++) ((ls_u8 *)to)[i] = ((const ls_u8 *)from)[i];
	return to;
}

// memset is called by code that the compiler generates.
__attribute__((weak)) void *memset(void *to, int byte, unsigned long n) {
	for (unsigned long i = 0; i < n; i++) ((ls_u8 *)to)[i] = (ls_u8)byte;
	return to;
}

static ls_u32 ls_heap;

// ls_alloc returns memory until the end of the call.
static LS_UNUSED void *ls_alloc(ls_u32 bytes) {
	if (ls_heap == 0) ls_heap = ((ls_u32)&__heap_base + 7) & ~7u;
	ls_u64 end = (ls_u64)ls_heap + bytes, have = (ls_u64)__builtin_wasm_memory_size(0) << 16;
	if (end > have && __builtin_wasm_memory_grow(0, (ls_u32)((end - have + 65535) >> 16)) == -1ul) __builtin_trap();
	void *memory = (void *)ls_heap;
	ls_heap = (ls_u32)(end + 7) & ~7u;
	return memory;
}

// ls_text is text in UTF-8. It is not terminated.
typedef struct {
	const char *at;
	ls_u32 length;
} ls_text;

// ls_string returns the text of a C string.
static LS_UNUSED ls_text ls_string(const char *text) {
	ls_u32 n = 0;
	while (text[n]) n++;
	return (ls_text){text, n};
}

// ls_equal reports whether a text is that of a C string.
static LS_UNUSED int ls_equal(ls_text text, const char *want) {
	for (ls_u32 i = 0; i < text.length; i++, want++)
		if (*want == 0 || text.at[i] != *want) return 0;
	return *want == 0;
}

// Reading JSON.

// ls_value is a JSON value of the request. Its length is 0 when it is absent; all functions
// accept absent values and values of another type, and return absent values or empty text.
typedef ls_text ls_value;

enum { ls_max_depth = 200 };

typedef struct {
	const char *at, *end;
} ls_scanner;

static void ls_skip_space(ls_scanner *s) {
	while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t')) s->at++;
}

static int ls_peek(const ls_scanner *s) { return s->at < s->end ? (ls_u8)*s->at : 0; }

static int ls_accept(ls_scanner *s, char c) {
	if (s->at == s->end || *s->at != c) return 0;
	s->at++;
	return 1;
}

static int ls_scan_word(ls_scanner *s, const char *word) {
	for (; *word; word++)
		if (!ls_accept(s, *word)) return 0;
	return 1;
}

static int ls_scan_digits(ls_scanner *s) {
	const char *begin = s->at;
	while (s->at < s->end && *s->at >= '0' && *s->at <= '9') s->at++;
	return s->at > begin;
}

static int ls_scan_number(ls_scanner *s) {
	ls_accept(s, '-');
	if (!ls_accept(s, '0') && !ls_scan_digits(s)) return 0;
	if (ls_accept(s, '.') && !ls_scan_digits(s)) return 0;
	if (ls_accept(s, 'e') || ls_accept(s, 'E')) {
		if (!ls_accept(s, '+')) ls_accept(s, '-');
		return ls_scan_digits(s);
	}
	return 1;
}

static int ls_scan_hex(ls_scanner *s, ls_u32 *number) {
	*number = 0;
	for (int i = 0; i < 4; i++, s->at++) {
		int c = ls_peek(s), lower = c | 32;
		if (c >= '0' && c <= '9') *number = *number << 4 | (ls_u32)(c - '0');
		else if (lower >= 'a' && lower <= 'f') *number = *number << 4 | (ls_u32)(lower - 'a' + 10);
		else return 0;
	}
	return 1;
}

// ls_scan_rune skips a character beyond ASCII. It returns 0 for invalid UTF-8.
static int ls_scan_rune(ls_scanner *s) {
	ls_u32 first = (ls_u8)*s->at++, more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1, rune = first & (0x3fu >> more);
	if (first < 0xc2 || first > 0xf4) return 0;
	for (ls_u32 i = 0; i < more; i++, s->at++) {
		if ((ls_peek(s) & 0xc0) != 0x80) return 0;
		rune = rune << 6 | ((ls_u32)ls_peek(s) & 0x3f);
	}
	return !((more == 2 && rune < 0x800) || (more == 3 && (rune < 0x10000 || rune > 0x10ffff)) || (rune >= 0xd800 && rune < 0xe000));
}

// ls_scan_escaped reads what follows \u: four digits, or a pair of surrogates.
static int ls_scan_escaped(ls_scanner *s, ls_u32 *rune) {
	ls_u32 low;
	if (!ls_scan_hex(s, rune)) return 0;
	if (*rune < 0xd800 || *rune >= 0xe000) return 1;
	if (*rune >= 0xdc00 || !ls_scan_word(s, "\\u") || !ls_scan_hex(s, &low) || low < 0xdc00 || low >= 0xe000) return 0;
	*rune = 0x10000 + ((*rune - 0xd800) << 10) + (low - 0xdc00);
	return 1;
}

static int ls_scan_string(ls_scanner *s) {
	ls_u32 ignored;
	if (!ls_accept(s, '"')) return 0;
	while (s->at < s->end) {
		int c = ls_peek(s);
		if (c >= 0x80) {
			if (!ls_scan_rune(s)) return 0;
			continue;
		}
		s->at++;
		if (c == '"') return 1;
		if (c < 0x20) return 0;
		if (c != '\\') continue;
		switch (c = ls_peek(s), s->at++, c) {
		case 'u':
			if (!ls_scan_escaped(s, &ignored)) return 0;
		case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
			break;
		default:
			return 0;
		}
	}
	return 0;
}

static int ls_scan_value(ls_scanner *s, int depth) {
	int close = 0;
	if (depth > ls_max_depth) return 0;
	ls_skip_space(s);
	switch (ls_peek(s)) {
	case '"': return ls_scan_string(s);
	case 't': return ls_scan_word(s, "true");
	case 'f': return ls_scan_word(s, "false");
	case 'n': return ls_scan_word(s, "null");
	case '{': close = '}'; break;
	case '[': close = ']'; break;
	default: return ls_scan_number(s);
	}
	s->at++;
	ls_skip_space(s);
	if (ls_accept(s, (char)close)) return 1;
	do {
		ls_skip_space(s);
		if (close == '}') {
			if (!ls_scan_string(s)) return 0;
			ls_skip_space(s);
			if (!ls_accept(s, ':')) return 0;
		}
		if (!ls_scan_value(s, depth + 1)) return 0;
		ls_skip_space(s);
	} while (ls_accept(s, ','));
	return ls_accept(s, (char)close);
}

static char *ls_put_rune(char *to, ls_u32 rune) {
	if (rune < 0x80) return *to++ = (char)rune, to;
	if (rune < 0x800) *to++ = (char)(0xc0 | rune >> 6);
	else {
		if (rune < 0x10000) *to++ = (char)(0xe0 | rune >> 12);
		else *to++ = (char)(0xf0 | rune >> 18), *to++ = (char)(0x80 | (rune >> 12 & 0x3f));
		*to++ = (char)(0x80 | (rune >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (rune & 0x3f));
	return to;
}

// ls_is_string reports whether a value is a string.
static LS_UNUSED int ls_is_string(ls_value value) { return value.length > 0 && value.at[0] == '"'; }

// ls_is_object reports whether a value is an object.
static LS_UNUSED int ls_is_object(ls_value value) { return value.length > 0 && value.at[0] == '{'; }

// ls_is_list reports whether a value is a list.
static LS_UNUSED int ls_is_list(ls_value value) { return value.length > 0 && value.at[0] == '['; }

// ls_is_true reports whether a value is true.
static LS_UNUSED int ls_is_true(ls_value value) { return ls_equal(value, "true"); }

// ls_text_of returns the text of a string value.
static LS_UNUSED ls_text ls_text_of(ls_value value) {
	ls_u32 escapes = 0;
	if (!ls_is_string(value)) return (ls_text){0, 0};
	for (ls_u32 i = 1; i + 1 < value.length; i++) escapes |= value.at[i] == '\\';
	if (!escapes) return (ls_text){value.at + 1, value.length - 2};
	char *begin = ls_alloc(value.length), *to = begin;
	ls_scanner s = {value.at + 1, value.at + value.length - 1};
	while (s.at < s.end) {
		char c = *s.at++;
		if (c != '\\') {
			*to++ = c;
			continue;
		}
		ls_u32 rune = 0;
		switch (c = *s.at++, c) {
		case 'b': *to++ = '\b'; break;
		case 'f': *to++ = '\f'; break;
		case 'n': *to++ = '\n'; break;
		case 'r': *to++ = '\r'; break;
		case 't': *to++ = '\t'; break;
		case 'u':
			ls_scan_escaped(&s, &rune);
			to = ls_put_rune(to, rune);
			break;
		default: *to++ = c;
		}
	}
	return (ls_text){begin, (ls_u32)(to - begin)};
}

// ls_iterator visits the members of an object or the items of a list:
//
//	for (ls_iterator i = ls_each(containers); ls_next(&i);) use(i.name, i.value);
typedef struct {
	ls_scanner scanner;
	char close;
	// name of the member; empty in a list.
	ls_text name;
	ls_value value;
} ls_iterator;

// ls_each returns an iterator in front of the first member or item.
static LS_UNUSED ls_iterator ls_each(ls_value value) {
	ls_iterator i = {{0, 0}, 0, {0, 0}, {0, 0}};
	if (ls_is_object(value) || ls_is_list(value)) {
		i.scanner = (ls_scanner){value.at + 1, value.at + value.length};
		i.close = ls_is_object(value) ? '}' : ']';
	}
	return i;
}

static ls_value ls_take(ls_scanner *s) {
	ls_skip_space(s);
	const char *begin = s->at;
	ls_scan_value(s, 0);
	return (ls_value){begin, (ls_u32)(s->at - begin)};
}

// ls_next moves on and returns 0 behind the last member or item.
static LS_UNUSED int ls_next(ls_iterator *i) {
	ls_scanner *s = &i->scanner;
	if (i->close == 0) return 0;
	ls_skip_space(s);
	ls_accept(s, ',');
	ls_skip_space(s);
	if (ls_accept(s, i->close) || s->at == s->end) return i->close = 0, 0;
	if (i->close == '}') {
		i->name = ls_text_of(ls_take(s));
		ls_skip_space(s);
		ls_accept(s, ':');
	}
	i->value = ls_take(s);
	return 1;
}

// ls_member returns the member of an object.
static LS_UNUSED ls_value ls_member(ls_value object, const char *name) {
	ls_value found = {0, 0};
	if (!ls_is_object(object)) return found;
	for (ls_iterator i = ls_each(object); ls_next(&i);)
		if (ls_equal(i.name, name)) found = i.value; // the last one counts
	return found;
}

// Writing JSON.

// ls_writer collects text. LS_TEXT returns what was written.
typedef struct {
	char *at;
	ls_u32 length, room;
} ls_writer;

// ls_write_text appends text as it is.
static LS_UNUSED void ls_write_text(ls_writer *w, ls_text text) {
	if (text.length > w->room - w->length) {
		ls_u32 room = 2 * (w->length + text.length) + 64;
		char *larger = ls_alloc(room);
		memcpy(larger, w->at, w->length);
		w->at = larger, w->room = room;
	}
	memcpy(w->at + w->length, text.at, text.length);
	w->length += text.length;
}

// ls_write appends a C string as it is.
static LS_UNUSED void ls_write(ls_writer *w, const char *text) { ls_write_text(w, ls_string(text)); }

// ls_write_string appends text as a JSON string.
static LS_UNUSED void ls_write_string(ls_writer *w, ls_text text) {
	static const char hex[] = "0123456789abcdef";
	ls_write(w, "\"");
	for (ls_u32 i = 0; i < text.length; i++) {
		ls_u8 c = (ls_u8)text.at[i];
		char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, quoted[2] = {'\\', (char)c};
		if (c == '"' || c == '\\') ls_write_text(w, (ls_text){quoted, 2});
		else if (c < 0x20) ls_write_text(w, (ls_text){escape, 6});
		else ls_write_text(w, (ls_text){text.at + i, 1});
	}
	ls_write(w, "\"");
}

static LS_UNUSED void ls_write_strings(ls_writer *w, const char *name, const char *const *strings) {
	if (!strings) return;
	ls_write(w, ",\"");
	ls_write(w, name);
	ls_write(w, "\":[");
	for (ls_u32 i = 0; strings[i]; i++) {
		if (i > 0) ls_write(w, ",");
		ls_write_string(w, ls_string(strings[i]));
	}
	ls_write(w, "]");
}

// The manifest.

// LS_LIST is a list of C strings for the fields of the manifest.
#define LS_LIST(...) (const char *const[]){__VA_ARGS__, 0}

// ls_write_rule allows verbs at a path of facts.object, for some keys or for all.
typedef struct {
	const char *path;
	const char *const *verbs, *const *keys;
} ls_write_rule;

// ls_point_manifest declares what a policy reads and writes at an extension point. The list
// of writes ends with a rule without a path.
typedef struct {
	const char *point;
	const char *const *moments, *const *reads, *const *settings_reads;
	const ls_write_rule *writes;
} ls_point_manifest;

// ls_manifest describes the module. The list of points ends with one without a name.
typedef struct {
	const char *name, *version;
	const ls_point_manifest *points;
} ls_manifest;

static int ls_answer_with(const ls_writer *w) {
	ls_u64 block = ls_host_alloc(w->length);
	ls_u32 i = 0;
	for (; i + 8 <= w->length; i += 8) {
		ls_u64 word;
		__builtin_memcpy(&word, w->at + i, 8);
		ls_host_store_u64(block + i, word);
	}
	for (; i < w->length; i++) ls_host_store_u8(block + i, (ls_u8)w->at[i]);
	ls_host_output_set(block, w->length);
	return 0;
}

static LS_UNUSED int ls_describe(const ls_manifest *manifest) {
	ls_writer w = {0, 0, 0};
	ls_write(&w, "{\"name\":");
	ls_write_string(&w, ls_string(manifest->name));
	ls_write(&w, ",\"version\":");
	ls_write_string(&w, ls_string(manifest->version));
	ls_write(&w, ",\"contracts\":[\"" LS_CONTRACT "\"],\"points\":[");
	for (const ls_point_manifest *p = manifest->points; p->point; p++) {
		ls_write(&w, p == manifest->points ? "{\"point\":" : ",{\"point\":");
		ls_write_string(&w, ls_string(p->point));
		ls_write_strings(&w, "moments", p->moments);
		ls_write_strings(&w, "reads", p->reads ? p->reads : LS_LIST(0));
		ls_write_strings(&w, "settingsReads", p->settings_reads);
		ls_write(&w, ",\"writes\":[");
		for (const ls_write_rule *r = p->writes; r && r->path; r++) {
			ls_write(&w, r == p->writes ? "{\"path\":" : ",{\"path\":");
			ls_write_string(&w, ls_string(r->path));
			ls_write_strings(&w, "verbs", r->verbs);
			ls_write_strings(&w, "keys", r->keys);
			ls_write(&w, "}");
		}
		ls_write(&w, "]}");
	}
	ls_write(&w, "]}");
	return ls_answer_with(&w);
}

// LS_MANIFEST exports the manifest.
#define LS_MANIFEST(manifest) \
	LS_EXPORT(describe) int ls_export_describe(void) { return ls_describe(&manifest); }

// Requests and answers.

// ls_request is a request to an extension point.
typedef struct {
	// moment is "Admission" or "Offload" at PodMutation, and empty elsewhere.
	ls_text moment;
	// settings of the binding; absent when it has none.
	ls_value settings;
	// facts holds what the manifest reads, and nothing else.
	ls_value facts;
} ls_request;

// ls_answer is the answer to a request. An answer without operations changes nothing.
typedef struct {
	ls_writer operations, warnings;
	// verdict is a member "deny" or "skip".
	ls_writer verdict;
} ls_answer;

// ls_fail reports an error and returns the result of the extension point's function.
static LS_UNUSED int ls_fail(const char *message) {
	ls_text text = ls_string(message);
	ls_u64 block = ls_host_alloc(text.length);
	for (ls_u32 i = 0; i < text.length; i++) ls_host_store_u8(block + i, (ls_u8)text.at[i]);
	ls_host_error_set(block);
	return 1;
}

// ls_log writes a line to the host's log.
static LS_UNUSED void ls_log(ls_text text) {
	ls_u64 block = ls_host_alloc(text.length);
	for (ls_u32 i = 0; i < text.length; i++) ls_host_store_u8(block + i, (ls_u8)text.at[i]);
	ls_host_log_info(block);
}

// ls_operation appends an operation. The value is JSON; an empty one is left out.
static LS_UNUSED void ls_operation(ls_answer *answer, const char *verb, const char *path, ls_text value) {
	ls_writer *w = &answer->operations;
	ls_write(w, w->length ? ",{\"op\":" : "{\"op\":");
	ls_write_string(w, ls_string(verb));
	ls_write(w, ",\"path\":");
	ls_write_string(w, ls_string(path));
	if (value.length) {
		ls_write(w, ",\"value\":");
		ls_write_text(w, value);
	}
	ls_write(w, "}");
}

// LS_TEXT returns the text of a writer, such as the value of an operation.
#define LS_TEXT(writer) ((ls_text){(writer).at, (writer).length})

// ls_set sets the field at the path to a JSON value.
static LS_UNUSED void ls_set(ls_answer *answer, const char *path, ls_text json) { ls_operation(answer, "set", path, json); }

// ls_set_string sets the field at the path to a string.
static LS_UNUSED void ls_set_string(ls_answer *answer, const char *path, ls_text text) {
	ls_writer w = {0, 0, 0};
	ls_write_string(&w, text);
	ls_set(answer, path, LS_TEXT(w));
}

// ls_remove removes the field at the path.
static LS_UNUSED void ls_remove(ls_answer *answer, const char *path) { ls_operation(answer, "remove", path, (ls_text){0, 0}); }

// ls_remove_keys removes keys, an LS_LIST, of the map at the path.
static LS_UNUSED void ls_remove_keys(ls_answer *answer, const char *path, const char *const *keys) {
	ls_writer *w = &answer->operations;
	ls_write(w, w->length ? ",{\"op\":\"remove\",\"path\":" : "{\"op\":\"remove\",\"path\":");
	ls_write_string(w, ls_string(path));
	ls_write_strings(w, "keys", keys);
	ls_write(w, "}");
}

// ls_merge_string sets a key of the map at the path, such as a label, to a string.
static LS_UNUSED void ls_merge_string(ls_answer *answer, const char *path, ls_text key, ls_text text) {
	ls_writer w = {0, 0, 0};
	ls_write(&w, "{");
	ls_write_string(&w, key);
	ls_write(&w, ":");
	ls_write_string(&w, text);
	ls_write(&w, "}");
	ls_operation(answer, "merge", path, LS_TEXT(w));
}

// ls_ensure appends those items of a JSON list that the list at the path does not hold.
static LS_UNUSED void ls_ensure(ls_answer *answer, const char *path, ls_text json) { ls_operation(answer, "ensure", path, json); }

// ls_require adds node selector terms, a JSON list, to the node affinity at the path.
static LS_UNUSED void ls_require(ls_answer *answer, const char *path, ls_text json) { ls_operation(answer, "require", path, json); }

// ls_warn shows a warning to the user who made the request.
static LS_UNUSED void ls_warn(ls_answer *answer, ls_text message) {
	if (answer->warnings.length) ls_write(&answer->warnings, ",");
	ls_write_string(&answer->warnings, message);
}

static LS_UNUSED void ls_decide(ls_answer *answer, const char *member, const char *reason, ls_text message) {
	answer->verdict = (ls_writer){0, 0, 0};
	ls_write(&answer->verdict, member);
	ls_write_string(&answer->verdict, ls_string(reason));
	ls_write(&answer->verdict, ",\"message\":");
	ls_write_string(&answer->verdict, message);
	ls_write(&answer->verdict, "}");
}

// ls_deny refuses the object. The reason is a CamelCase word.
static LS_UNUSED void ls_deny(ls_answer *answer, const char *reason, ls_text message) { ls_decide(answer, ",\"deny\":{\"reason\":", reason, message); }

// ls_skip keeps the object from being reflected, at ResourceMutation only.
static LS_UNUSED void ls_skip(ls_answer *answer, const char *reason, ls_text message) { ls_decide(answer, ",\"skip\":{\"reason\":", reason, message); }

// ls_read_input returns the input of the call as one JSON value; it is absent when it is invalid.
static LS_UNUSED ls_value ls_read_input(void) {
	ls_u32 n = (ls_u32)ls_host_input_length(), i = 0;
	char *buffer = ls_alloc(n + 1);
	for (; i + 8 <= n; i += 8) {
		ls_u64 word = ls_host_input_load_u64(i);
		__builtin_memcpy(buffer + i, &word, 8);
	}
	for (; i < n; i++) buffer[i] = (char)ls_host_input_load_u8(i);
	ls_scanner s = {buffer, buffer + n};
	ls_skip_space(&s);
	const char *begin = s.at;
	if (!ls_scan_value(&s, 0)) return (ls_value){0, 0};
	const char *end = s.at;
	ls_skip_space(&s);
	return s.at == s.end ? (ls_value){begin, (ls_u32)(end - begin)} : (ls_value){0, 0};
}

static LS_UNUSED int ls_serve(const char *point, int (*policy)(const ls_request *, ls_answer *)) {
	ls_value input = ls_read_input();
	if (!input.length) return ls_fail("the request is not JSON");
	// One pass: a value is scanned again each time that it is visited, and a request may be large.
	ls_value version = {0, 0}, named = {0, 0};
	ls_request request = {{0, 0}, {0, 0}, {0, 0}};
	for (ls_iterator i = ls_each(input); ls_next(&i);) {
		if (ls_equal(i.name, "version")) version = i.value;
		else if (ls_equal(i.name, "point")) named = i.value;
		else if (ls_equal(i.name, "moment")) request.moment = ls_text_of(i.value);
		else if (ls_equal(i.name, "settings")) request.settings = i.value;
		else if (ls_equal(i.name, "facts")) request.facts = i.value;
	}
	if (!ls_equal(ls_text_of(version), LS_CONTRACT)) return ls_fail("the request is not of contract " LS_CONTRACT);
	if (!ls_equal(ls_text_of(named), point)) return ls_fail("the request is for another extension point");
	if (!ls_is_object(request.facts)) return ls_fail("the request's facts are not an object");
	for (ls_iterator i = ls_each(request.facts); ls_next(&i);)
		if ((ls_equal(i.name, "object") || ls_equal(i.name, "local")) && !ls_is_object(i.value) && !ls_equal(i.value, "null"))
			return ls_fail("the request's object is not an object");
	ls_answer answer = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
	int failed = policy(&request, &answer);
	if (failed) return failed;
	ls_writer w = {0, 0, 0};
	ls_write(&w, "{\"version\":\"" LS_CONTRACT "\"");
	if (answer.verdict.length) ls_write_text(&w, LS_TEXT(answer.verdict));
	else if (answer.operations.length) {
		ls_write(&w, ",\"operations\":[");
		ls_write_text(&w, LS_TEXT(answer.operations));
		ls_write(&w, "]");
	}
	if (answer.warnings.length) {
		ls_write(&w, ",\"warnings\":[");
		ls_write_text(&w, LS_TEXT(answer.warnings));
		ls_write(&w, "]");
	}
	ls_write(&w, "}");
	return ls_answer_with(&w);
}

static LS_UNUSED int ls_serve_settings(const char *(*check)(ls_value)) {
	ls_value input = ls_read_input();
	if (!ls_is_object(input)) return ls_fail("the request is not a JSON object");
	if (!ls_equal(ls_text_of(ls_member(input, "version")), LS_CONTRACT)) return ls_fail("the request is not of contract " LS_CONTRACT);
	const char *problem = check(ls_member(input, "settings"));
	ls_writer w = {0, 0, 0};
	ls_write(&w, "{\"version\":\"" LS_CONTRACT "\",\"valid\":");
	ls_write(&w, problem ? "false,\"message\":" : "true");
	if (problem) ls_write_string(&w, ls_string(problem));
	ls_write(&w, "}");
	return ls_answer_with(&w);
}

// LS_SETTINGS checks the settings when an operator writes them. The function gets them, null when
// there are none, and returns what is wrong with them, or 0: const char *check(ls_value settings).
#define LS_SETTINGS(check) \
	LS_EXPORT(validate_settings) int ls_export_validate_settings(void) { return ls_serve_settings(check); }

// LS_POINT begins the function that answers an extension point. The name is that of the
// export. The function returns 0, or the result of ls_fail:
//
//	LS_POINT(pod_mutation, "PodMutation")(const ls_request *request, ls_answer *answer) { … }
#define LS_POINT(name, point) \
	static int ls_policy_##name(const ls_request *, ls_answer *); \
	LS_EXPORT(name) int ls_export_##name(void) { return ls_serve(point, ls_policy_##name); } \
	static int ls_policy_##name

#endif
