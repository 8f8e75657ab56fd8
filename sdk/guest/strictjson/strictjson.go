// Package strictjson reads the settings of a binding into variables, field by field.
//
// Unknown fields, repeated fields, and values of another type are errors with the path of
// the field, so that a misspelled setting is not ignored:
//
//	spec.settings.rewrites[1].form: unknown field, want from or to
//
// It works without reflection: a module that uses it is 300 KiB smaller, packed, than
// one that imports encoding/json (as sdk/guest/anyjson does), and reads its settings
// several times faster.
//
//	type rewrite struct{ from, to string }
//	var rewrites []rewrite
//	err := strictjson.Decode(request.Settings,
//		strictjson.List("rewrites", &rewrites, func(r *rewrite) []strictjson.Field {
//			return []strictjson.Field{strictjson.String("from", &r.from), strictjson.String("to", &r.to)}
//		}))
package strictjson

import (
	"errors"
	"strconv"

	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// Field reads one member of an object. A member that is absent or null leaves its
// variable as it is.
type Field struct {
	name string
	// into is a pointer to the variable, or a function that reads the value.
	into any
}

// Pair is a member of an object whose values are strings.
type Pair struct{ Key, Value string }

// few is how many items a list of settings has room for at first: most have no more.
const few = 4

// Decode reads settings, which must be an object of these fields. Without settings
// all variables stay as they are. The error names the field.
func Decode(settings guest.Settings, fields ...Field) error {
	if len(settings) == 0 {
		return nil
	}
	r := &reader{scanner: json.NewScanner(settings)}
	r.object(fields)
	if r.problem == "" {
		if err := r.scanner.End(); err != nil {
			r.problem = err.Error()
		}
	}
	if r.problem == "" {
		return nil
	}
	return errors.New("spec.settings" + r.where + ": " + r.problem)
}

// String reads a string.
func String(name string, into *string) Field { return Field{name, into} }

// Bool reads a boolean.
func Bool(name string, into *bool) Field { return Field{name, into} }

// Int reads an integer.
func Int(name string, into *int64) Field { return Field{name, into} }

// Strings reads a list of strings. A null among them is an error.
func Strings(name string, into *[]string) Field { return Field{name, into} }

// Pairs reads an object with arbitrary keys, whose values are strings, in its order. A
// repeated key is an error.
func Pairs(name string, into *[]Pair) Field { return Field{name, into} }

// Keys reads the keys of an object with arbitrary keys and values, in its order: which resources
// a container requests, for example.
func Keys(name string, into *[]string) Field {
	return Field{name, func(r *reader) {
		keys := make([]string, 0, few)
		for key, ok := r.scanner.FirstKey(); ok; key, ok = r.scanner.NextKey() {
			keys = append(keys, string(key))
			r.scanner.Skip()
		}
		if r.check("an object") {
			*into = keys
		}
	}}
}

// Raw reads any value as JSON text, for example for another decoder.
func Raw(name string, into *[]byte) Field { return Field{name, into} }

// Object reads an object of these fields.
func Object(name string, fields ...Field) Field { return Field{name, fields} }

// List reads a list of objects. The function is called once and returns the fields of the
// item that each object is read into, before it is copied to the list.
func List[T any](name string, into *[]T, fields func(*T) []Field) Field {
	return Field{name, func(r *reader) {
		list := make([]T, 0, few)
		// One item for all, so that its fields are listed once.
		item := new(T)
		known := fields(item)
		if r.items(func() {
			if r.scanner.Null() {
				r.fail("want an object, not null")
				return
			}
			*item = *new(T)
			r.object(known)
			list = append(list, *item)
		}) {
			*into = list
		}
	}}
}

// value reads a member into its variable.
func (r *reader) value(into any) {
	if r.scanner.Null() {
		return
	}
	switch into := into.(type) {
	case *string:
		*into = r.text()
	case *bool:
		*into = r.scanner.Bool()
		r.check("true or false")
	case *int64:
		*into = r.scanner.Int64()
		r.check("an integer")
	case *[]string:
		items := make([]string, 0, few)
		if r.items(func() { items = append(items, r.text()) }) {
			*into = items
		}
	case *[]Pair:
		r.pairs(into)
	case *[]byte:
		*into = r.scanner.Raw()
		r.check("a value")
	case []Field:
		r.object(into)
	case func(*reader):
		into(r)
	}
}

func (r *reader) pairs(into *[]Pair) {
	pairs := make([]Pair, 0, few)
	for key, ok := r.scanner.FirstKey(); ok; key, ok = r.scanner.NextKey() {
		pair := Pair{Key: string(key)}
		for i := range pairs {
			if pairs[i].Key == pair.Key {
				r.fail("the key stands twice")
			}
		}
		if r.problem == "" {
			pair.Value = r.text()
		}
		if r.problem != "" {
			r.below("[" + strconv.Quote(pair.Key) + "]")
			return
		}
		pairs = append(pairs, pair)
	}
	if r.check("an object") {
		*into = pairs
	}
}

// reader is a scanner that knows where in the settings a problem is.
type reader struct {
	scanner *json.Scanner
	// problem is the first one; nothing is read after it.
	problem string
	// where is the path of the problem, from the place where it was found outwards.
	where string
}

func (r *reader) fail(problem string) {
	if r.problem == "" {
		r.problem = problem
	}
}

// below puts a step before the path of the problem.
func (r *reader) below(step string) { r.where = step + r.where }

// check fails if the value just read was not what is wanted.
func (r *reader) check(want string) bool {
	err := r.scanner.Err()
	if err == nil {
		return true
	}
	if errors.Is(err, json.ErrType) {
		r.fail("want " + want)
	} else {
		r.fail(err.Error())
	}
	return false
}

// text reads a string that must not be null.
func (r *reader) text() string {
	if r.scanner.Null() {
		r.fail("want a string, not null")
		return ""
	}
	text := r.scanner.String()
	r.check("a string")
	return text
}

// items reads a list and reports whether there is one, and a good one.
func (r *reader) items(item func()) bool {
	if r.scanner.Null() {
		return false
	}
	i := 0
	for ok := r.scanner.FirstItem(); ok; ok = r.scanner.NextItem() {
		item()
		if r.problem != "" {
			r.below("[" + strconv.Itoa(i) + "]")
			return false
		}
		i++
	}
	return r.check("a list")
}

func (r *reader) object(fields []Field) {
	var seen uint64
	for key, ok := r.scanner.FirstKey(); ok; key, ok = r.scanner.NextKey() {
		at := -1
		for i := range fields {
			if fields[i].name == string(key) {
				at = i
				break
			}
		}
		switch {
		case at < 0:
			r.fail("unknown field, " + names(fields))
		case at < 64 && seen&(1<<at) != 0:
			r.fail("the field stands twice")
		default:
			seen |= 1 << at
			r.value(fields[at].into)
		}
		if r.problem != "" {
			r.below("." + string(key))
			return
		}
	}
	r.check("an object")
}

// names lists what is wanted, for a message.
func names(fields []Field) string {
	if len(fields) == 0 {
		return "want none"
	}
	text := "want "
	for i := range fields {
		switch {
		case i == 0:
		case i == len(fields)-1:
			text += " or "
		default:
			text += ", "
		}
		text += fields[i].name
	}
	return text
}
