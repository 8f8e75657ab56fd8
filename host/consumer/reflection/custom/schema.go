package custom

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxDifferences bounds how many differences of two schemas a message names.
const maxDifferences = 5

// The names of the two clusters in a difference.
const (
	consumer = "the consumer"
	provider = "the provider"
)

// compareSchemas returns how the OpenAPI v3 schemas of a kind differ in a way that can lose or
// refuse fields, sorted by path. Objects go from the consumer to the provider, and their status
// the other way. Without one of the two schemas, nothing is known.
func compareSchemas(local, remote map[string]any, hasStatus bool) []string {
	if local == nil || remote == nil {
		return nil
	}
	out := comparison{from: consumer, to: provider}
	locals, remotes := properties(local), properties(remote)
	for _, name := range slices.Sorted(maps.Keys(locals)) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			out.field(name, locals[name], remotes[name])
		}
	}
	out.required("", local, remote)
	back := comparison{from: provider, to: consumer}
	if status := remotes["status"]; hasStatus && status != nil {
		back.field("status", status, locals["status"])
	}
	all := slices.Concat(out.found, back.found)
	slices.Sort(all)
	return all
}

// describeDifferences returns a sentence about differences, or "".
func describeDifferences(differences []string) string {
	if len(differences) == 0 {
		return ""
	}
	named := differences[:min(len(differences), maxDifferences)]
	text := strings.Join(named, "; ")
	if more := len(differences) - len(named); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text + "."
}

// comparison collects why objects of one cluster lose fields in the other, or are refused.
type comparison struct {
	from, to string
	found    []string
}

func (c *comparison) add(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// field compares the schemas of one field; to is nil if the other cluster does not have it.
func (c *comparison) field(path string, from, to map[string]any) {
	if to == nil {
		c.add("%s does not exist in %s", path, c.to)
		return
	}
	if isOpen(to) || isOpen(from) {
		return
	}
	if was, is := typeOf(from), typeOf(to); was != is {
		c.add("%s is %s in %s and %s in %s", path, was, c.from, is, c.to)
		return
	}
	c.required(path, from, to)
	c.values(path, from, to)
	if items := object(from["items"]); items != nil {
		c.field(path+"[]", items, object(to["items"]))
	}
	additional := object(to["additionalProperties"])
	if values := object(from["additionalProperties"]); values != nil {
		c.field(path+"{}", values, additional)
	}
	froms, tos := properties(from), properties(to)
	for _, name := range slices.Sorted(maps.Keys(froms)) {
		if tos[name] == nil && additional != nil {
			continue
		}
		c.field(path+"."+name, froms[name], tos[name])
	}
}

// required adds the fields that only the other cluster requires, unless it has a default.
func (c *comparison) required(path string, from, to map[string]any) {
	before := texts(from["required"])
	for _, name := range texts(to["required"]) {
		if _, hasDefault := properties(to)[name]["default"]; !hasDefault && !slices.Contains(before, name) {
			c.add("%s is required in %s", strings.TrimPrefix(path+"."+name, "."), c.to)
		}
	}
}

// values adds the values of an enumeration that the other cluster refuses.
func (c *comparison) values(path string, from, to map[string]any) {
	allowed := texts(to["enum"])
	if len(allowed) == 0 {
		return
	}
	for _, value := range texts(from["enum"]) {
		if !slices.Contains(allowed, value) {
			c.add("%s: value %q is not allowed in %s", path, value, c.to)
		}
	}
}

// isOpen reports whether a schema accepts any content.
func isOpen(schema map[string]any) bool {
	preserves, _ := schema["x-kubernetes-preserve-unknown-fields"].(bool)
	return preserves
}

func typeOf(schema map[string]any) string {
	if isIntOrString, _ := schema["x-kubernetes-int-or-string"].(bool); isIntOrString {
		return "integer or string"
	}
	text, _ := schema["type"].(string)
	return text
}

func properties(schema map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	for name, property := range object(schema["properties"]) {
		if found := object(property); found != nil {
			out[name] = found
		}
	}
	return out
}

func object(value any) map[string]any {
	found, _ := value.(map[string]any)
	return found
}

// texts returns a list of JSON scalars as texts.
func texts(value any) []string {
	list, _ := value.([]any)
	out := make([]string, len(list))
	for i, item := range list {
		out[i] = fmt.Sprint(item)
	}
	return out
}
