package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// A cluster refuses an object that cannot be decoded, or that is less isolated than before.
func TestRunFindsWhatAClusterRefuses(t *testing.T) {
	const manifest = `{"name":"site","version":"1","contracts":["v1alpha1"],"points":[{"point":"PodMutation","reads":["/object/metadata/name"],"writes":[` +
		`{"path":"/spec","verbs":["set"]},{"path":"/metadata/annotations","verbs":["merge"]},{"path":"/metadata/labels","verbs":["merge"]}]}]}`
	set := func(path, value string) string {
		return `{"version":"v1alpha1","operations":[{"op":"set","path":"` + path + `","value":` + value + `}]}`
	}
	merge := func(path, value string) string {
		return `{"version":"v1alpha1","operations":[{"op":"merge","path":"` + path + `","value":` + value + `}]}`
	}
	for name, tc := range map[string]struct{ answer, want string }{
		"an unknown field":       {set("/spec/nodeSelektor", `{"a":"b"}`), `Failed (BadOutput): module site gave no valid answer: checking the changed object: decoding the changed spec: unknown field "nodeSelektor"`},
		"a number too large":     {set("/spec/activeDeadlineSeconds", `9223372036854775808`), "Failed (BadOutput): module site gave no valid answer: checking the changed object: decoding the changed spec: "},
		"an invalid label":       {merge("/metadata/labels", `{"a b":"c"}`), "Failed (BadOutput): module site gave no valid answer"},
		"a guarded annotation":   {merge("/metadata/annotations", `{"run.oci.keep_original_groups":"1"}`), "Failed (UndeclaredWrite): module site gave no valid answer"},
		"the node's network":     {set("/spec/hostNetwork", `true`), "Failed (Invariants): module site violated an invariant: /spec"},
		"a privileged container": {set("/spec/containers", `[{"name":"web","image":"web:1","securityContext":{"privileged":true}}]`), "/securityContext/privileged: set to true"},
		"a token of its account": {set("/spec/automountServiceAccountToken", `true`), "automountServiceAccountToken"},
	} {
		for _, moment := range []string{"Admission", "Offload"} {
			if name == "a token of its account" && moment == "Admission" {
				continue // there it is the default
			}
			t.Run(name+" at "+moment, func(t *testing.T) {
				file := guest{manifest: manifest, answer: tc.answer}.build(t)
				out, code, message := run(t, pod, "run", file, "--input", "-", "--moment", moment)
				assert.Equal(t, output.CodeModule, code, "%s\n%s", message, out)
				assert.Contains(t, out, tc.want)
			})
		}
	}
}
