package view_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// factsOf returns the facts about an object that a policy with these reads gets.
func factsOf(t *testing.T, reads []string, allow chain.Allow, object any) string {
	t.Helper()
	var facts string
	spy := policytest.Native("spy", contract.Manifest{Points: []contract.PointManifest{{Point: contract.PodMutation, Reads: reads}}},
		map[contract.Point]func(contract.Request) (contract.Response, error){
			contract.PodMutation: func(r contract.Request) (contract.Response, error) {
				facts = string(r.Facts)
				return contract.Response{}, nil
			},
		})
	c := chain.New(chain.Options{MemoEntries: -1})
	require.NoError(t, c.Swap([]chain.Binding{{Name: "spy", Policy: spy, Point: contract.PodMutation, Allow: allow}}))
	_, err := c.Evaluate(t.Context(), chain.Input{
		Point: contract.PodMutation, Moment: contract.MomentOffload, Object: map[string]any{}, Facts: map[string]any{"local": object},
	})
	require.NoError(t, err)
	return facts
}

// forms returns an object in the forms that the host uses: typed, unstructured, and split JSON
// text.
func forms(t *testing.T, object any) map[string]any {
	t.Helper()
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)
	data, err := json.Marshal(object)
	require.NoError(t, err)
	split, err := jsonvalue.Split(data, "metadata", "spec")
	require.NoError(t, err)
	return map[string]any{"typed": object, "unstructured": converted, "JSON text": split}
}

func TestPoliciesGetTheFactsThatTheyRead(t *testing.T) {
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", Annotations: map[string]string{"example.com/a~b": "1", "example.com/c": "2"}},
		Data:       map[string]string{"a.yaml": "x: 1", "b/c": "d"}, BinaryData: map[string][]byte{"bin": {1, 2}}, Immutable: ptr.To(true),
	}
	service := &corev1.Service{Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"},
		Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromString("http"), Protocol: corev1.ProtocolTCP},
			{Name: "metrics", Port: 9090, TargetPort: intstr.FromInt32(9090)},
			{Name: "", Port: 1},
		},
		ClusterIPs: []string{"10.0.0.1", "fd00::1"},
	}}
	ingress := &networkingv1.Ingress{Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{
		{Host: "a.example", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/x"}, {Path: "/y"}},
		}}},
		{Host: "b.example"},
	}}}
	for name, tc := range map[string]struct {
		object any
		reads  []string
		want   string
	}{
		"a whole map":                    {configMap, []string{"/local/data"}, `{"local":{"data":{"a.yaml":"x: 1","b/c":"d"}}}`},
		"one key, with a slash":          {configMap, []string{"/local/data/b~1c"}, `{"local":{"data":{"b/c":"d"}}}`},
		"a key with slash and tilde":     {configMap, []string{"/local/metadata/annotations/example.com~1a~0b"}, `{"local":{"metadata":{"annotations":{"example.com/a~b":"1"}}}}`},
		"bytes, as base64":               {configMap, []string{"/local/binaryData/bin"}, `{"local":{"binaryData":{"bin":"AQI="}}}`},
		"a boolean":                      {configMap, []string{"/local/immutable"}, `{"local":{"immutable":true}}`},
		"an absent field":                {configMap, []string{"/local/spec/type", "/local/immutable"}, `{"local":{"immutable":true}}`},
		"all items, some members":        {service, []string{"/local/spec/ports[*]/port"}, `{"local":{"spec":{"ports":[{"port":80},{"port":9090},{"port":1}]}}}`},
		"one item: the length is kept":   {service, []string{"/local/spec/ports[name=metrics]/port"}, `{"local":{"spec":{"ports":[{},{"port":9090},{}]}}}`},
		"all items and more of one":      {service, []string{"/local/spec/ports[*]/name", "/local/spec/ports[name=http]/targetPort"}, `{"local":{"spec":{"ports":[{"name":"http","targetPort":"http"},{"name":"metrics"},{}]}}}`},
		"an absent item":                 {service, []string{"/local/spec/ports[name=none]/port"}, `{"local":{"spec":{"ports":[{},{},{}]}}}`},
		"items by another member":        {service, []string{"/local/spec/ports[protocol=TCP]"}, `{"local":{"spec":{"ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":"http"},{},{}]}}}`},
		"items that are not objects":     {service, []string{"/local/spec/clusterIPs[*]"}, `{"local":{"spec":{"clusterIPs":["10.0.0.1","fd00::1"]}}}`},
		"lists within lists":             {ingress, []string{"/local/spec/rules[*]/http/paths[*]/path"}, `{"local":{"spec":{"rules":[{"http":{"paths":[{"path":"/x"},{"path":"/y"}]}},{}]}}}`},
		"a path through a scalar":        {ingress, []string{"/local/spec/rules[*]/host/x"}, `{"local":{"spec":{"rules":[{},{}]}}}`},
		"a list where a map is expected": {service, []string{"/local/spec/selector[*]/x", "/local/spec/ports/http"}, `{"local":{"spec":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			for form, object := range forms(t, tc.object) {
				assert.JSONEq(t, tc.want, factsOf(t, tc.reads, chain.Allow{}, object), form)
			}
		})
	}
}

// A custom resource is a map of arbitrary values.
func TestFactsOfACustomResource(t *testing.T) {
	resource := map[string]any{
		"apiVersion": "example.com/v1", "kind": "Database", "metadata": map[string]any{"name": "db"},
		"spec": map[string]any{
			"replicas": int64(3), "ratio": 0.5, "large": int64(1) << 60, "nothing": nil,
			"users": []any{map[string]any{"name": "a", "password": "p"}, "odd", nil, map[string]any{"name": 7, "password": "q"}},
			"a.b/c": map[string]any{"~": "tilde", "[x]": "bracket"},
		},
	}
	for name, tc := range map[string]struct {
		reads []string
		want  string
	}{
		"numbers":                           {[]string{"/local/spec/replicas", "/local/spec/ratio", "/local/spec/large"}, `{"local":{"spec":{"large":1152921504606846976,"ratio":0.5,"replicas":3}}}`},
		"null is absent":                    {[]string{"/local/spec/nothing"}, `{"local":{"spec":{}}}`},
		"names without passwords":           {[]string{"/local/spec/users[*]/name"}, `{"local":{"spec":{"users":[{"name":"a"},{},{},{"name":7}]}}}`},
		"one user":                          {[]string{"/local/spec/users[name=a]/password"}, `{"local":{"spec":{"users":[{"password":"p"},{},{},{}]}}}`},
		"a selector picks strings only":     {[]string{"/local/spec/users[name=7]/password"}, `{"local":{"spec":{"users":[{},{},{},{}]}}}`},
		"escaped keys":                      {[]string{"/local/spec/a.b~1c/~0"}, `{"local":{"spec":{"a.b/c":{"~":"tilde"}}}}`},
		"overlapping reads":                 {[]string{"/local/spec/users[*]/name", "/local/spec/users"}, `{"local":{"spec":{"users":[{"name":"a","password":"p"},"odd",null,{"name":7,"password":"q"}]}}}`},
		"nothing that another fact is read": {[]string{"/object/spec"}, `{"object":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			assert.JSONEq(t, tc.want, factsOf(t, tc.reads, chain.Allow{}, resource))
		})
	}
}

func TestABindingNarrowsTheFacts(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "a", Image: "i"}, {Name: "b", Image: "j"}}}}
	reads := []string{"/local/spec/containers[*]", "/local/spec/nodeName"}
	for name, tc := range map[string]struct {
		allow []string
		want  string
	}{
		"nothing is narrowed":                  {nil, `{"local":{"spec":{"containers":[{"image":"i","name":"a","resources":{}},{"image":"j","name":"b","resources":{}}],"nodeName":"n"}}}`},
		"one field":                            {[]string{"/local/spec/nodeName"}, `{"local":{"spec":{"nodeName":"n"}}}`},
		"a member of the items":                {[]string{"/local/spec/containers[*]/name"}, `{"local":{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}}`},
		"one of the items":                     {[]string{"/local/spec/containers[name=b]/image"}, `{"local":{"spec":{"containers":[{},{"image":"j"}]}}}`},
		"more than is declared grants no more": {[]string{"/local"}, `{"local":{"spec":{"containers":[{"image":"i","name":"a","resources":{}},{"image":"j","name":"b","resources":{}}],"nodeName":"n"}}}`},
		"what is not declared grants nothing":  {[]string{"/local/metadata"}, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			assert.JSONEq(t, tc.want, factsOf(t, reads, chain.Allow{Reads: tc.allow}, pod))
		})
	}
}

// Reads that only settings need are granted to bindings with settings only.
func TestSettingsReadsNeedSettings(t *testing.T) {
	for settings, want := range map[string]string{
		``:        `{"local":{"spec":{"nodeName":"n"}}}`,
		`{"a":1}`: `{"local":{"metadata":{"name":"p"},"spec":{"nodeName":"n"}}}`,
	} {
		var facts string
		spy := policytest.Native("spy", contract.Manifest{Points: []contract.PointManifest{{
			Point: contract.PodMutation, Reads: []string{"/local/spec/nodeName"}, SettingsReads: []string{"/local/metadata/name"},
		}}}, map[contract.Point]func(contract.Request) (contract.Response, error){
			contract.PodMutation: func(r contract.Request) (contract.Response, error) {
				facts = string(r.Facts)
				return contract.Response{}, nil
			},
		})
		c := chain.New(chain.Options{})
		require.NoError(t, c.Swap([]chain.Binding{{Name: "spy", Policy: spy, Point: contract.PodMutation, Settings: json.RawMessage(settings)}}))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
		_, err := c.Evaluate(t.Context(), chain.Input{
			Point: contract.PodMutation, Moment: contract.MomentOffload, Object: map[string]any{}, Facts: map[string]any{"local": pod},
		})
		require.NoError(t, err)
		assert.JSONEq(t, want, facts, "settings %q", settings)
	}
}

// TestWritesAreEnforced: an operation must lie inside the point's bound, what the
// manifest declares and what the binding allows, by path and by verb.
func TestWritesAreEnforced(t *testing.T) {
	spec := []contract.WriteRule{{Path: "/spec", Verbs: contract.Verbs()}}
	images := []contract.WriteRule{{Path: "/spec/containers[*]/image", Verbs: []contract.Verb{contract.VerbSet}}}
	setImage := contract.Set("/spec/containers[name=web]/image", contract.String("x"))
	for name, tc := range map[string]struct {
		point    contract.Point
		declared []contract.WriteRule
		allow    []contract.WriteRule
		op       contract.Operation
		// bind and write are what is refused, of the binding and of its answer.
		bind, write *operation.NotAllowedError
	}{
		"inside all three":             {point: contract.PodMutation, declared: spec, allow: images, op: setImage},
		"no binding narrows":           {point: contract.PodMutation, declared: images, op: setImage},
		"outside of the manifest":      {point: contract.PodMutation, declared: images, op: contract.Set("/spec/hostNetwork", contract.Bool(true)), write: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec/hostNetwork", Allowed: "set /spec/containers[*]/image"}},
		"another verb than declared":   {point: contract.PodMutation, declared: images, op: contract.Remove("/spec/containers[name=web]/image"), write: &operation.NotAllowedError{Verb: contract.VerbRemove, Path: "/spec/containers[name=web]/image", Allowed: "set /spec/containers[*]/image"}},
		"outside of the binding":       {point: contract.PodMutation, declared: spec, allow: images, op: contract.Set("/spec/hostname", contract.String("x")), write: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec/hostname", Allowed: "set /spec/containers[*]/image"}},
		"another verb than allowed":    {point: contract.PodMutation, declared: spec, allow: images, op: contract.Remove("/spec/containers[name=web]/image"), write: &operation.NotAllowedError{Verb: contract.VerbRemove, Path: "/spec/containers[name=web]/image", Allowed: "set /spec/containers[*]/image"}},
		"a key that is not allowed":    {point: contract.PodMutation, declared: []contract.WriteRule{{Path: "/metadata/labels", Verbs: []contract.Verb{contract.VerbMerge}}}, allow: []contract.WriteRule{{Path: "/metadata/labels", Verbs: []contract.Verb{contract.VerbMerge}, Keys: []string{"a"}}}, op: contract.Merge("/metadata/labels", contract.StringMap{"a": "1", "b": "2"}), write: &operation.NotAllowedError{Verb: contract.VerbMerge, Path: "/metadata/labels", Keys: []string{"a", "b"}, Allowed: "merge /metadata/labels [a]"}},
		"allowed more than declared":   {point: contract.PodMutation, declared: images, allow: spec, op: contract.Set("/spec/hostname", contract.String("x")), write: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec/hostname", Allowed: "set /spec/containers[*]/image"}},
		"the status":                   {point: contract.PodMutation, declared: []contract.WriteRule{{Path: "/status", Verbs: contract.Verbs()}}, bind: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/status", Allowed: allVerbs("/metadata/labels", "/metadata/annotations", "/spec")}},
		"the preset's point":           {point: contract.AntiAffinityPreset, declared: []contract.WriteRule{{Path: "/spec/affinity", Verbs: contract.Verbs()}}, bind: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec/affinity", Allowed: allVerbs("/spec/affinity/podAntiAffinity")}},
		"the preset's point, inside":   {point: contract.AntiAffinityPreset, declared: []contract.WriteRule{{Path: "/spec/affinity/podAntiAffinity", Verbs: contract.Verbs()}}, op: contract.Set("/spec/affinity/podAntiAffinity", contract.Raw("{}"))},
		"the patch's point":            {point: contract.OffloadingPatch, declared: images, bind: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec/containers[*]/image", Allowed: allVerbs("/spec/nodeSelector", "/spec/tolerations", "/spec/affinity", "/spec/runtimeClassName")}},
		"the filter's point":           {point: contract.MetadataFilter, declared: []contract.WriteRule{{Path: "/metadata", Verbs: contract.Verbs()}}, bind: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/metadata", Allowed: allVerbs("/metadata/labels", "/metadata/annotations")}},
		"a path that the filter reads": {point: contract.MetadataFilter, declared: []contract.WriteRule{{Path: "/metadata/labels", Verbs: []contract.Verb{contract.VerbRemove}}}, op: contract.Remove("/metadata/annotations", "a"), write: &operation.NotAllowedError{Verb: contract.VerbRemove, Path: "/metadata/annotations", Keys: []string{"a"}, Allowed: "remove /metadata/labels"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := chain.New(chain.Options{})
			err := c.Swap([]chain.Binding{{Name: "mine", Policy: answering("module", tc.point, tc.declared, tc.op), Point: tc.point, Allow: chain.Allow{Writes: tc.allow}}})
			if tc.bind != nil {
				var unusable *chain.BindingError
				require.ErrorAs(t, err, &unusable)
				assert.Equal(t, tc.bind, notAllowed(t, err))
				return
			}
			require.NoError(t, err)
			object := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "1"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "i"}}}}
			result, err := c.Evaluate(t.Context(), chain.Input{Point: tc.point, Moment: contract.MomentOffload, Object: object})
			if tc.write != nil {
				var failed *chain.PolicyError
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, chain.Undeclared, failed.Class)
				assert.Equal(t, "mine", failed.Binding)
				assert.Equal(t, tc.write, notAllowed(t, err))
				return
			}
			require.NoError(t, err)
			assert.True(t, result.Changed)
		})
	}
}

// notAllowed returns the write that an error refuses.
func notAllowed(t *testing.T, err error) *operation.NotAllowedError {
	t.Helper()
	refused, ok := errors.AsType[*operation.NotAllowedError](err)
	require.True(t, ok, "%v", err)
	return refused
}

// allVerbs lists rules that allow all verbs, as [operation.NotAllowedError] does.
func allVerbs(paths ...string) string {
	var rules []contract.WriteRule
	for _, path := range paths {
		rules = append(rules, contract.WriteRule{Path: path, Verbs: contract.Verbs()})
	}
	return operation.MustCompileRules(rules).String()
}
