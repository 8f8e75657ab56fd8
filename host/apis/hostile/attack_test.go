package hostile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
)

const (
	namespace = "default"
	// bomb is more than decoding takes on the slowest machine, and less than counting to 10^30000000.
	bomb = 10 * time.Second
	// rounds is how often fields that are refused are taken out of an object.
	rounds = 40
)

// attack is one kind under attack.
type attack struct {
	kind
	client *rest.RESTClient
	types  *runtime.Scheme
	// part is spec or status, isSubresource is whether it is written by itself; object has samples of it, and fields are where they are.
	part          string
	isSubresource bool
	object        map[string]any
	fields        []*field
	// stored is the object in the API server, whose status is written.
	stored map[string]any
	// seen has the fields that were attacked, of all kinds.
	seen *sync.Map
	// wasAttacked has the paths of fields that were in samples.
	wasAttacked map[string]bool
	// sent, attacks and accepted are numbers of requests: all, those with hostile values, and those of them
	// that the API server accepted.
	sent, attacks, accepted int
}

func newAttack(t *testing.T, config *rest.Config, types *runtime.Scheme, seen *sync.Map, k kind) *attack {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.APIPath = "/apis"
	version := k.gvk.GroupVersion()
	config.GroupVersion = &version
	config.NegotiatedSerializer = serializer.NewCodecFactory(types).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	require.NoError(t, err)
	return &attack{kind: k, client: client, types: types, seen: seen, wasAttacked: map[string]bool{}}
}

// attackPart gives hostile values to the fields of a part. Fields that exclude each other are in samples of
// their own.
func (a *attack) attackPart(t *testing.T, part string, values map[string]json.RawMessage) {
	t.Helper()
	a.part, a.isSubresource = part, part == "status" && a.hasStatus
	if a.isSubresource {
		a.store(t)
	}
	missing := []string{part}
	for len(missing) > 0 {
		kept := missing[0]
		omitted := a.establish(t, kept)
		require.False(t, isAround(omitted, kept), "%s is in no sample that the API server accepts", kept)
		for _, f := range a.fields {
			a.wasAttacked[f.path] = true
		}
		missing = slices.DeleteFunc(append(missing, omitted...), func(path string) bool { return a.wasAttacked[path] })
		a.fields = a.once(t, a.fields)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			a.everywhere(t, name, values[name])
		}
		a.withHugeTexts(t)
	}
}

// store stores the object whose status is attacked.
func (a *attack) store(t *testing.T) {
	t.Helper()
	object := a.object
	if object == nil {
		object, _ = a.samples("")
	}
	raw, err := a.create(t.Context(), object, false)
	require.NoError(t, err)
	a.stored = map[string]any{}
	require.NoError(t, json.Unmarshal(raw, &a.stored))
}

// samples returns an object with samples in a part.
func (a *attack) samples(part string) (map[string]any, []*field) {
	object := map[string]any{}
	if a.stored != nil {
		maps.Copy(object, a.stored)
	} else {
		object["apiVersion"], object["kind"] = a.gvk.GroupVersion().String(), a.gvk.Kind
		object["metadata"] = map[string]any{"name": a.name()}
	}
	schema := child(child(a.schema, "properties"), part)
	if schema == nil {
		return object, nil
	}
	value, fields := samplesOf(schema, part)
	object[part] = value
	top := &field{path: part, schema: schema, sample: value, isLeaf: len(fields) == 0, set: func(v any) { object[part] = v }}
	top.omit = func() { delete(object, part) }
	return object, append([]*field{top}, fields...)
}

// name of the object: that of a ResourceReflection is of its kind and group.
func (a *attack) name() string {
	if a.plural == "resourcereflections" {
		return "a.a.example"
	}
	return "sample"
}

// establish makes samples of the part that the API server accepts, with a field that must be among them. It
// returns the fields that it left out.
func (a *attack) establish(t *testing.T, kept string) (omitted []string) {
	t.Helper()
	a.object, a.fields = a.samples(a.part)
	for range rounds {
		_, err := a.send(t.Context())
		if err == nil {
			return omitted
		}
		excluded := a.excluding(err, kept)
		if len(excluded) == 0 {
			excluded = slices.DeleteFunc(a.named(err, a.fields), func(f *field) bool { return !f.isOptional })
		}
		require.NotEmpty(t, excluded, "the samples are refused: %v %v", err, detailOf(err))
		for _, f := range excluded {
			f.omit()
			omitted = append(omitted, f.path)
			a.fields = slices.DeleteFunc(a.fields, func(other *field) bool { return other == f || strings.HasPrefix(other.path, f.path+".") })
		}
	}
	require.Fail(t, "no samples are accepted")
	return nil
}

// isAround reports whether a path is among others, or below one.
func isAround(paths []string, path string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return p == path || strings.HasPrefix(path, p+".") })
}

// once leaves out fields of a name and a schema that were attacked before: many kinds have conditions, and a
// pod has containers three times. Each kind has those of its spec itself.
func (a *attack) once(t *testing.T, fields []*field) []*field {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(fields), func(f *field) bool {
		described, err := json.Marshal(f.schema)
		require.NoError(t, err)
		_, wasSeen := a.seen.LoadOrStore(a.part+f.path[strings.LastIndex(f.path, ".")+1:]+string(described), true)
		return wasSeen && strings.Count(f.path, ".") > 1
	})
}

// everywhere gives a value to all fields at once that have nothing below them, and to others level by level.
func (a *attack) everywhere(t *testing.T, name string, value json.RawMessage) {
	t.Helper()
	levels := map[int][]*field{}
	for _, f := range a.fields {
		if !mayTake(f, name) {
			continue
		}
		level := 0
		if !f.isLeaf {
			level = 1 + strings.Count(f.path, ".")
		}
		levels[level] = append(levels[level], f)
	}
	for _, fields := range levels {
		a.attack(t, name, value, fields)
	}
}

// mayTake is whether a value says something about a field: any text is a text, and a number that is
// not of the right type is like another one.
func mayTake(f *field, name string) bool {
	isNumber := f.schema["type"] == "integer" || f.schema["type"] == "number" || f.schema["x-kubernetes-int-or-string"] == true
	switch {
	case name == `text "x"`, name == "number 1.5":
		return true
	case strings.HasPrefix(name, "text "):
		return f.schema["format"] != nil && !isNumber || f.schema["pattern"] != nil || f.schema["x-kubernetes-int-or-string"] == true
	case strings.HasPrefix(name, "number "):
		return isNumber
	default:
		return true
	}
}

// attack gives a value to fields, and back what they had to those that the API server refuses. Fields of a
// refusal that names none are attacked one by one.
func (a *attack) attack(t *testing.T, name string, value any, fields []*field) {
	t.Helper()
	hostile := slices.Clone(fields)
	for _, f := range hostile {
		f.set(value)
	}
	defer func() {
		for _, f := range fields {
			f.restore()
		}
	}()
	for len(hostile) > 0 {
		a.attacks++
		raw, err := a.send(t.Context())
		if err == nil {
			a.accepted++
			a.decode(t, name, raw, hostile)
			return
		}
		if apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) {
			return // No JSON object, whatever the field.
		}
		require.True(t, apierrors.IsInvalid(err), "%s: %v", name, err)
		named := a.named(err, hostile)
		for _, f := range named {
			f.restore()
		}
		if len(named) == 0 {
			if len(hostile) > 1 {
				for _, f := range hostile {
					f.restore()
				}
				for _, f := range hostile {
					a.attack(t, name, value, []*field{f})
				}
			}
			return
		}
		hostile = slices.DeleteFunc(hostile, func(f *field) bool { return slices.Contains(named, f) })
	}
}

// withHugeTexts gives a huge text to one field of each schema.
func (a *attack) withHugeTexts(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range a.fields {
		described, err := json.Marshal(f.schema)
		require.NoError(t, err)
		if f.isLeaf && !seen[string(described)] {
			seen[string(described)] = true
			a.attack(t, "a huge text", hugeText(), []*field{f})
		}
	}
}

// send has the API server check the object, and returns what it made of it.
func (a *attack) send(ctx context.Context) ([]byte, error) {
	a.sent++
	if !a.isSubresource {
		return a.create(ctx, a.object, true)
	}
	return a.do(ctx, a.client.Put().Name(a.name()).SubResource("status"), a.object, true)
}

func (a *attack) create(ctx context.Context, object any, isDry bool) ([]byte, error) {
	return a.do(ctx, a.client.Post(), object, isDry)
}

func (a *attack) do(ctx context.Context, request *rest.Request, object any, isDry bool) ([]byte, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	if isDry {
		request = request.Param("dryRun", "All")
	}
	result := request.NamespaceIfScoped(namespace, a.isNamespaced).Resource(a.plural).SetHeader("Content-Type", "application/json").Body(raw).Do(ctx)
	// The error of Raw does not name the fields that are refused.
	if err := result.Error(); err != nil {
		return nil, fmt.Errorf("sending: %w", err)
	}
	out, err := result.Raw()
	if err != nil {
		return nil, fmt.Errorf("sending: %w", err)
	}
	return out, nil
}

// detailOf is what the API server says about a refusal.
func detailOf(err error) any {
	var refusal apierrors.APIStatus
	if errors.As(err, &refusal) {
		return refusal.Status().Details
	}
	return nil
}

var index = regexp.MustCompile(`\[([^\]]*)\]`)

// named returns the fields that a refusal names.
func (a *attack) named(err error, fields []*field) []*field {
	var refusal apierrors.APIStatus
	if !errors.As(err, &refusal) || refusal.Status().Details == nil {
		return nil
	}
	var named []*field
	for _, cause := range refusal.Status().Details.Causes {
		at := index.ReplaceAllString(cause.Field, ".$1")
		for _, f := range fields {
			if (at == f.path || strings.HasPrefix(at, f.path+".")) && !slices.Contains(named, f) {
				named = append(named, f)
			}
		}
	}
	return named
}

// excluding returns, for each object that a refusal names, its last field that may be left out: of those that
// the rule is about, if it is one. Around a field that is kept, nothing is left out.
func (a *attack) excluding(err error, kept string) []*field {
	var refusal apierrors.APIStatus
	if !errors.As(err, &refusal) || refusal.Status().Details == nil {
		return nil
	}
	var excluding []*field
	for _, cause := range refusal.Status().Details.Causes {
		at := index.ReplaceAllString(cause.Field, ".$1")
		rule := a.ruleOf(at, cause.Message)
		for _, f := range slices.Backward(a.fields) {
			name, isBelow := strings.CutPrefix(f.path, at+".")
			if isBelow && f.isOptional && !strings.Contains(name, ".") && !isAround([]string{f.path}, kept) && (rule == "" || hasWord(rule, name)) {
				excluding = append(excluding, f)
				break
			}
		}
	}
	return excluding
}

// ruleOf returns the rule of a field's schema that has a message.
func (a *attack) ruleOf(path, message string) string {
	for _, f := range a.fields {
		rules, _ := f.schema["x-kubernetes-validations"].([]any)
		for _, r := range rules {
			rule, _ := r.(map[string]any)
			if f.path == path && strings.Contains(message, fmt.Sprint(rule["message"])) {
				return fmt.Sprint(rule["rule"])
			}
		}
	}
	return ""
}

func hasWord(text, word string) bool {
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }), word)
}

// decode decodes what the API server accepted, and does with it what controllers do.
func (a *attack) decode(t *testing.T, name string, raw []byte, hostile []*field) {
	t.Helper()
	var paths []string
	for _, f := range hostile {
		paths = append(paths, f.path)
	}
	ended := make(chan error, 1)
	go func() { ended <- a.use(raw) }()
	select {
	case err := <-ended:
		require.NoError(t, err, "%s is accepted in one of %v", name, paths)
	case <-time.After(bomb):
		require.Fail(t, "a bomb", "%s is accepted in one of %v", name, paths)
	}
}

func (a *attack) use(raw []byte) error {
	object, err := a.types.New(a.gvk)
	if err != nil {
		return fmt.Errorf("making a %s: %w", a.gvk.Kind, err)
	}
	if err := kjson.Unmarshal(raw, object); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	count(reflect.ValueOf(object))
	encoded, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	again, err := a.types.New(a.gvk)
	if err != nil {
		return fmt.Errorf("making a %s: %w", a.gvk.Kind, err)
	}
	if err := kjson.Unmarshal(encoded, again); err != nil {
		return fmt.Errorf("decoding what was encoded: %w", err)
	}
	equality.Semantic.DeepEqual(object, again)
	return nil
}

// count does arithmetic with every quantity below a value.
func count(v reflect.Value) {
	if v.CanInterface() {
		if q, ok := v.Interface().(resource.Quantity); ok {
			sum := q.DeepCopy()
			sum.Add(resource.MustParse("1n"))
			sum.Sub(q)
			sum.Cmp(q)
			_, _, _ = sum.Value(), sum.MilliValue(), sum.String()
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			count(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			count(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			count(v.MapIndex(key))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			count(v.Field(i))
		}
	default:
	}
}
