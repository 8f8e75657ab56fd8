package suite

import "slices"

// Rule is one sentence of the contract that the suite checks. Each rule has a module that
// breaks exactly it (see the tests): a rule without one does not exist.
type Rule struct {
	// ID names the rule in reports. It is never reused for another sentence.
	ID string
	// Sentence is what the contract demands.
	Sentence string
	// Method is how the suite looks for modules that break it.
	Method string
	// Advice marks a rule that a module may break: the host never sends such input. Modules
	// written with the SDK follow it.
	Advice bool
	// Settings marks a rule for modules that export validate_settings.
	Settings bool
}

// The IDs of the rules.
const (
	ruleLoads      = "module.loads"
	ruleDescribe   = "module.describe"
	ruleVector     = "answer.vector"
	ruleAnswers    = "answer.given"
	ruleCompletes  = "answer.completes"
	ruleSame       = "answer.same"
	ruleValid      = "answer.valid"
	ruleWrites     = "answer.writes"
	ruleApplies    = "answer.applies"
	ruleUnread     = "answer.unread"
	ruleIdempotent = "object.idempotent"
	ruleObject     = "object.valid"
	ruleIsolation  = "object.isolation"
	ruleUnknown    = "object.unknown"
	ruleBroken     = "input.broken"
	ruleShape      = "input.shape"
	ruleTypes      = "input.types"
	ruleLarge      = "input.large"
	ruleBudget     = "budget.ordinary"
	ruleSettings   = "settings.refused"
	ruleCrash      = "settings.completes"
	ruleRequest    = "settings.request"
)

var rules = []Rule{
	{ID: ruleLoads, Sentence: "A module is valid WebAssembly within the limits, imports only what the ABI offers, describes itself, survives the sample requests of the warm-up, and answers them in the form of the contract.",
		Method: "The module is loaded in Longshore's host and in stock Extism."},
	{ID: ruleDescribe, Sentence: "describe returns the same manifest whenever and wherever it is called.",
		Method: "It is called in two instances of Longshore's host and in stock Extism."},
	{ID: ruleVector, Sentence: "The module answers each golden case of its author as the case says.",
		Method: "The cases in the folder of --vectors are asked in both hosts; if a case has an object and a result, the operations must turn one into the other."},
	{ID: ruleAnswers, Advice: true, Sentence: "A point that the manifest declares answers requests: it does not fail on every one.",
		Method: "At least one of the golden and the generated requests of each point has an answer. A policy that needs settings is asked with those of its vectors."},
	{ID: ruleCompletes, Sentence: "A request of the contract ends with an answer, or with an error that the module reports: no trap, no exit, and not beyond the fuel, the time or the memory of a call.",
		Method: "Golden and generated requests."},
	{ID: ruleSame, Sentence: "A policy is a function of its request: the same request has the same answer.",
		Method: "Each request is asked again in a used and in a fresh instance, in another order, and in stock Extism, whose clock and random numbers are real."},
	{ID: ruleValid, Sentence: "The output is one JSON object of the form response.json without unknown members, in the version of the request, within the limits, and it denies or skips only at points that allow it.",
		Method: "Golden and generated requests, checked by the host's decoder."},
	{ID: ruleWrites, Sentence: "Each operation is inside the writes that the manifest declares, and inside what policies may write at the point.",
		Method: "Golden and generated requests, checked by the host's chain."},
	{ID: ruleApplies, Sentence: "The operations apply to the object of the request.",
		Method: "Golden and generated requests; a path that leads through a string, or a merge into a list, does not apply."},
	{ID: ruleUnread, Sentence: "An answer depends only on facts that the manifest declares in reads.",
		Method: "Each request is asked with all facts and with the declared ones. Different answers mean that a declaration is missing."},
	{ID: ruleIdempotent, Sentence: "Asked about the object that it changed, a policy changes nothing more.",
		Method: "Each changed object is the object of a second request."},
	{ID: ruleObject, Sentence: "An object that was valid for Kubernetes is valid after the policy.",
		Method: "The object is decoded strictly, and its fields are validated with the libraries of Kubernetes. Only problems that it did not have before count."},
	{ID: ruleIsolation, Sentence: "A pod is never less isolated after the policy, and never reaches more of its node.",
		Method: "The host's invariants (docs/reference/invariants.md)."},
	{ID: ruleUnknown, Sentence: "A field that the contract does not know changes nothing about the answer, and is still in the object afterwards.",
		Method: "Fields of a future Kubernetes are added to the object, its metadata, its spec and its containers."},
	{ID: ruleBroken, Sentence: "Input that is not a JSON object is an error that the module reports: neither an answer nor a trap.",
		Method: "No input, text, a request that is cut short, two values, nesting without end."},
	{ID: ruleShape, Advice: true, Sentence: "JSON of another shape than a request of the point is an error that the module reports.",
		Method: "null, a list, a contract of the future, no version, facts and objects of other types, bytes that are not UTF-8."},
	{ID: ruleTypes, Sentence: "A member of the wrong type is ignored or refused; it never crashes the module.",
		Method: "In a request with an answer, each value is replaced by one of another type, one at a time."},
	{ID: ruleLarge, Sentence: "An object of any size that fits into a request ends with an answer that the host accepts, or with an error that the module reports.",
		Method: "A pod of 5 MB, 1,000 containers, 10,000 labels, deep nesting. The host refuses what does not fit itself."},
	{ID: ruleBudget, Sentence: "Of ordinary requests, half take at most a tenth of a call's fuel; 99 of 100 take at most half of its fuel and of its memory.",
		Method: "Golden and generated requests, measured in Longshore's host."},
	{ID: ruleSettings, Settings: true, Sentence: "validate_settings refuses a member of the settings that the module does not know.",
		Method: "Settings with the member longshore.dev/unknown, alone and beside those of the vectors."},
	{ID: ruleCrash, Settings: true, Sentence: "validate_settings ends with a verdict or a reported error for any JSON object.",
		Method: "Values of other types at each member of the settings of the vectors, deep nesting."},
	{ID: ruleRequest, Settings: true, Advice: true, Sentence: "A request with settings that validate_settings refuses is an error that the module reports.",
		Method: "A request that has an answer is asked with refused settings."},
}

// Rules returns the sentences of the contract that the suite checks, in its order.
func Rules() []Rule { return slices.Clone(rules) }

func ruleOf(id string) *Rule {
	at := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
	return &rules[at]
}
