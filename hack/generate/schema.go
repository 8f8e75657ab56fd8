package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	contractDir = "sdk/contract"
	schemaDir   = "sdk/contract/schema"
	// schemaBase is where a schema would be found by its $id; nothing is fetched from it.
	schemaBase = "https://longshore.dev/schema/v1alpha1/"
)

// roots are the types that travel as a document of their own, by the schema's file.
var roots = func() map[string]string {
	all := map[string]string{
		"request":           "Request",
		"response":          "Response",
		"manifest":          "Manifest",
		"settings-request":  "SettingsRequest",
		"settings-response": "SettingsResponse",
	}
	for _, point := range contract.Points() {
		all["facts-"+strings.ReplaceAll(point.Export(), "_", "-")] = string(point) + "Facts"
	}
	return all
}()

// answers are the documents that a module writes: the host refuses unknown members of
// them. What a module reads may have more members, and fewer: it holds what was
// declared in reads.
var answers = []string{"response", "manifest", "settings-response"}

// envelopes have all their members whatever was declared in reads.
var envelopes = []string{"request", "settings-request"}

// generateSchemas writes a JSON schema for each document of the contract, for authors in
// languages other than Go.
func generateSchemas() error {
	c, err := readContract(contractDir)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(schemaDir); err != nil {
		return fmt.Errorf("removing old schemas: %w", err)
	}
	if err := os.MkdirAll(schemaDir, 0o755); err != nil {
		return fmt.Errorf("creating %s: %w", schemaDir, err)
	}
	for file, root := range roots {
		data, err := c.schema(file, root)
		if err != nil {
			return fmt.Errorf("making the schema of %s: %w", root, err)
		}
		if err := os.WriteFile(filepath.Join(schemaDir, file+".json"), data, 0o644); err != nil {
			return fmt.Errorf("writing a schema: %w", err)
		}
	}
	return nil
}

// contractTypes are the types of the contract as their source has them.
type contractTypes struct {
	docs  map[string]*doc.Type
	enums map[string][]string
	types map[string]ast.Expr
}

func readContract(dir string) (*contractTypes, error) {
	files := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing the contract's files: %w", err)
	}
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_wasip1.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parsing the contract: %w", err)
		}
		parsed = append(parsed, file)
	}
	pkg, err := doc.NewFromFiles(files, parsed, "contract")
	if err != nil {
		return nil, fmt.Errorf("reading the contract's documentation: %w", err)
	}
	c := &contractTypes{docs: map[string]*doc.Type{}, enums: map[string][]string{}, types: map[string]ast.Expr{}}
	for _, t := range pkg.Types {
		c.docs[t.Name] = t
		for _, spec := range t.Decl.Specs {
			if named, ok := spec.(*ast.TypeSpec); ok {
				c.types[named.Name.Name] = named.Type
			}
		}
		for _, group := range t.Consts {
			values, err := literals(group.Decl)
			if err != nil {
				return nil, fmt.Errorf("reading the constants of %s: %w", t.Name, err)
			}
			c.enums[t.Name] = append(c.enums[t.Name], values...)
		}
	}
	return c, nil
}

// literals returns the texts of a group of constants.
func literals(group *ast.GenDecl) ([]string, error) {
	var values []string
	for _, spec := range group.Specs {
		constants, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for _, value := range constants.Values {
			literal, ok := value.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return nil, errors.New("a constant is not a string literal")
			}
			values = append(values, constant.StringVal(constant.MakeFromLiteral(literal.Value, literal.Kind, 0)))
		}
	}
	return values, nil
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	encode := json.NewEncoder(&out)
	encode.SetEscapeHTML(false)
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(strconv.Quote(m.name) + ":")
		if err := encode.Encode(m.value); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", m.name, err)
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func (c *contractTypes) schema(file, root string) ([]byte, error) {
	w := &schemaWriter{contract: c, strict: slices.Contains(answers, file), whole: slices.Contains(envelopes, file)}
	top, err := w.named(root)
	if err != nil {
		return nil, err
	}
	document := append(object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", schemaBase + file + ".json"},
		{"$comment", "Generated by hack/generate from " + contractDir + ". DO NOT EDIT."},
		{"title", root},
	}, top...)
	var definitions object
	for done := map[string]bool{root: true}; len(w.wanted) > 0; {
		name := w.wanted[0]
		w.wanted = w.wanted[1:]
		if done[name] {
			continue
		}
		done[name] = true
		definition, err := w.named(name)
		if err != nil {
			return nil, err
		}
		definitions = append(definitions, member{name, definition})
	}
	slices.SortFunc(definitions, func(a, b member) int { return strings.Compare(a.name, b.name) })
	if len(definitions) > 0 {
		document = append(document, member{"$defs", definitions})
	}
	raw, err := document.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("indenting: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// schemaWriter writes the schemas of a document's types.
type schemaWriter struct {
	contract *contractTypes
	// strict refuses unknown members and asks for those without omitempty; whole asks for
	// the latter only.
	strict, whole bool
	wanted        []string
}

func (w *schemaWriter) named(name string) (object, error) {
	docs, ok := w.contract.docs[name]
	if !ok {
		return nil, fmt.Errorf("the contract has no type %s", name)
	}
	text, examples, err := split(docs.Doc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	schema := object{{"description", text}}
	fields, isStruct := w.contract.types[name].(*ast.StructType)
	if !isStruct {
		schema = append(schema, member{"type", "string"})
		if values := w.contract.enums[name]; len(values) > 0 {
			schema = append(schema, member{"enum", values})
		}
		return schema, nil
	}
	if len(examples) == 0 {
		return nil, fmt.Errorf("the comment of %s has no example", name)
	}
	properties, required, err := w.properties(fields)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	schema = append(schema, member{"type", "object"}, member{"properties", properties})
	if len(required) > 0 && (w.strict || w.whole) {
		schema = append(schema, member{"required", required})
	}
	if w.strict {
		schema = append(schema, member{"additionalProperties", false})
	}
	return append(schema, member{"examples", examples}), nil
}

// split takes the examples out of a comment: the JSON values after "Example:".
func split(comment string) (string, []json.RawMessage, error) {
	text, code, found := strings.Cut(comment, "\nExample:\n")
	text = strings.Join(strings.Fields(text), " ")
	if !found {
		return text, nil, nil
	}
	var examples []json.RawMessage
	decoder := json.NewDecoder(strings.NewReader(code))
	for {
		var example json.RawMessage
		if err := decoder.Decode(&example); errors.Is(err, io.EOF) {
			return text, examples, nil
		} else if err != nil {
			return "", nil, fmt.Errorf("an example in the comment is no JSON: %w", err)
		}
		examples = append(examples, example)
	}
}

func (w *schemaWriter) properties(fields *ast.StructType) (object, []string, error) {
	var properties object
	var required []string
	for _, field := range fields.Fields.List {
		if field.Tag == nil || len(field.Names) != 1 {
			return nil, nil, errors.New("a field has no tag")
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			return nil, nil, fmt.Errorf("a tag: %w", err)
		}
		name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		schema, err := w.value(field.Type)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		text := strings.Join(strings.Fields(field.Doc.Text()), " ")
		if text == "" {
			return nil, nil, fmt.Errorf("%s has no comment", name)
		}
		properties = append(properties, member{name, append(object{{"description", text}}, schema...)})
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	return properties, required, nil
}

// value returns the schema of a field's type.
func (w *schemaWriter) value(of ast.Expr) (object, error) {
	switch t := of.(type) {
	case *ast.StarExpr:
		return w.value(t.X)
	case *ast.ArrayType:
		items, err := w.value(t.Elt)
		return object{{"type", "array"}, {"items", items}}, err
	case *ast.MapType:
		values, err := w.value(t.Value)
		return object{{"type", "object"}, {"additionalProperties", values}}, err
	case *ast.Ident:
		switch t.Name {
		case "string":
			return object{{"type", "string"}}, nil
		case "bool":
			return object{{"type", "boolean"}}, nil
		case "int32", "int64":
			return object{{"type", "integer"}}, nil
		case "RawMessage":
			return object{}, nil // any JSON
		}
		w.wanted = append(w.wanted, t.Name)
		return object{{"$ref", "#/$defs/" + t.Name}}, nil
	default:
		return nil, fmt.Errorf("type %s is not known to the generator", types.ExprString(of))
	}
}
