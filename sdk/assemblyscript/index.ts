// The SDK for policies in AssemblyScript.
//
//	asc policy.ts --optimize --runtime stub --use abort=~lib/@longshore/policy/index/stop --outFile module.wasm
//
// A policy exports describe, which returns manifest(…), and a function for each extension
// point of the manifest, which returns serve(…). Every call starts from the same state of
// the module, so nothing needs to be freed.

import { answerWith, fail, readInput } from "./host";
import { Value, quote, quoteAll } from "./json";

export { fail, log } from "./host";
export { Member, Value, quote, quoteAll } from "./json";

// CONTRACT is the version of the contract that this SDK implements.
export const CONTRACT = "v1alpha1";

// stop reports why a module gives up. The compiler's option --use abort names it.
export function stop(message: string | null, file: string | null, line: u32, column: u32): void {
  fail((message === null ? "abort" : message) + " at " + (file === null ? "" : file) + ":" + line.toString() + ":" + column.toString());
  unreachable();
}

// Point declares what a policy reads and writes at an extension point.
export class Point {
  private json: string;
  private rules: string = "";

  constructor(name: string, reads: string[], moments: string[] = [], settingsReads: string[] = []) {
    this.json = '{"point":' + quote(name) + ',"reads":' + quoteAll(reads);
    if (moments.length > 0) this.json += ',"moments":' + quoteAll(moments);
    if (settingsReads.length > 0) this.json += ',"settingsReads":' + quoteAll(settingsReads);
  }

  // writes allows verbs at a path of facts.object, for some keys or for all.
  writes(path: string, verbs: string[], keys: string[] = []): Point {
    if (this.rules.length > 0) this.rules += ",";
    this.rules += '{"path":' + quote(path) + ',"verbs":' + quoteAll(verbs);
    if (keys.length > 0) this.rules += ',"keys":' + quoteAll(keys);
    this.rules += "}";
    return this;
  }

  toJSON(): string {
    return this.json + ',"writes":[' + this.rules + "]}";
  }
}

// manifest answers describe.
export function manifest(name: string, version: string, points: Point[]): i32 {
  let list = "";
  for (let i = 0; i < points.length; i++) list += (i > 0 ? "," : "") + points[i].toJSON();
  return answerWith('{"name":' + quote(name) + ',"version":' + quote(version) + ',"contracts":[' + quote(CONTRACT) + '],"points":[' + list + "]}");
}

// Request is a request to an extension point.
export class Request {
  constructor(
    // moment is "Admission" or "Offload" at PodMutation, and empty elsewhere.
    public moment: string,
    // settings of the binding; absent when it has none.
    public settings: Value,
    // facts holds what the manifest reads, and nothing else.
    public facts: Value,
  ) {}
}

// Answer is the answer to a request. Without operations it changes nothing.
export class Answer {
  private operations: string = "";
  private verdict: string = "";
  private warnings: string[] = [];
  private error: string = "";

  // operation appends an operation. The value is JSON; an empty one is left out.
  operation(verb: string, path: string, json: string): void {
    if (this.operations.length > 0) this.operations += ",";
    this.operations += '{"op":' + quote(verb) + ',"path":' + quote(path) + (json.length > 0 ? ',"value":' + json : "") + "}";
  }

  // set sets the field at the path to a JSON value.
  set(path: string, json: string): void { this.operation("set", path, json); }

  // setString sets the field at the path to a string.
  setString(path: string, text: string): void { this.set(path, quote(text)); }

  // remove removes the field at the path.
  remove(path: string): void { this.operation("remove", path, ""); }

  // removeKeys removes keys of the map at the path.
  removeKeys(path: string, keys: string[]): void {
    if (this.operations.length > 0) this.operations += ",";
    this.operations += '{"op":"remove","path":' + quote(path) + ',"keys":' + quoteAll(keys) + "}";
  }

  // mergeString sets a key of the map at the path, such as a label, to a string.
  mergeString(path: string, key: string, text: string): void {
    this.operation("merge", path, "{" + quote(key) + ":" + quote(text) + "}");
  }

  // ensure appends those items of a JSON list that the list at the path does not hold.
  ensure(path: string, json: string): void { this.operation("ensure", path, json); }

  // require adds node selector terms, a JSON list, to the node affinity at the path.
  require(path: string, json: string): void { this.operation("require", path, json); }

  // warn shows a warning to the user who made the request.
  warn(message: string): void { this.warnings.push(message); }

  // deny refuses the object. The reason is a CamelCase word.
  deny(reason: string, message: string): void { this.decide("deny", reason, message); }

  // skip keeps the object from being reflected, at ResourceMutation only.
  skip(reason: string, message: string): void { this.decide("skip", reason, message); }

  private decide(member: string, reason: string, message: string): void {
    this.verdict = ',"' + member + '":{"reason":' + quote(reason) + ',"message":' + quote(message) + "}";
  }

  // fail makes the call end with an error in place of an answer.
  fail(message: string): void { this.error = message; }

  get failure(): string { return this.error; }

  toJSON(): string {
    let json = '{"version":' + quote(CONTRACT) + this.verdict;
    if (this.verdict.length == 0 && this.operations.length > 0) json += ',"operations":[' + this.operations + "]";
    if (this.warnings.length > 0) json += ',"warnings":' + quoteAll(this.warnings);
    return json + "}";
  }
}

// serveSettings answers validate_settings, which a policy with settings exports. The check gets
// the settings, null when there are none, and returns what is wrong with them, or "".
export function serveSettings(check: (settings: Value) => string): i32 {
  const buffer = readInput();
  const input = Value.parse(changetype<usize>(buffer), buffer.byteLength);
  if (!input.isObject) return fail("the request is not a JSON object");
  if (input.get("version").text != CONTRACT) return fail("the request is not of contract " + CONTRACT);
  const problem = check(input.get("settings"));
  return answerWith('{"version":' + quote(CONTRACT) + (problem.length == 0 ? ',"valid":true}' : ',"valid":false,"message":' + quote(problem) + "}"));
}

// serve answers the request of the call with a policy.
export function serve(point: string, policy: (request: Request, answer: Answer) => void): i32 {
  const buffer = readInput();
  const input = Value.parse(changetype<usize>(buffer), buffer.byteLength);
  if (!input.exists) return fail("the request is not JSON");
  if (input.get("version").text != CONTRACT) return fail("the request is not of contract " + CONTRACT);
  if (input.get("point").text != point) return fail("the request is for another extension point");
  const facts = input.get("facts");
  if (!facts.isObject) return fail("the request's facts are not an object");
  const members = facts.members;
  for (let i = 0; i < members.length; i++) {
    const m = members[i];
    if ((m.name == "object" || m.name == "local") && !m.value.isObject && !m.value.isNull) return fail("the request's " + m.name + " is not an object");
  }
  const answer = new Answer();
  policy(new Request(input.get("moment").text, input.get("settings"), facts), answer);
  return answer.failure.length > 0 ? fail(answer.failure) : answerWith(answer.toJSON());
}
