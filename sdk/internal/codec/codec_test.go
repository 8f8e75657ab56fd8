package codec_test

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// fill sets every field that its choice function picks, so that a field which the
// contract gains and the codec forgets fails the test.
func fill(v reflect.Value, pick func() bool) {
	if v.Type() == reflect.TypeFor[contract.RawMessage]() {
		v.SetBytes([]byte(`{"raw":[1,"x"]}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text \"é\"\n")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(-42)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), pick)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), pick)
		fill(v.Index(1), pick)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"example.com/a": "1", "b": "", "": "z"}))
	case reflect.Struct:
		for i := range v.NumField() {
			if pick() {
				fill(v.Field(i), pick)
			}
		}
	default:
		panic(fmt.Sprintf("the contract has a field of kind %s: teach fill", v.Kind()))
	}
}

func checkFacts[F any](t *testing.T, read func(*json.Scanner, *F)) {
	t.Helper()
	for n := range 200 {
		// Every field is left out in some runs; run 0 has them all.
		count := 0
		pick := func() bool { count++; return n == 0 || (count*2654435761+n*40503)>>3%4 != 0 }
		want := reflect.New(reflect.TypeFor[F]()).Elem()
		fill(want, pick)
		data, err := stdjson.Marshal(want.Interface())
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			data = bytes.Replace(data, []byte("{"), []byte(`{"unknown":{"a":[null]},`), 1)
		}
		var oracle F
		if err := stdjson.Unmarshal(data, &oracle); err != nil {
			t.Fatal(err)
		}
		s := json.NewScanner(data)
		var got F
		read(s, &got)
		if err := s.End(); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if !reflect.DeepEqual(got, oracle) {
			t.Fatalf("%s:\ngot  %+v\nwant %+v", data, got, oracle)
		}
	}
}

func TestFactsAreReadAsEncodingJSONReadsThem(t *testing.T) {
	t.Run("PodMutation", func(t *testing.T) { checkFacts(t, codec.PodMutationFacts) })
	t.Run("OffloadingPatch", func(t *testing.T) { checkFacts(t, codec.OffloadingPatchFacts) })
	t.Run("AntiAffinityPreset", func(t *testing.T) { checkFacts(t, codec.AntiAffinityPresetFacts) })
	t.Run("MetadataFilter", func(t *testing.T) { checkFacts(t, codec.MetadataFilterFacts) })
	t.Run("ResourceMutation", func(t *testing.T) { checkFacts(t, codec.ResourceMutationFacts) })
	t.Run("ShadowPodAdmission", func(t *testing.T) { checkFacts(t, codec.ShadowPodAdmissionFacts) })
	t.Run("ResourceSliceAdmission", func(t *testing.T) { checkFacts(t, codec.ResourceSliceAdmissionFacts) })
}

func checkAppend[T any](t *testing.T, write func([]byte, *T) []byte) {
	t.Helper()
	for n := range 200 {
		count := 0
		v := reflect.New(reflect.TypeFor[T]())
		fill(v.Elem(), func() bool { count++; return n == 0 || (count*2654435761+n*40503)>>3%4 != 0 })
		got := write(nil, v.Interface().(*T))
		var back, oracle T
		want, err := stdjson.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		dec := stdjson.NewDecoder(bytes.NewReader(got))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&back); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if err := stdjson.Unmarshal(want, &oracle); err != nil {
			t.Fatal(err)
		}
		normalize(reflect.ValueOf(&back).Elem())
		normalize(reflect.ValueOf(&oracle).Elem())
		if !reflect.DeepEqual(back, oracle) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

// normalize makes empty lists nil: the codec writes a required list that is nil as an
// empty list, encoding/json as null.
func normalize(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Len() == 0 {
			v.SetZero()
		}
		for i := range v.Len() {
			normalize(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			normalize(v.Field(i))
		}
	default:
	}
}

func TestAnswersAreWrittenAsEncodingJSONWritesThem(t *testing.T) {
	t.Run("Response", func(t *testing.T) { checkAppend(t, codec.AppendResponse) })
	t.Run("Manifest", func(t *testing.T) { checkAppend(t, codec.AppendManifest) })
	t.Run("SettingsResponse", func(t *testing.T) { checkAppend(t, codec.AppendSettingsResponse) })
	t.Run("Toleration", func(t *testing.T) { checkAppend(t, valueOf[contract.Toleration]) })
	t.Run("NodeSelectorTerm", func(t *testing.T) { checkAppend(t, valueOf[contract.NodeSelectorTerm]) })
	t.Run("PodAffinityTerm", func(t *testing.T) { checkAppend(t, valueOf[contract.PodAffinityTerm]) })
	t.Run("WeightedPodAffinityTerm", func(t *testing.T) { checkAppend(t, valueOf[contract.WeightedPodAffinityTerm]) })
}

func valueOf[V contract.Value](b []byte, v *V) []byte { return (*v).AppendJSON(b) }

type podFacts struct{ contract.PodMutationFacts }

func (f *podFacts) ReadFacts(s *json.Scanner) { codec.PodMutationFacts(s, &f.PodMutationFacts) }

func TestDecodeRequest(t *testing.T) {
	tests := map[string]struct{ data, wantError string }{
		"a good request":                  {`{"version":"v1alpha1","point":"PodMutation","moment":"Offload","settings":{"a":1},"facts":{},"later":0}`, ""},
		"members in another order":        {`{"facts":{},"point":"PodMutation","version":"v1alpha1"}`, ""},
		"a version from the future":       {`{"version":"v9","point":"PodMutation","facts":{}}`, `does not speak the contract version "v9"`},
		"no version":                      {`{"point":"PodMutation","facts":{}}`, `contract version ""`},
		"the question of another point":   {`{"version":"v1alpha1","point":"MetadataFilter","facts":{}}`, `asked for point "MetadataFilter"`},
		"no facts":                        {`{"version":"v1alpha1","point":"PodMutation"}`, "no facts"},
		"facts of another type":           {`{"version":"v1alpha1","point":"PodMutation","facts":[]}`, "unexpected type at byte"},
		"not JSON":                        {`version`, "invalid JSON at byte 0"},
		"nothing":                         {``, "invalid JSON at byte 0"},
		"cut in the middle":               {`{"version":"v1alpha1","po`, "invalid JSON"},
		"something after the request":     {`{"version":"v1alpha1","point":"PodMutation","facts":{}}{}`, "invalid JSON"},
		"a label that is not a string":    {`{"version":"v1alpha1","point":"PodMutation","facts":{"object":{"metadata":{"labels":{"a":1}}}}}`, "unexpected type"},
		"a nesting that eats the stack":   {`{"later":` + strings.Repeat("[", 100000), "nested too deep"},
		"an unfinished escape at the end": {`{"version":"v1alpha1","point":"\u12`, "invalid JSON"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			envelope, err := codec.DecodeRequest([]byte(tc.data), contract.PodMutation, &podFacts{})
			if tc.wantError == "" {
				if err != nil || envelope.Version != contract.Version {
					t.Fatalf("got %+v, %v", envelope, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.wantError) {
				t.Fatalf("got %v, want %q", err, tc.wantError)
			}
		})
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"version":"v1alpha1","point":"PodMutation","facts":{"object":{"spec":{"tolerations":[{"tolerationSeconds":null}]}}}}`))
	f.Add([]byte(`{"version":"v1alpha1","point":"PodMutation","facts":{"offloading":{"clusterSelector":{"nodeSelectorTerms":[{}]}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := codec.DecodeRequest(data, contract.PodMutation, &podFacts{})
		if err == nil && !stdjson.Valid(data) {
			t.Fatalf("accepted invalid JSON %q", data)
		}
	})
}
