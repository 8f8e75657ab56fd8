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
	// part is spec or status; object has samples of it, and fields are where they are.
	part   string
	object map[string]any
	fields []*field
	// stored is the object in the API server, whose status is written.
	stored map[string]any
	// seen has the fields that were attacked, of all kinds.
	seen *sync.Map
	// sent and accepted are numbers of requests.
	sent, accepted int
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
	return &attack{kind: k, client: client, types: types, seen: seen}
}

// samples returns an object with samples in spec or status.
func (a *attack) samples(part string) (map[string]any, []*field) {
	value, fields := samplesOf(child(child(a.schema, "properties"), part), part)
	object := map[string]any{}
	if a.stored != nil {
		maps.Copy(object, a.stored)
	} else {
		object["apiVersion"], object["kind"] = a.gvk.GroupVersion().String(), a.gvk.Kind
		object["metadata"] = map[string]any{"name": "sample"}
	}
	object[part] = value
	top := &field{path: part, schema: child(child(a.schema, "properties"), part), sample: value, isLeaf: len(fields) == 0, set: func(v any) { object[part] = v }}
	top.omit = func() { delete(object, part) }
	return object, append([]*field{top}, fields...)
}

// establish makes samples of a part that the API server accepts, and stores the object with them.
func (a *attack) establish(t *testing.T, part string) {
	t.Helper()
	a.part = part
	a.object, a.fields = a.samples(part)
	for range rounds {
		_, err := a.send(t.Context(), true)
		if err == nil {
			raw, err := a.send(t.Context(), false)
			require.NoError(t, err)
			a.stored = map[string]any{}
			require.NoError(t, json.Unmarshal(raw, &a.stored))
			a.object["metadata"] = a.stored["metadata"]
			if part == "spec" {
				a.object["metadata"] = map[string]any{"name": "hostile"}
			}
			a.fields = a.once(t, a.fields)
			return
		}
		named := slices.DeleteFunc(a.named(err, a.fields), func(f *field) bool { return !f.isOptional })
		if len(named) == 0 {
			named = a.below(err)
		}
		require.NotEmpty(t, named, "the samples are refused: %v %v", err, detailOf(err))
		for _, f := range named {
			t.Logf("%s is left out: %v", f.path, err)
			f.omit()
			a.fields = slices.DeleteFunc(a.fields, func(other *field) bool { return other == f || strings.HasPrefix(other.path, f.path+".") })
		}
	}
	require.Fail(t, "no samples are accepted")
}

// once leaves out fields of a name and a schema that were attacked before: many kinds have conditions, and a
// pod has containers three times.
func (a *attack) once(t *testing.T, fields []*field) []*field {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(fields), func(f *field) bool {
		described, err := json.Marshal(f.schema)
		require.NoError(t, err)
		_, wasSeen := a.seen.LoadOrStore(a.part+f.path[strings.LastIndex(f.path, ".")+1:]+string(described), true)
		return wasSeen
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
		raw, err := a.send(t.Context(), true)
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

// send sends the object, and returns what the API server made of it.
func (a *attack) send(ctx context.Context, isDry bool) ([]byte, error) {
	raw, err := json.Marshal(a.object)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	a.sent++
	request := a.client.Post()
	if a.part == "status" {
		request = a.client.Put().Name("sample").SubResource("status")
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

// below returns a field of an object that a refusal names: two of its fields exclude each other.
func (a *attack) below(err error) []*field {
	var refusal apierrors.APIStatus
	if !errors.As(err, &refusal) || refusal.Status().Details == nil {
		return nil
	}
	for _, cause := range refusal.Status().Details.Causes {
		at := index.ReplaceAllString(cause.Field, ".$1") + "."
		for _, f := range a.fields {
			if strings.HasPrefix(f.path, at) && f.isOptional {
				return []*field{f}
			}
		}
	}
	return nil
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
