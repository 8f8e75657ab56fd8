// Reading and writing JSON without a library.

const maxDepth: i32 = 200;

// Scanner checks JSON by RFC 8259, and that strings are valid UTF-8.
class Scanner {
  constructor(public at: usize, public end: usize) {}

  peek(): i32 {
    return this.at < this.end ? i32(load<u8>(this.at)) : 0;
  }

  accept(c: i32): bool {
    if (this.at >= this.end || i32(load<u8>(this.at)) != c) return false;
    this.at++;
    return true;
  }

  space(): void {
    while (this.at < this.end) {
      const c = load<u8>(this.at);
      if (c != 0x20 && c != 0x0a && c != 0x0d && c != 0x09) return;
      this.at++;
    }
  }

  word(text: string): bool {
    for (let i = 0; i < text.length; i++) if (!this.accept(text.charCodeAt(i))) return false;
    return true;
  }

  digits(): bool {
    const begin = this.at;
    while (this.peek() >= 0x30 && this.peek() <= 0x39) this.at++;
    return this.at > begin;
  }

  number(): bool {
    this.accept(0x2d);
    if (!this.accept(0x30) && !this.digits()) return false;
    if (this.accept(0x2e) && !this.digits()) return false;
    if (this.accept(0x65) || this.accept(0x45)) {
      if (!this.accept(0x2b)) this.accept(0x2d);
      return this.digits();
    }
    return true;
  }

  // hex returns the number of four hexadecimal digits, or -1.
  hex(): i32 {
    let number = 0;
    for (let i = 0; i < 4; i++, this.at++) {
      const c = this.peek(), lower = c | 32;
      if (c >= 0x30 && c <= 0x39) number = (number << 4) | (c - 0x30);
      else if (lower >= 0x61 && lower <= 0x66) number = (number << 4) | (lower - 0x61 + 10);
      else return -1;
    }
    return number;
  }

  // escaped skips what follows \u: four digits, or a pair of surrogates.
  escaped(): bool {
    const rune = this.hex();
    if (rune < 0xd800 || rune >= 0xe000) return rune >= 0;
    if (rune >= 0xdc00 || !this.word("\\u")) return false;
    const low = this.hex();
    return low >= 0xdc00 && low < 0xe000;
  }

  // rune skips a character beyond ASCII.
  rune(): bool {
    const first = this.peek();
    this.at++;
    if (first < 0xc2 || first > 0xf4) return false;
    const more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    let rune = first & (0x3f >> more);
    for (let i = 0; i < more; i++, this.at++) {
      if ((this.peek() & 0xc0) != 0x80) return false;
      rune = (rune << 6) | (this.peek() & 0x3f);
    }
    if (more == 2 && rune < 0x800) return false;
    if (more == 3 && (rune < 0x10000 || rune > 0x10ffff)) return false;
    return rune < 0xd800 || rune >= 0xe000;
  }

  str(): bool {
    if (!this.accept(0x22)) return false;
    while (this.at < this.end) {
      let c = this.peek();
      if (c >= 0x80) {
        if (!this.rune()) return false;
        continue;
      }
      this.at++;
      if (c == 0x22) return true;
      if (c < 0x20) return false;
      if (c != 0x5c) continue;
      c = this.peek();
      this.at++;
      if (c == 0x75) {
        if (!this.escaped()) return false;
      } else if (c != 0x22 && c != 0x5c && c != 0x2f && c != 0x62 && c != 0x66 && c != 0x6e && c != 0x72 && c != 0x74) {
        return false;
      }
    }
    return false;
  }

  value(depth: i32): bool {
    if (depth > maxDepth) return false;
    this.space();
    let close = 0;
    switch (this.peek()) {
      case 0x22: return this.str();
      case 0x74: return this.word("true");
      case 0x66: return this.word("false");
      case 0x6e: return this.word("null");
      case 0x7b: close = 0x7d; break;
      case 0x5b: close = 0x5d; break;
      default: return this.number();
    }
    this.at++;
    this.space();
    if (this.accept(close)) return true;
    do {
      this.space();
      if (close == 0x7d) {
        if (!this.str()) return false;
        this.space();
        if (!this.accept(0x3a)) return false;
      }
      if (!this.value(depth + 1)) return false;
      this.space();
    } while (this.accept(0x2c));
    return this.accept(close);
  }

  // take returns the value that begins here.
  take(): Value {
    this.space();
    const begin = this.at;
    this.value(0);
    return new Value(begin, this.at);
  }
}

// Member is a member of an object, or an item of a list, which has no name.
export class Member {
  constructor(public name: string, public value: Value) {}
}

// Value is a JSON value of the request. It may be absent. All methods accept values of any
// type, and return absent values, empty lists or empty text for another one.
export class Value {
  constructor(private at: usize, private end: usize) {}

  // parse returns the one value that the n bytes are, or an absent one.
  static parse(at: usize, n: usize): Value {
    const s = new Scanner(at, at + n);
    if (!s.value(0)) return Value.absent();
    const value = new Value(at, s.at);
    s.space();
    if (s.at != s.end) return Value.absent();
    while (value.at < value.end && load<u8>(value.at) <= 0x20) value.at++;
    return value;
  }

  static absent(): Value {
    return new Value(0, 0);
  }

  get exists(): bool { return this.end > this.at; }
  get isString(): bool { return this.first() == 0x22; }
  get isObject(): bool { return this.first() == 0x7b; }
  get isList(): bool { return this.first() == 0x5b; }
  get isNull(): bool { return this.first() == 0x6e; }
  get isTrue(): bool { return this.first() == 0x74; }

  private first(): i32 {
    return this.exists ? i32(load<u8>(this.at)) : 0;
  }

  // json returns the value as it is written.
  get json(): string {
    return String.UTF8.decodeUnsafe(this.at, this.end - this.at);
  }

  // text returns the text of a string.
  get text(): string {
    if (!this.isString) return "";
    const s = new Scanner(this.at + 1, this.end - 1);
    let text = "", begin = s.at;
    while (s.at < s.end) {
      if (!s.accept(0x5c)) {
        s.at++;
        continue;
      }
      text += String.UTF8.decodeUnsafe(begin, s.at - 1 - begin);
      const c = s.peek();
      s.at++;
      switch (c) {
        case 0x62: text += "\b"; break;
        case 0x66: text += "\f"; break;
        case 0x6e: text += "\n"; break;
        case 0x72: text += "\r"; break;
        case 0x74: text += "\t"; break;
        case 0x75: text += String.fromCharCode(s.hex()); break;
        default: text += String.fromCharCode(c);
      }
      begin = s.at;
    }
    return text + String.UTF8.decodeUnsafe(begin, s.at - begin);
  }

  // members returns the members of an object, or the items of a list.
  get members(): Array<Member> {
    const found = new Array<Member>();
    if (!this.isObject && !this.isList) return found;
    const close = this.isObject ? 0x7d : 0x5d;
    const s = new Scanner(this.at + 1, this.end);
    s.space();
    while (s.at < s.end && !s.accept(close)) {
      let name = "";
      if (this.isObject) {
        name = s.take().text;
        s.space();
        s.accept(0x3a);
      }
      found.push(new Member(name, s.take()));
      s.space();
      s.accept(0x2c);
      s.space();
    }
    return found;
  }

  // get returns a member of an object.
  get(name: string): Value {
    if (!this.isObject) return Value.absent();
    const members = this.members;
    for (let i = members.length - 1; i >= 0; i--) if (members[i].name == name) return members[i].value;
    return Value.absent();
  }
}

// quote returns text as a JSON string.
export function quote(text: string): string {
  let out = '"', begin = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c != 0x22 && c != 0x5c && c >= 0x20) continue;
    out += text.substring(begin, i);
    out += c >= 0x20 ? "\\" + String.fromCharCode(c) : "\\u" + c.toString(16).padStart(4, "0");
    begin = i + 1;
  }
  return out + text.substring(begin) + '"';
}

// quoteAll returns a list of strings as JSON.
export function quoteAll(texts: string[]): string {
  let out = "[";
  for (let i = 0; i < texts.length; i++) out += (i > 0 ? "," : "") + quote(texts[i]);
  return out + "]";
}
