package metadatafilter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/builtin-policies/metadatafilter"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// facts of an object with these labels and, the same, annotations.
func facts(apiVersion, kind string, keys ...string) contract.MetadataFilterEntries {
	list := contract.Entries{}
	for _, key := range keys {
		list = append(list, contract.Entry{Key: key, Value: "of " + key})
	}
	list = list.Sorted()
	return contract.MetadataFilterEntries{Object: contract.EntryObject{APIVersion: apiVersion, Kind: kind, Metadata: contract.EntryMetadata{Labels: list, Annotations: list}}}
}

// filtered applies the policy's answer and returns labels and annotations after it.
func filtered(t *testing.T, f contract.MetadataFilterEntries, settings string) (labels, annotations map[string]any) {
	t.Helper()
	operations, err := metadatafilter.Decide(f, []byte(settings))
	require.NoError(t, err)
	compiled, err := operation.Compile(operations)
	require.NoError(t, err)
	data, err := json.Marshal(map[string]any{"metadata": f.Object.Metadata})
	require.NoError(t, err)
	object, err := jsonvalue.Decode(data)
	require.NoError(t, err)
	after, _, err := operation.Apply(object.(map[string]any), compiled)
	require.NoError(t, err)
	metadata, _ := after["metadata"].(map[string]any)
	labels, _ = metadata["labels"].(map[string]any)
	annotations, _ = metadata["annotations"].(map[string]any)
	return labels, annotations
}

func TestPatternsNameKeys(t *testing.T) {
	for name, tc := range map[string]struct {
		pattern string
		names   []string
		spares  []string
	}{
		"a key":                  {"team", []string{"team"}, []string{"teams", "example.com/team", "tea"}},
		"a key of a domain":      {"example.com/team", []string{"example.com/team"}, []string{"team", "example.com/teams"}},
		"a domain":               {"example.com/", []string{"example.com/team", "example.com/a"}, []string{"sub.example.com/team", "example.com"}},
		"a beginning":            {"build-*", []string{"build-host", "build-"}, []string{"rebuild-host", "build"}},
		"an end":                 {"*-checksum", []string{"a-checksum", "example.com/b-checksum"}, []string{"checksum", "a-checksums"}},
		"a middle, over a slash": {"e*/t*m", []string{"example.com/team", "e/tm"}, []string{"team", "example.com/teams"}},
		"one character":          {"v?", []string{"v1", "v2"}, []string{"v", "v10"}},
		"stars that must go on":  {"*a*b*c", []string{"aXbXbXc", "abc"}, []string{"acb", "aabb"}},
		"everything":             {"*", []string{"a", "example.com/b"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			settings := fmt.Sprintf(`{"rules":[{"drop":[%q]}]}`, tc.pattern)
			labels, annotations := filtered(t, facts("v1", "ConfigMap", append(tc.names, tc.spares...)...), settings)
			for _, key := range tc.names {
				assert.NotContains(t, labels, key)
				assert.NotContains(t, annotations, key)
			}
			for _, key := range tc.spares {
				assert.Contains(t, labels, key)
				assert.Contains(t, annotations, key)
			}
		})
	}
}

func TestRulesAreForKinds(t *testing.T) {
	for name, tc := range map[string]struct {
		kinds            string
		apiVersion, kind string
		want             bool
	}{
		"no kind is every kind":           {`[]`, "v1", "Pod", true},
		"by kind":                         {`["Secret","ConfigMap"]`, "v1", "ConfigMap", true},
		"by kind, of any group":           {`["Ingress"]`, "networking.k8s.io/v1", "Ingress", true},
		"another kind":                    {`["Secret"]`, "v1", "ConfigMap", false},
		"part of a kind":                  {`["Config"]`, "v1", "ConfigMap", false},
		"by version and kind":             {`["v1/ConfigMap"]`, "v1", "ConfigMap", true},
		"by group, version and kind":      {`["networking.k8s.io/v1/Ingress"]`, "networking.k8s.io/v1", "Ingress", true},
		"another version":                 {`["v2/ConfigMap"]`, "v1", "ConfigMap", false},
		"the core group is not any group": {`["v1/Ingress"]`, "networking.k8s.io/v1", "Ingress", false},
		"all of a group":                  {`["networking.k8s.io/*"]`, "networking.k8s.io/v1", "Ingress", true},
		"kinds by a glob":                 {`["Endpoint*"]`, "discovery.k8s.io/v1", "EndpointSlice", true},
	} {
		t.Run(name, func(t *testing.T) {
			labels, _ := filtered(t, facts(tc.apiVersion, tc.kind, "a", "b"), `{"rules":[{"kinds":`+tc.kinds+`,"drop":["a"]}]}`)
			assert.Contains(t, labels, "b")
			_, stays := labels["a"]
			assert.Equal(t, tc.want, !stays)
		})
	}
}

func TestRulesComposeInOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		settings string
		want     string
	}{
		"labels only":                             {`{"rules":[{"in":["labels"],"drop":["a"]}]}`, `b=b x.io/c=x.io/c | a=a b=b x.io/c=x.io/c`},
		"annotations only":                        {`{"rules":[{"in":["annotations"],"drop":["a"]}]}`, `a=a b=b x.io/c=x.io/c | b=b x.io/c=x.io/c`},
		"an allow list":                           {`{"rules":[{"keep":["a","x.io/"]}]}`, `a=a x.io/c=x.io/c | a=a x.io/c=x.io/c`},
		"an empty allow list":                     {`{"rules":[{"in":["labels"],"keep":[]}]}`, ` | a=a b=b x.io/c=x.io/c`},
		"a key renamed":                           {`{"rules":[{"rename":{"a":"y.io/a"}}]}`, `b=b x.io/c=x.io/c y.io/a=a | b=b x.io/c=x.io/c y.io/a=a`},
		"a domain renamed":                        {`{"rules":[{"rename":{"x.io/":"y.io/"}}]}`, `a=a b=b y.io/c=x.io/c | a=a b=b y.io/c=x.io/c`},
		"a key before its domain":                 {`{"rules":[{"rename":{"x.io/":"y.io/","x.io/c":"z"}}]}`, `a=a b=b z=x.io/c | a=a b=b z=x.io/c`},
		"what is there stays":                     {`{"rules":[{"rename":{"a":"b"}}]}`, `b=b x.io/c=x.io/c | b=b x.io/c=x.io/c`},
		"renamed, then dropped by its new name":   {`{"rules":[{"rename":{"a":"n"}},{"drop":["n"]}]}`, `b=b x.io/c=x.io/c | b=b x.io/c=x.io/c`},
		"dropped, then nothing is left to rename": {`{"rules":[{"drop":["a"]},{"rename":{"a":"n"}}]}`, `b=b x.io/c=x.io/c | b=b x.io/c=x.io/c`},
		"dropped, and another takes its name":     {`{"rules":[{"drop":["a"]},{"rename":{"b":"a"}}]}`, `a=b x.io/c=x.io/c | a=b x.io/c=x.io/c`},
		"there and back":                          {`{"rules":[{"rename":{"a":"n"}},{"rename":{"n":"a"}}]}`, `a=a b=b x.io/c=x.io/c | a=a b=b x.io/c=x.io/c`},
	} {
		t.Run(name, func(t *testing.T) {
			labels, annotations := filtered(t, facts("v1", "ConfigMap", "a", "b", "x.io/c"), tc.settings)
			assert.Equal(t, tc.want, line(labels)+" | "+line(annotations))
		})
	}
}

func line(keys map[string]any) string {
	data, err := json.Marshal(keys) // sorted
	if err != nil || keys == nil {
		return ""
	}
	return strings.NewReplacer(`{`, ``, `}`, ``, `":"of `, `=`, `"`, ``, `,`, ` `).Replace(string(data))
}

func TestListsOfTheVirtualNodeAndRulesCompose(t *testing.T) {
	f := facts("v1", "ConfigMap", "a", "b", "c")
	f.NotReflected = contract.NotReflected{Labels: []string{"a", "absent"}, Annotations: []string{"b"}}
	labels, annotations := filtered(t, f, `{"rules":[{"drop":["c"]},{"rename":{"a":"n"}}]}`)
	assert.Equal(t, "b=b", line(labels), "what the list drops cannot be renamed")
	assert.Equal(t, "n=a", line(annotations))

	operations, err := metadatafilter.Decide(f, []byte(`{"rules":[{"kinds":["Secret"],"drop":["c"]}]}`))
	require.NoError(t, err)
	plain, err := metadatafilter.Decide(f, nil)
	require.NoError(t, err)
	assert.Equal(t, plain, operations, "rules for other kinds change nothing of the answer")
}

// The policy's list of reserved keys is the host's.
func TestReservedKeysAreTheHosts(t *testing.T) {
	for _, key := range []string{
		"offloading.liqo.io/origin", "offloading.liqo.io/x", "liqo.io/managed-by", "liqo.io/creator-user", "liqo.io/shadowPod",
		"endpointslice.kubernetes.io/managed-by", "longshore.dev/local-pod-uid", "policy.longshore.dev/decisions",
		"liqo.io/type", "team", "offloading.liqo.iox/a", "longshore.dev/policy", "",
	} {
		assert.Equal(t, remote.ReservedKey(key), metadatafilter.Reserved(key), key)
	}
}

func TestReservedKeysAreNeverTouched(t *testing.T) {
	f := facts("v1", "ConfigMap", "offloading.liqo.io/origin", "liqo.io/managed-by", "team")
	for _, settings := range []string{`{"rules":[{"drop":["*"]}]}`, `{"rules":[{"keep":[]}]}`, `{"rules":[{"drop":["*o*","team"]}]}`, `{"rules":[{"drop":["team"]},{"rename":{"liqo.io/":"x.io/"}}]}`} {
		labels, annotations := filtered(t, f, settings)
		assert.Equal(t, "liqo.io/managed-by=liqo.io/managed-by offloading.liqo.io/origin=offloading.liqo.io/origin", line(labels), settings)
		assert.Equal(t, line(labels), line(annotations), settings)
	}
	labels, _ := filtered(t, facts("v1", "ConfigMap", "x.io/managed-by"), `{"rules":[{"rename":{"x.io/":"liqo.io/"}}]}`)
	assert.Equal(t, "x.io/managed-by=x.io/managed-by", line(labels), "a domain moved onto a reserved key leaves that key")
}

func TestRulesNeedTheObject(t *testing.T) {
	_, err := metadatafilter.Decide(contract.MetadataFilterEntries{}, []byte(`{"rules":[{"drop":["a"]}]}`))
	require.ErrorContains(t, err, "spec.allow.reads of this binding must not leave them out")
}

// An object with very many keys gives several operations, each within the host's bound.
func TestManyKeysAreDroppedInSeveralOperations(t *testing.T) {
	keys := make([]string, 1300)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i)
	}
	labels, annotations := filtered(t, facts("v1", "ConfigMap", keys...), `{"rules":[{"drop":["k*"]}]}`)
	assert.Empty(t, labels)
	assert.Empty(t, annotations)
}
