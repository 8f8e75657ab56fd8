package metadatafilter_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/metadatafilter"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestBadSettingsAreRefusedWithRuleAndField(t *testing.T) {
	for settings, want := range map[string]string{
		`{"rule":[]}`: "spec.settings.rule: unknown field, want rules",
		`{"rules":[{"drop":["a"]},{"Drop":["b"]}]}`:                               "spec.settings.rules[1].Drop: unknown field, want name, kinds, in, drop, keep or rename",
		`{"rules":[{"drop":"a"}]}`:                                                "spec.settings.rules[0].drop: want a list",
		`{"rules":[{"name":"n","drop":["a"],"keep":[]}]}`:                         `spec.settings.rules[0] (rule "n"): a rule has exactly one of drop, keep and rename`,
		`{"rules":[{}]}`:                                                          "spec.settings.rules[0]: a rule has exactly one of",
		`{"rules":[{"in":["label"],"drop":["a"]}]}`:                               `spec.settings.rules[0].in[0]: "label" is unknown, want labels or annotations`,
		`{"rules":[{"kinds":[""],"drop":["a"]}]}`:                                 `spec.settings.rules[0].kinds[0]: "" is not a kind`,
		`{"rules":[{"kinds":["a/b/c/d"],"drop":["a"]}]}`:                          `.kinds[0]: "a/b/c/d" is not a kind`,
		`{"rules":[{"drop":[]}]}`:                                                 "spec.settings.rules[0].drop: the list is empty, so the rule would do nothing",
		`{"rules":[{"name":"x","drop":["a",""]}]}`:                                `spec.settings.rules[0].drop[1] (rule "x"): a pattern is empty`,
		`{"rules":[{"drop":["a b"]}]}`:                                            `.drop[0]: "a b" is not a key of a label or annotation`,
		`{"rules":[{"drop":["A_b.com/x"]}]}`:                                      `.drop[0]: "A_b.com/" is not a domain of keys`,
		`{"rules":[{"drop":["-a"]}]}`:                                             `"-a" is not a key`,
		`{"rules":[{"drop":["/"]}]}`:                                              `"/" is not a domain`,
		`{"rules":[{"drop":["a=*"]}]}`:                                            `"a=*" matches no key`,
		`{"rules":[{"drop":["a/b/*"]}]}`:                                          `"a/b/*" matches no key: a key has one slash at most`,
		`{"rules":[{"drop":["liqo.io/managed-by"]}]}`:                             `.drop[0]: "liqo.io/managed-by" is reserved`,
		`{"rules":[{"drop":["offloading.liqo.io/"]}]}`:                            `.drop[0]: "offloading.liqo.io/" is reserved`,
		`{"rules":[{"drop":["offloading.liqo.io/*"]}]}`:                           `is reserved`,
		`{"rules":[{"rename":{}}]}`:                                               "spec.settings.rules[0].rename: it is empty",
		`{"rules":[{"rename":{"a":1}}]}`:                                          `spec.settings.rules[0].rename["a"]: want a string`,
		`{"rules":[{"rename":{"a":"liqo.io/shadowPod"}}]}`:                        `.rename["a"]: "liqo.io/shadowPod" is reserved`,
		`{"rules":[{"rename":{"liqo.io/shadowPod":"a"}}]}`:                        `.rename["liqo.io/shadowPod"]: "liqo.io/shadowPod" is reserved`,
		`{"rules":[{"rename":{"x.io/":"offloading.liqo.io/"}}]}`:                  `"offloading.liqo.io/" is reserved`,
		`{"rules":[{"rename":{"a":"c","b":"c"}}]}`:                                `.rename["b"]: "a" is renamed to "c" too`,
		`{"rules":[{"rename":{"a":"b","b":"c"}}]}`:                                `.rename["a"]: its new name "b" is renamed as well`,
		`{"rules":[{"rename":{"a":"a"}}]}`:                                        `.rename["a"]: its new name "a" is renamed as well`,
		`{"rules":[{"rename":{"x.io/":"y"}}]}`:                                    `.rename["x.io/"]: a domain can only be renamed to a domain`,
		`{"rules":[{"rename":{"a*":"b"}}]}`:                                       `"a*" is not a key`,
		`{"rules":[{"rename":{"a":""}}]}`:                                         `"" is not a key`,
		`{"rules":[` + strings.Repeat(`{"drop":["a"]},`, 64) + `{"drop":["a"]}]}`: "spec.settings.rules: 65 rules are more than the allowed 64",
		`{"rules":[{"drop":[` + strings.Repeat(`"a",`, 256) + `"a"]}]}`:           "257 patterns are more than the allowed 256",
	} {
		t.Run(settings[:min(len(settings), 60)], func(t *testing.T) {
			err := metadatafilter.CheckSettings([]byte(settings))
			require.ErrorContains(t, err, want)
			_, decideErr := metadatafilter.Decide(facts("v1", "Pod"), []byte(settings))
			assert.EqualError(t, decideErr, err.Error(), "what is refused when it is written is refused when it is used")
		})
	}
}

func TestGoodSettingsAreAccepted(t *testing.T) {
	for _, settings := range []string{
		``, `null`, `{}`, `{"rules":[]}`, `{"rules":null}`,
		`{"rules":[{"name":"n","kinds":["Pod","v1/*","apps/v1/Deployment"],"in":["labels","annotations"],"drop":["a","x.example/y","x.example/","*z?"]}]}`,
		`{"rules":[{"keep":[]},{"keep":["offloading.liqo.io/","*"]}]}`,
		`{"rules":[{"rename":{"a":"x.io/a","y.io/":"z.io/"}}]}`,
	} {
		assert.NoError(t, metadatafilter.CheckSettings([]byte(settings)), settings)
	}
}

func TestOnlyTheFilterHasSettings(t *testing.T) {
	rules := []byte(`{"rules":[{"drop":["a"]}]}`)
	require.NoError(t, defaults.CheckSettings([]contract.Point{contract.MetadataFilter}, rules))
	require.ErrorContains(t, defaults.CheckSettings([]contract.Point{contract.MetadataFilter}, []byte(`{"rules":[{}]}`)), "rules[0]")
	require.ErrorContains(t, defaults.CheckSettings([]contract.Point{contract.PodMutation}, rules), "the default policy of PodMutation has none")
	require.ErrorContains(t, defaults.CheckSettings(nil, rules), "to a policy whose spec.points lists that point alone")
	for _, none := range []string{``, `null`, `{}`, ` { } `} {
		require.NoError(t, defaults.CheckSettings(nil, []byte(none)), none)
	}
	require.Error(t, defaults.CheckSettings([]contract.Point{contract.PodMutation}, []byte(`{"registry":"x"}`)), "and not any settings")
}
