package trial_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/trial"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// ask asks a policy with one operation about an object.
func ask(t *testing.T, point contract.Point, object, path string, verb contract.Verb, value string) error {
	t.Helper()
	manifest := contract.Manifest{Points: []contract.PointManifest{{Point: point, Writes: []contract.WriteRule{{Path: path, Verbs: contract.Verbs()}}}}}
	policy := policytest.Native("p", manifest, map[contract.Point]func(contract.Request) (contract.Response, error){
		point: func(contract.Request) (contract.Response, error) {
			return contract.Response{Operations: []contract.Operation{{Op: verb, Path: path, Value: contract.RawMessage(value)}}}, nil
		},
	})
	asked, err := trial.New(chain.Binding{Policy: policy, Point: point})
	require.NoError(t, err)
	var document map[string]any
	require.NoError(t, json.Unmarshal([]byte(object), &document))
	_, err = asked.Ask(t.Context(), &trial.Question{Point: point, Moment: map[contract.Point]contract.Moment{contract.PodMutation: contract.MomentOffload}[point], Object: document})
	return err
}

// The rows are refusals of the API server.
func TestWhatKubernetesRefusesIsAnError(t *testing.T) {
	const pod = `{"metadata":{"name":"web"},"spec":{"volumes":[{"name":"data"}],"containers":[{"name":"web","image":"web:1"}]}}`
	for name, tc := range map[string]struct{ path, value, want string }{
		"an effect that does not exist":    {"/spec/tolerations", `[{"key":"a","operator":"Exists","effect":"Never"}]`, `spec.tolerations[0].effect: "Never" is none of`},
		"seconds of another effect":        {"/spec/tolerations", `[{"key":"a","operator":"Exists","tolerationSeconds":3}]`, "needs the effect NoExecute"},
		"a value beside Exists":            {"/spec/tolerations", `[{"key":"a","operator":"Exists","value":"b"}]`, "must be empty"},
		"a node selector with an operator": {"/spec/affinity", `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Is"}]}]}}}`, "Is"},
		"node affinity without terms":      {"/spec/affinity", `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}}}`, "at least one"},
		"a pod term without topology":      {"/spec/affinity", `{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{}}]}}`, "topologyKey"},
		"a weight of nothing":              {"/spec/affinity", `{"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"podAffinityTerm":{"topologyKey":"a"}}]}}`, "1-100"},
		"a spread that allows no skew":     {"/spec/topologySpreadConstraints", `[{"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway"}]`, "maxSkew"},
		"the same spread twice":            {"/spec/topologySpreadConstraints", `[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway"},{"maxSkew":2,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway"}]`, "duplicate"},
		"a label value as node selector":   {"/spec/nodeSelector", `{"a":"b c"}`, "spec.nodeSelector[a]"},
		"a runtime class with capitals":    {"/spec/runtimeClassName", `"GVisor"`, "spec.runtimeClassName"},
		"a request above the limit":        {"/spec/containers[name=web]/resources", `{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}`, "more than the limit"},
		"a mount without its volume":       {"/spec/containers[name=web]/volumeMounts", `[{"name":"other","mountPath":"/x"}]`, `no volume "other"`},
		"an image with a space":            {"/spec/containers[name=web]/image", `" web"`, "white space"},
		"two volumes of one name":          {"/spec/volumes", `[{"name":"data"},{"name":"data"}]`, "duplicate name"},
	} {
		t.Run(name, func(t *testing.T) {
			err := ask(t, contract.PodMutation, pod, tc.path, contract.VerbSet, tc.value)
			require.ErrorContains(t, err, tc.want)
			var problem *trial.ObjectError
			assert.ErrorAs(t, err, &problem)
		})
	}
}

func TestAnObjectThatWasInvalidIsNotThePolicysFault(t *testing.T) {
	const pod = `{"spec":{"tolerations":[{"key":"a","operator":"Exists","effect":"Never"}],"containers":[{"name":"web","image":"web:1"}]}}`
	assert.NoError(t, ask(t, contract.PodMutation, pod, "/spec/nodeSelector", contract.VerbMerge, `{"a":"b"}`))
}

func TestKeysOfAConfigMap(t *testing.T) {
	const configMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}`
	require.ErrorContains(t, ask(t, contract.ResourceMutation, configMap, "/data", contract.VerbMerge, `{"a b":"c"}`), "data[a b]")
	assert.NoError(t, ask(t, contract.ResourceMutation, configMap, "/data", contract.VerbMerge, `{"a.b":"c"}`))
}
