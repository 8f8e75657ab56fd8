//! The SDK for policies in Rust: one file, without another crate.
//!
//!     rustc --edition 2021 --crate-type cdylib --target wasm32-unknown-unknown -C opt-level=s -C panic=abort -C lto=fat -C strip=symbols -C link-arg=-zstack-size=65536 -o module.wasm policy.rs
//!
//! A policy has this file as its module `longshore`, exports its manifest with [`manifest!`],
//! and answers each extension point of the manifest with [`point!`]. A policy with settings
//! checks them with [`settings!`]. docs/reference/abi.md describes the ABI, and
//! sdk/contract/schema has a JSON schema for each document.
//!
//! Every call starts from the same state of the module, so nothing needs to be freed.

#![allow(dead_code, unused_imports, unused_macros)]

use std::borrow::Cow;

/// The version of the contract that this SDK implements.
pub const CONTRACT: &str = "v1alpha1";

// The host.

/// The host's functions. Addresses are those of the host's memory.
mod host {
    #[link(wasm_import_module = "extism:host/env")]
    extern "C" {
        fn input_length() -> u64;
        fn input_load_u8(offset: u64) -> u8;
        fn input_load_u64(offset: u64) -> u64;
        fn alloc(bytes: u64) -> u64;
        fn store_u8(address: u64, value: u8);
        fn store_u64(address: u64, value: u64);
        fn output_set(address: u64, bytes: u64);
        fn error_set(address: u64);
        fn log_info(address: u64);
    }

    /// Returns the input of the call.
    pub fn input() -> Vec<u8> {
        // SAFETY: the offsets are below the length of the input.
        unsafe {
            let n = input_length();
            let mut bytes = Vec::with_capacity(n as usize);
            let mut at = 0;
            while at + 8 <= n {
                bytes.extend_from_slice(&input_load_u64(at).to_le_bytes());
                at += 8;
            }
            while at < n {
                bytes.push(input_load_u8(at));
                at += 1;
            }
            bytes
        }
    }

    /// Copies text into a new block of the host's memory.
    fn block(text: &str) -> u64 {
        // SAFETY: the addresses are inside the block.
        unsafe {
            let address = alloc(text.len() as u64);
            let (mut at, words) = (address, text.as_bytes().chunks_exact(8));
            let rest = words.remainder();
            for word in words {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(word);
                store_u64(at, u64::from_le_bytes(bytes));
                at += 8;
            }
            for &byte in rest {
                store_u8(at, byte);
                at += 1;
            }
            address
        }
    }

    /// Sets the output of the call.
    pub fn answer_with(text: &str) -> i32 {
        // SAFETY: the block has the length of the text.
        unsafe { output_set(block(text), text.len() as u64) };
        0
    }

    /// Reports an error, and returns the result of the export.
    pub fn fail(message: &str) -> i32 {
        // SAFETY: the address is that of a block.
        unsafe { error_set(block(message)) };
        1
    }

    /// Writes a line to the host's log.
    pub fn log(text: &str) {
        // SAFETY: the address is that of a block.
        unsafe { log_info(block(text)) }
    }
}

pub use host::log;

/// Memory that is never freed: the host resets the module after each call.
mod memory {
    use std::alloc::{GlobalAlloc, Layout};
    use std::arch::wasm32::{memory_grow, memory_size};
    use std::cell::Cell;

    const PAGE: usize = 65536;

    /// The host drops an instance whose memory grew, so the memory grows rarely.
    const PAGES_AT_ONCE: usize = 4;

    /// The addresses of the free memory. Both are 0 before the first use.
    struct Bump {
        next: Cell<usize>,
        end: Cell<usize>,
    }

    // SAFETY: a module has one thread.
    unsafe impl Sync for Bump {}

    // SAFETY: each block is above those before it, and inside the memory.
    unsafe impl GlobalAlloc for Bump {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if self.end.get() == 0 {
                self.next.set(memory_size(0) * PAGE);
                self.end.set(memory_size(0) * PAGE);
            }
            let begin = (self.next.get() + layout.align() - 1) & !(layout.align() - 1);
            let next = begin + layout.size();
            if next > self.end.get() {
                let pages = (next - self.end.get() + PAGE - 1) / PAGE;
                if memory_grow(0, pages.max(PAGES_AT_ONCE)) == usize::MAX && memory_grow(0, pages) == usize::MAX {
                    return std::ptr::null_mut();
                }
                self.end.set(memory_size(0) * PAGE);
            }
            self.next.set(next);
            begin as *mut u8
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            // The last block grows where it is.
            let begin = block as usize;
            if begin + layout.size() == self.next.get() && begin + size <= self.end.get() {
                self.next.set(begin + size);
                return block;
            }
            let other = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !other.is_null() {
                std::ptr::copy_nonoverlapping(block, other, layout.size().min(size));
            }
            other
        }
    }

    #[global_allocator]
    static MEMORY: Bump = Bump { next: Cell::new(0), end: Cell::new(0) };
}

// Reading JSON.

const MAX_DEPTH: u32 = 200;

/// Checks JSON by RFC 8259, in text that is valid UTF-8.
#[derive(Clone, Copy)]
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn accept(&mut self, c: u8) -> bool {
        let found = self.at < self.text.len() && self.peek() == c;
        self.at += found as usize;
        found
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str) -> bool {
        word.bytes().all(|c| self.accept(c))
    }

    fn digits(&mut self) -> bool {
        let begin = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        self.at > begin
    }

    fn number(&mut self) -> bool {
        self.accept(b'-');
        if !self.accept(b'0') && !self.digits() {
            return false;
        }
        if self.accept(b'.') && !self.digits() {
            return false;
        }
        if self.accept(b'e') || self.accept(b'E') {
            if !self.accept(b'+') {
                self.accept(b'-');
            }
            return self.digits();
        }
        true
    }

    fn hex(&mut self) -> Option<u32> {
        let mut number = 0;
        for _ in 0..4 {
            number = number << 4 | (self.peek() as char).to_digit(16)?;
            self.at += 1;
        }
        Some(number)
    }

    /// Reads what follows `\u`: four digits, or a pair of surrogates.
    fn escaped(&mut self) -> Option<char> {
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        if !self.word("\\u") {
            return None;
        }
        let low = self.hex()?;
        if !(0xdc00..0xe000).contains(&low) {
            return None;
        }
        char::from_u32(0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00))
    }

    fn string(&mut self) -> bool {
        if !self.accept(b'"') {
            return false;
        }
        while self.at < self.text.len() {
            let c = self.peek();
            self.at += 1;
            match c {
                b'"' => return true,
                0..=0x1f => return false,
                b'\\' => {
                    let c = self.peek();
                    self.at += 1;
                    match c {
                        b'u' if self.escaped().is_none() => return false,
                        b'u' | b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        _ => return false,
                    }
                }
                _ => {}
            }
        }
        false
    }

    fn value(&mut self, depth: u32) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        self.space();
        let close = match self.peek() {
            b'"' => return self.string(),
            b't' => return self.word("true"),
            b'f' => return self.word("false"),
            b'n' => return self.word("null"),
            b'{' => b'}',
            b'[' => b']',
            _ => return self.number(),
        };
        self.at += 1;
        self.space();
        if self.accept(close) {
            return true;
        }
        loop {
            if close == b'}' {
                self.space();
                if !self.string() {
                    return false;
                }
                self.space();
                if !self.accept(b':') {
                    return false;
                }
            }
            if !self.value(depth + 1) {
                return false;
            }
            self.space();
            if !self.accept(b',') {
                return self.accept(close);
            }
        }
    }

    /// Returns the value that begins here.
    fn take(&mut self) -> Value<'a> {
        self.space();
        let begin = self.at;
        self.value(0);
        Value(self.text.get(begin..self.at).unwrap_or(""))
    }
}

/// A JSON value of the request. It may be absent. All methods accept values of any type,
/// and return absent values, empty iterators or `None` for another one.
#[derive(Clone, Copy)]
pub struct Value<'a>(&'a str);

impl<'a> Value<'a> {
    /// Returns the one value that the text is, or an absent one.
    pub fn parse(text: &'a str) -> Value<'a> {
        let mut s = Scanner { text, at: 0 };
        s.space();
        let begin = s.at;
        if !s.value(0) {
            return Value("");
        }
        let end = s.at;
        s.space();
        Value(if s.at == text.len() { &text[begin..end] } else { "" })
    }

    fn first(&self) -> u8 {
        self.0.as_bytes().first().copied().unwrap_or(0)
    }

    /// Reports whether the value is there.
    pub fn exists(&self) -> bool {
        !self.0.is_empty()
    }

    /// Reports whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.first() == b'{'
    }

    /// Reports whether the value is a list.
    pub fn is_list(&self) -> bool {
        self.first() == b'['
    }

    /// Reports whether the value is null.
    pub fn is_null(&self) -> bool {
        self.first() == b'n'
    }

    /// Reports whether the value is true.
    pub fn is_true(&self) -> bool {
        self.first() == b't'
    }

    /// Returns the value as it is written; `json().parse::<i64>()` reads a number.
    pub fn json(&self) -> &'a str {
        self.0
    }

    /// Returns the text of a string.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        let text = self.0.strip_prefix('"')?.strip_suffix('"')?;
        if !text.contains('\\') {
            return Some(Cow::Borrowed(text));
        }
        let mut s = Scanner { text, at: 0 };
        let (mut plain, mut begin) = (String::with_capacity(text.len()), 0);
        while s.at < text.len() {
            if !s.accept(b'\\') {
                s.at += 1;
                continue;
            }
            plain.push_str(&text[begin..s.at - 1]);
            let c = s.peek();
            s.at += 1;
            plain.push(match c {
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => s.escaped()?,
                c => c as char,
            });
            begin = s.at;
        }
        plain.push_str(&text[begin..]);
        Some(Cow::Owned(plain))
    }

    /// Visits the members of an object with their names, or the items of a list with empty names.
    pub fn members(&self) -> Members<'a> {
        let close = match self.first() {
            b'{' => b'}',
            b'[' => b']',
            _ => 0,
        };
        Members { scanner: Scanner { text: self.0, at: 1 }, close }
    }

    /// Visits the items of a list.
    pub fn items(&self) -> impl Iterator<Item = Value<'a>> {
        let list = if self.is_list() { *self } else { Value("") };
        list.members().map(|(_, value)| value)
    }

    /// Returns the member of an object.
    pub fn get(&self, name: &str) -> Value<'a> {
        let object = if self.is_object() { *self } else { Value("") };
        // The last one counts.
        object.members().filter(|(n, _)| n == name).last().map_or(Value(""), |(_, value)| value)
    }
}

/// Visits the members of an object, or the items of a list.
pub struct Members<'a> {
    scanner: Scanner<'a>,
    close: u8,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let s = &mut self.scanner;
        if self.close == 0 {
            return None;
        }
        s.space();
        s.accept(b',');
        s.space();
        if s.accept(self.close) || s.at >= s.text.len() {
            self.close = 0;
            return None;
        }
        let mut name = Cow::Borrowed("");
        if self.close == b'}' {
            name = s.take().text().unwrap_or_default();
            s.space();
            s.accept(b':');
        }
        Some((name, s.take()))
    }
}

// Writing JSON.

fn push_string(json: &mut String, text: &str) {
    json.push('"');
    let mut begin = 0;
    for (i, c) in text.bytes().enumerate() {
        if c >= 0x20 && c != b'"' && c != b'\\' {
            continue;
        }
        json.push_str(&text[begin..i]);
        begin = i + 1;
        json.push('\\');
        if c >= 0x20 {
            json.push(c as char);
        } else {
            json.push_str("u00");
            json.push(char::from(b'0' + (c >> 4)));
            json.push(char::from(b"0123456789abcdef"[(c & 15) as usize]));
        }
    }
    json.push_str(&text[begin..]);
    json.push('"');
}

fn push_strings(json: &mut String, texts: &[&str]) {
    json.push('[');
    for (i, text) in texts.iter().enumerate() {
        if i > 0 {
            json.push(',');
        }
        push_string(json, text);
    }
    json.push(']');
}

/// Returns text as a JSON string.
pub fn quote(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    push_string(&mut json, text);
    json
}

// The manifest.

/// An extension point.
#[derive(Clone, Copy, PartialEq)]
pub enum Point {
    PodMutation,
    OffloadingPatch,
    AntiAffinityPreset,
    MetadataFilter,
    ResourceMutation,
    ShadowPodAdmission,
    ResourceSliceAdmission,
}

impl Point {
    fn name(self) -> &'static str {
        match self {
            Point::PodMutation => "PodMutation",
            Point::OffloadingPatch => "OffloadingPatch",
            Point::AntiAffinityPreset => "AntiAffinityPreset",
            Point::MetadataFilter => "MetadataFilter",
            Point::ResourceMutation => "ResourceMutation",
            Point::ShadowPodAdmission => "ShadowPodAdmission",
            Point::ResourceSliceAdmission => "ResourceSliceAdmission",
        }
    }
}

/// The occasion of a request to PodMutation.
#[derive(Clone, Copy, PartialEq)]
pub enum Moment {
    Admission,
    Offload,
}

impl Moment {
    fn name(self) -> &'static str {
        match self {
            Moment::Admission => "Admission",
            Moment::Offload => "Offload",
        }
    }
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq)]
pub enum Verb {
    Set,
    Remove,
    Merge,
    Ensure,
    Require,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Verb::Set => "set",
            Verb::Remove => "remove",
            Verb::Merge => "merge",
            Verb::Ensure => "ensure",
            Verb::Require => "require",
        }
    }
}

/// Allows verbs at a path of facts.object, for some keys, or for all when there are none.
pub struct Write<'a> {
    pub path: &'a str,
    pub verbs: &'a [Verb],
    pub keys: &'a [&'a str],
}

/// Declares what a policy reads and writes at an extension point.
pub struct PointManifest<'a> {
    pub point: Point,
    /// At PodMutation; all when there are none.
    pub moments: &'a [Moment],
    pub reads: &'a [&'a str],
    pub settings_reads: &'a [&'a str],
    pub writes: &'a [Write<'a>],
}

impl PointManifest<'_> {
    /// A policy at the point that reads and writes nothing: `..PointManifest::of(…)`.
    pub const fn of(point: Point) -> PointManifest<'static> {
        PointManifest { point, moments: &[], reads: &[], settings_reads: &[], writes: &[] }
    }

    fn push(&self, json: &mut String) {
        json.push_str("{\"point\":");
        push_string(json, self.point.name());
        if !self.moments.is_empty() {
            json.push_str(",\"moments\":");
            push_strings(json, &self.moments.iter().map(|m| m.name()).collect::<Vec<_>>());
        }
        json.push_str(",\"reads\":");
        push_strings(json, self.reads);
        if !self.settings_reads.is_empty() {
            json.push_str(",\"settingsReads\":");
            push_strings(json, self.settings_reads);
        }
        json.push_str(",\"writes\":[");
        for (i, write) in self.writes.iter().enumerate() {
            json.push_str(if i > 0 { ",{\"path\":" } else { "{\"path\":" });
            push_string(json, write.path);
            json.push_str(",\"verbs\":");
            push_strings(json, &write.verbs.iter().map(|v| v.name()).collect::<Vec<_>>());
            if !write.keys.is_empty() {
                json.push_str(",\"keys\":");
                push_strings(json, write.keys);
            }
            json.push('}');
        }
        json.push_str("]}");
    }
}

/// Describes the module.
pub struct Manifest<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub points: &'a [PointManifest<'a>],
}

// Requests and answers.

/// A request to an extension point.
pub struct Request<'a> {
    /// Set at PodMutation.
    pub moment: Option<Moment>,
    /// The settings of the binding; absent when it has none.
    pub settings: Value<'a>,
    /// What the manifest reads, and nothing else.
    pub facts: Value<'a>,
}

/// The answer to a request. Without operations it changes nothing.
#[derive(Default)]
pub struct Answer {
    operations: String,
    warnings: String,
    verdict: String,
}

impl Answer {
    fn operation(&mut self, verb: Verb, path: &str, member: &str, json: &str) {
        let out = &mut self.operations;
        out.push_str(if out.is_empty() { "{\"op\":" } else { ",{\"op\":" });
        push_string(out, verb.name());
        out.push_str(",\"path\":");
        push_string(out, path);
        out.push_str(member);
        out.push_str(json);
        out.push('}');
    }

    /// Sets the field at the path to a JSON value.
    pub fn set(&mut self, path: &str, json: &str) {
        self.operation(Verb::Set, path, ",\"value\":", json);
    }

    /// Sets the field at the path to a string.
    pub fn set_string(&mut self, path: &str, text: &str) {
        self.set(path, &quote(text));
    }

    /// Removes the field at the path.
    pub fn remove(&mut self, path: &str) {
        self.operation(Verb::Remove, path, "", "");
    }

    /// Removes keys of the map at the path.
    pub fn remove_keys(&mut self, path: &str, keys: &[&str]) {
        let mut json = String::new();
        push_strings(&mut json, keys);
        self.operation(Verb::Remove, path, ",\"keys\":", &json);
    }

    /// Sets keys of the map at the path to those of a JSON object.
    pub fn merge(&mut self, path: &str, json: &str) {
        self.operation(Verb::Merge, path, ",\"value\":", json);
    }

    /// Sets a key of the map at the path, such as a label, to a string.
    pub fn merge_string(&mut self, path: &str, key: &str, text: &str) {
        let mut json = String::from("{");
        push_string(&mut json, key);
        json.push(':');
        push_string(&mut json, text);
        json.push('}');
        self.merge(path, &json);
    }

    /// Appends those items of a JSON list that the list at the path does not hold.
    pub fn ensure(&mut self, path: &str, json: &str) {
        self.operation(Verb::Ensure, path, ",\"value\":", json);
    }

    /// Adds node selector terms, a JSON list, to the node affinity at the path.
    pub fn require(&mut self, path: &str, json: &str) {
        self.operation(Verb::Require, path, ",\"value\":", json);
    }

    /// Shows a warning to the user who made the request.
    pub fn warn(&mut self, message: &str) {
        if !self.warnings.is_empty() {
            self.warnings.push(',');
        }
        push_string(&mut self.warnings, message);
    }

    /// Refuses the object. The reason is a CamelCase word.
    pub fn deny(&mut self, reason: &str, message: &str) {
        self.decide(",\"deny\":{\"reason\":", reason, message);
    }

    /// Keeps the object from being reflected, at ResourceMutation only.
    pub fn skip(&mut self, reason: &str, message: &str) {
        self.decide(",\"skip\":{\"reason\":", reason, message);
    }

    fn decide(&mut self, member: &str, reason: &str, message: &str) {
        self.verdict = String::from(member);
        push_string(&mut self.verdict, reason);
        self.verdict.push_str(",\"message\":");
        push_string(&mut self.verdict, message);
        self.verdict.push('}');
    }

    fn json(&self) -> String {
        let mut json = String::from("{\"version\":");
        push_string(&mut json, CONTRACT);
        json.push_str(&self.verdict);
        for (member, items) in [(",\"operations\":[", &self.operations), (",\"warnings\":[", &self.warnings)] {
            if items.is_empty() || (member.contains("operations") && !self.verdict.is_empty()) {
                continue;
            }
            json.push_str(member);
            json.push_str(items);
            json.push(']');
        }
        json.push('}');
        json
    }
}

// Exports.

/// A panic is reported as the error of the call.
fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        let place = info.location().map(|l| format!(" at {l}")).unwrap_or_default();
        host::fail(&(text.unwrap_or("panic").to_owned() + &place));
    }));
}

/// Answers describe; [`manifest!`] calls it.
pub fn describe(manifest: &Manifest) -> i32 {
    report_panics();
    let mut json = String::from("{\"name\":");
    push_string(&mut json, manifest.name);
    json.push_str(",\"version\":");
    push_string(&mut json, manifest.version);
    json.push_str(",\"contracts\":");
    push_strings(&mut json, &[CONTRACT]);
    json.push_str(",\"points\":[");
    for (i, point) in manifest.points.iter().enumerate() {
        if i > 0 {
            json.push(',');
        }
        point.push(&mut json);
    }
    json.push_str("]}");
    host::answer_with(&json)
}

/// Answers the request of the call with a policy; [`point!`] calls it.
pub fn serve(point: Point, policy: fn(&Request, &mut Answer) -> Result<(), String>) -> i32 {
    report_panics();
    let mut answer = Answer::default();
    let input = host::input();
    match read(point, &input).and_then(|request| policy(&request, &mut answer)) {
        Ok(()) => host::answer_with(&answer.json()),
        Err(message) => host::fail(&message),
    }
}

/// Answers validate_settings with a check; [`settings!`] calls it.
pub fn check_settings(check: fn(Value) -> Result<(), String>) -> i32 {
    report_panics();
    let input = host::input();
    let request = match parse(&input) {
        Ok(request) if request.is_object() => request,
        Ok(_) => return host::fail("the request is not an object"),
        Err(message) => return host::fail(message),
    };
    if request.get("version").text().as_deref() != Some(CONTRACT) {
        return host::fail(&("the request is not of contract ".to_owned() + CONTRACT));
    }
    let mut json = String::from("{\"version\":");
    push_string(&mut json, CONTRACT);
    match check(request.get("settings")) {
        Ok(()) => json.push_str(",\"valid\":true}"),
        Err(message) => {
            json.push_str(",\"valid\":false,\"message\":");
            push_string(&mut json, &message);
            json.push('}');
        }
    }
    host::answer_with(&json)
}

fn parse(input: &[u8]) -> Result<Value, &'static str> {
    let text = std::str::from_utf8(input).map_err(|_| "the request is not UTF-8")?;
    let value = Value::parse(text);
    if value.exists() {
        Ok(value)
    } else {
        Err("the request is not JSON")
    }
}

fn read(point: Point, input: &[u8]) -> Result<Request, String> {
    let input = parse(input)?;
    // One pass: a value is scanned again each time that it is visited, and a request may be large.
    let mut request = Request { moment: None, settings: Value(""), facts: Value("") };
    let (mut version, mut named) = (None, None);
    for (name, value) in input.members() {
        match &*name {
            "version" => version = value.text(),
            "point" => named = value.text(),
            "moment" => request.moment = [Moment::Admission, Moment::Offload].into_iter().find(|m| value.text().as_deref() == Some(m.name())),
            "settings" => request.settings = value,
            "facts" => request.facts = value,
            _ => {}
        }
    }
    if version.as_deref() != Some(CONTRACT) {
        return Err("the request is not of contract ".to_owned() + CONTRACT);
    }
    if named.as_deref() != Some(point.name()) {
        return Err("the request is for another extension point".into());
    }
    if !request.facts.is_object() {
        return Err("the request's facts are not an object".into());
    }
    for (name, value) in request.facts.members() {
        if (name == "object" || name == "local") && !value.is_object() && !value.is_null() {
            return Err("the request's ".to_owned() + &name + " is not an object");
        }
    }
    Ok(request)
}

/// Exports the manifest: `longshore::manifest!(MANIFEST);`
macro_rules! manifest {
    ($manifest:expr) => {
        #[no_mangle]
        pub extern "C" fn describe() -> i32 {
            $crate::longshore::describe(&$manifest)
        }
    };
}

/// Checks the settings when an operator writes them: `longshore::settings!(check);` The function
/// returns what is wrong with them, for the operator. It gets null when there are none.
macro_rules! settings {
    ($check:path) => {
        #[no_mangle]
        pub extern "C" fn validate_settings() -> i32 {
            $crate::longshore::check_settings($check)
        }
    };
}

/// Answers an extension point with a function: `longshore::point!(PodMutation, label);`
macro_rules! point {
    (PodMutation, $policy:path) => { $crate::longshore::point!(PodMutation as pod_mutation, $policy); };
    (OffloadingPatch, $policy:path) => { $crate::longshore::point!(OffloadingPatch as offloading_patch, $policy); };
    (AntiAffinityPreset, $policy:path) => { $crate::longshore::point!(AntiAffinityPreset as anti_affinity_preset, $policy); };
    (MetadataFilter, $policy:path) => { $crate::longshore::point!(MetadataFilter as metadata_filter, $policy); };
    (ResourceMutation, $policy:path) => { $crate::longshore::point!(ResourceMutation as resource_mutation, $policy); };
    (ShadowPodAdmission, $policy:path) => { $crate::longshore::point!(ShadowPodAdmission as shadow_pod_admission, $policy); };
    (ResourceSliceAdmission, $policy:path) => { $crate::longshore::point!(ResourceSliceAdmission as resource_slice_admission, $policy); };
    ($point:ident as $export:ident, $policy:path) => {
        #[no_mangle]
        pub extern "C" fn $export() -> i32 {
            $crate::longshore::serve($crate::longshore::Point::$point, $policy)
        }
    };
}

pub(crate) use {manifest, point, settings};
