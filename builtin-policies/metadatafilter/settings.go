package metadatafilter

import (
	"errors"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/sdk/guest/strictjson"
)

// Bounds of the settings: a call matches every key of an object with every pattern.
const (
	maxRules    = 64
	maxPatterns = 256
)

// CheckSettings refuses settings that could not do what their author meant. The error
// is a sentence that names rule and field, for the operator who wrote them.
func CheckSettings(settings []byte) error {
	_, err := parse(settings)
	return err
}

// parse reads and checks settings.
func parse(settings []byte) ([]Rule, error) {
	var rules []Rule
	if err := strictjson.Decode(settings, strictjson.List("rules", &rules, fields)); err != nil {
		return nil, err
	}
	if len(rules) > maxRules {
		return nil, errors.New("spec.settings.rules: " + strconv.Itoa(len(rules)) + " rules are more than the allowed " + strconv.Itoa(maxRules))
	}
	for i := range rules {
		if field, problem := rules[i].check(); problem != "" {
			return nil, errors.New(place(i, rules[i].Name, field) + ": " + problem)
		}
	}
	return rules, nil
}

func fields(r *Rule) []strictjson.Field {
	return []strictjson.Field{
		strictjson.String("name", &r.Name),
		strictjson.Strings("kinds", &r.Kinds),
		strictjson.Strings("in", &r.In),
		strictjson.Strings("drop", &r.Drop),
		strictjson.Strings("keep", &r.Keep),
		strictjson.Pairs("rename", &r.Rename),
	}
}

// place names a field of a rule: spec.settings.rules[2].drop[0] (rule "build details").
func place(i int, name, field string) string {
	text := "spec.settings.rules[" + strconv.Itoa(i) + "]" + field
	if name != "" {
		text += " (rule " + strconv.Quote(name) + ")"
	}
	return text
}

// check returns the field that is wrong, as ".drop[0]", and what is wrong with it.
func (r *Rule) check() (field, problem string) {
	r.keeps = r.Keep != nil
	verbs := 0
	for _, is := range []bool{r.Drop != nil, r.keeps, r.Rename != nil} {
		if is {
			verbs++
		}
	}
	if verbs != 1 {
		return "", "a rule has exactly one of drop, keep and rename"
	}
	for i, in := range r.In {
		if in != inLabels && in != inAnnotations {
			return at(".in", i), strconv.Quote(in) + " is unknown, want labels or annotations"
		}
	}
	for i, kind := range r.Kinds {
		if kind == "" || strings.Count(kind, "/") > 2 || strings.HasPrefix(kind, "/") || strings.HasSuffix(kind, "/") {
			return at(".kinds", i), strconv.Quote(kind) + " is not a kind, want one such as ConfigMap, v1/ConfigMap or apps/v1/Deployment"
		}
	}
	if r.Rename != nil {
		return r.checkRename()
	}
	if r.keeps {
		return checkPatterns(".keep", r.Keep, true)
	}
	return checkPatterns(".drop", r.Drop, false)
}

func at(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// checkPatterns allows an empty list only to keep: then nothing is reflected. Reserved
// keys are kept anyway, so only to drop them is a mistake.
func checkPatterns(field string, patterns []string, keep bool) (string, string) {
	if len(patterns) == 0 && !keep {
		return field, "the list is empty, so the rule would do nothing"
	}
	if len(patterns) > maxPatterns {
		return field, strconv.Itoa(len(patterns)) + " patterns are more than the allowed " + strconv.Itoa(maxPatterns)
	}
	for i, pattern := range patterns {
		problem := ""
		switch {
		case pattern == "":
			problem = "a pattern is empty"
		case strings.ContainsAny(pattern, "*?"):
			problem = checkGlob(pattern)
		case strings.HasSuffix(pattern, "/"):
			problem = checkDomain(pattern)
		default:
			problem = checkKey(pattern)
		}
		if problem == "" && !keep && Reserved(pattern) {
			problem = reserved(pattern)
		}
		if problem != "" {
			return at(field, i), problem
		}
	}
	return "", ""
}

// checkGlob refuses what no key can match.
func checkGlob(pattern string) string {
	for i := range len(pattern) {
		if c := pattern[i]; !wordByte(c) && c != '/' && c != '*' && c != '?' {
			return strconv.Quote(pattern) + " matches no key: keys have letters, digits, dashes, underscores, dots and one slash"
		}
	}
	if strings.Count(pattern, "/") > 1 {
		return strconv.Quote(pattern) + " matches no key: a key has one slash at most"
	}
	return ""
}

func (r *Rule) checkRename() (string, string) {
	if len(r.Rename) == 0 {
		return ".rename", "it is empty, so the rule would do nothing"
	}
	if len(r.Rename) > maxPatterns {
		return ".rename", strconv.Itoa(len(r.Rename)) + " keys are more than the allowed " + strconv.Itoa(maxPatterns)
	}
	for i := range r.Rename {
		if problem := r.checkMove(i); problem != "" {
			return ".rename[" + strconv.Quote(r.Rename[i].Key) + "]", problem
		}
	}
	return "", ""
}

// checkMove checks one entry of a rename.
func (r *Rule) checkMove(i int) string {
	from, to := r.Rename[i].Key, r.Rename[i].Value
	check := checkKey
	if strings.HasSuffix(from, "/") {
		check = checkDomain
		if !strings.HasSuffix(to, "/") {
			return "a domain can only be renamed to a domain, which ends with a slash, not to " + strconv.Quote(to)
		}
	}
	for _, key := range []string{from, to} {
		if problem := check(key); problem != "" {
			return problem
		}
		if Reserved(key) {
			return reserved(key)
		}
	}
	for j := range r.Rename {
		if j < i && r.Rename[j].Value == to {
			return strconv.Quote(r.Rename[j].Key) + " is renamed to " + strconv.Quote(to) + " too, one of them would be lost"
		}
		if r.Rename[j].Key == to {
			return "its new name " + strconv.Quote(to) + " is renamed as well: write one rule after the other"
		}
	}
	return ""
}

func reserved(key string) string {
	return strconv.Quote(key) + " is reserved: Longshore identifies its objects by it, and no policy can change it"
}

// checkKey refuses what the API server would not take as a key: an optional DNS
// subdomain and a slash, then a name of at most 63 characters.
func checkKey(key string) string {
	domain, name, qualified := strings.Cut(key, "/")
	if !qualified {
		name = domain
	} else if problem := checkDomain(domain + "/"); problem != "" {
		return problem
	}
	valid := name != "" && len(name) <= 63 && alphanumeric(name[0]) && alphanumeric(name[len(name)-1])
	for i := range len(name) {
		valid = valid && wordByte(name[i])
	}
	if !valid {
		return strconv.Quote(key) + " is not a key of a label or annotation, want one such as team or example.com/team"
	}
	return ""
}

// checkDomain takes a domain with its slash.
func checkDomain(domain string) string {
	text := domain[:max(len(domain)-1, 0)]
	valid := strings.HasSuffix(domain, "/") && text != "" && len(text) <= 253
	for more := true; more && valid; {
		var label string
		label, text, more = strings.Cut(text, ".")
		valid = label != "" && len(label) <= 63 && lower(label[0]) && lower(label[len(label)-1])
		for i := range len(label) {
			valid = valid && (lower(label[i]) || label[i] == '-')
		}
	}
	if !valid {
		return strconv.Quote(domain) + " is not a domain of keys, want one such as example.com/"
	}
	return ""
}

func lower(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

func alphanumeric(c byte) bool { return lower(c) || c >= 'A' && c <= 'Z' }

func wordByte(c byte) bool { return alphanumeric(c) || c == '-' || c == '_' || c == '.' }
