package explain

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output/outputtest"
	"github.com/longshore-dev/longshore/host/planner"
	"github.com/longshore-dev/longshore/host/policy/view"
)

func TestTargetsAreNamedAsForKubectl(t *testing.T) {
	for name, tc := range map[string]struct {
		arguments []string
		want      Target
		message   string
	}{
		"kind and name in one":    {[]string{"pod/web"}, Target{"pod", "web"}, ""},
		"kind and name apart":     {[]string{"shadowpods", "web"}, Target{"shadowpod", "web"}, ""},
		"a short name":            {[]string{"cm/settings"}, Target{"configmap", "settings"}, ""},
		"in capitals":             {[]string{"Service/web"}, Target{"service", "web"}, ""},
		"nothing":                 {nil, Target{}, "want one object, as pod/NAME"},
		"no name":                 {[]string{"pod/"}, Target{}, "want one object, as pod/NAME"},
		"two objects":             {[]string{"pod", "web", "db"}, Target{}, "want one object, as pod/NAME"},
		"two names in one":        {[]string{"pod/web/db"}, Target{}, "want one object, as pod/NAME"},
		"an unsupported kind":     {[]string{"node/milan"}, Target{}, `kind "node": policies decide about configmap, pod, secret, service, shadowpod`},
		"a kind and a typed name": {[]string{"pod", "pod/web"}, Target{}, "want one object, as pod/NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTarget(tc.arguments)
			if tc.message != "" {
				code, message := output.ExitCode(err)
				assert.Equal(t, output.CodeUsage, code)
				assert.Equal(t, tc.message, message)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

// Every user who may write the object may write its annotations.
func TestTheTableHasNoControlCharactersOfTheAnnotation(t *testing.T) {
	const hostile = "x\x1b[2J\n\u202ey"
	for name, entry := range map[string]view.Entry{
		"a point":               {Point: hostile},
		"a part":                {Part: hostile},
		"a policy":              {Policy: hostile},
		"a module":              {Module: hostile},
		"a digest":              {Digest: hostile},
		"an operation":          {Operations: []string{hostile}},
		"a removal":             {Operations: []string{"remove " + hostile}},
		"a key that is kept":    {Kept: []string{hostile}},
		"a part with omissions": {Part: hostile, Omitted: 1},
	} {
		t.Run(name, func(t *testing.T) {
			explanation := &Explanation{Objects: []Object{{Kind: "pod", Namespace: "shop", Name: "web", Decisions: []view.Entry{entry}}}}
			var out bytes.Buffer
			require.NoError(t, explanation.text(&out, output.Colored(false)))
			assert.Contains(t, out.String(), "x [2J  y")
			assert.Equal(t, 3, strings.Count(out.String(), "\n"), "title, head and one row")
		})
	}
}

func TestTheTableShowsTheAnnotation(t *testing.T) {
	explanation := &Explanation{Objects: []Object{{Kind: "pod", Namespace: "shop", Name: "web", Decisions: []view.Entry{
		{Point: "MetadataFilter", Policy: "filter", Module: "f", Digest: "d", Operations: []string{"remove /metadata/labels[team]"}, Kept: []string{"/metadata/labels/x"}},
		{Part: view.PartSpec, Point: "PodMutation", Policy: "p", FellBack: true},
		{Part: view.PartMetadata, Point: "MetadataFilter", Policy: "quiet"},
		{Part: view.PartMetadata, Omitted: 3},
	}}}}
	var plain, colored bytes.Buffer
	require.NoError(t, explanation.text(&plain, output.Colored(false)))
	assert.Equal(t, `pod shop/web
POINT           DECIDES   POLICY  MODULE  DIGEST  WHAT
MetadataFilter  all       filter  f       d       remove /metadata/labels[team]
                                                  tried to change /metadata/labels/x, which is reserved
PodMutation     spec      p                       failed, and its previous version decided
MetadataFilter  metadata  quiet                   nothing
…               metadata                          3 more policies, which do not fit into the annotation
`, plain.String())
	require.NoError(t, explanation.text(&colored, output.Colored(true)))
	assert.Contains(t, colored.String(), "\033[31mremove /metadata/labels[team]\033[0m", "what is gone is seen at once")
	assert.Contains(t, colored.String(), "\033[1mPOINT\033[22m           \033[1mDECIDES", "colors do not shift columns")
}

func TestAPodThatRunsIsSaidToRun(t *testing.T) {
	for name, tc := range map[string]struct {
		explanation Explanation
		want        string
	}{
		"a pod that runs":          {Explanation{Phase: corev1.PodRunning, Node: "milan"}, "Runs on node milan, and is ready.\n\n"},
		"a pod that has ended":     {Explanation{Phase: corev1.PodSucceeded, Node: "milan"}, "Has ended with success on node milan.\n\n"},
		"an object that is no pod": {Explanation{}, ""},
		"a warning": {
			Explanation{Phase: corev1.PodRunning, Node: "milan", Warnings: []string{"NetworkPolicies stay."}},
			"Runs on node milan, and is ready.\n\nWarning: NetworkPolicies stay.\n\n",
		},
		"a node with a strange name": {Explanation{Phase: corev1.PodRunning, Node: "x\x1b[2J"}, "Runs on node x [2J, and is ready.\n\n"},
		"a pod that runs in the wrong cluster": {
			Explanation{Phase: corev1.PodRunning, Node: "worker", Diagnosis: &planner.Diagnosis{Reason: planner.Reason{Stage: planner.Scheduling, Reason: "StrategyChanged", Message: "Message."}, Who: "the user"}},
			"Runs where it should not, StrategyChanged: Message.\nWho can correct it: the user\n\n",
		},
		"a pod whose container ends": {Explanation{Phase: corev1.PodRunning, Diagnosis: &planner.Diagnosis{Who: "the user"}}, "Does not run at , : \nWho can correct it: the user\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, tc.explanation.text(&out, output.Colored(false)))
			assert.Equal(t, tc.want, out.String())
		})
	}
}

func TestAClusterThatIsNotTheProviderIsNoticed(t *testing.T) {
	for name, tc := range map[string]struct{ there, provider, want string }{
		"the provider":               {"milan", "milan", ""},
		"the consumer":               {"rome", "milan", `is of cluster "rome", not of "milan", in which the pod is`},
		"another provider":           {"turin", "milan", `is of cluster "turin", not of "milan"`},
		"the consumer, for a Secret": {"rome", "", `is of cluster "rome" itself, not of its provider`},
		"a provider, for a Secret":   {"turin", "", ""},
		"an ID that is not known":    {"", "milan", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkProvider("rome", tc.there, tc.provider)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestTheTableFitsATerminal(t *testing.T) {
	explanation := &Explanation{
		Objects: []Object{{Kind: "pod", Namespace: "shop", Name: "web", Decisions: []view.Entry{
			{
				Point: "ShadowPodAdmission", Policy: outputtest.Long, Module: outputtest.Long, Digest: "0123456789ab",
				Operations: []string{"remove /metadata/labels[" + outputtest.Long + "]", "set /spec/nodeSelector"}, Kept: []string{"/metadata/labels/x"},
			},
			{Part: view.PartMetadata, Point: "MetadataFilter", Policy: "quiet", Module: "filter", Digest: "0123456789ab"},
			{Part: view.PartMetadata, Omitted: 3},
		}}},
		Diagnosis: &planner.Diagnosis{Reason: planner.Reason{
			Stage: "admission", Reason: "PolicyDenied", Message: "Policy " + outputtest.Long + " refuses the pod: its image is not from the registry of the company.",
		}, Who: "the user"},
	}
	outputtest.Table(t, "explain", false, explanation.text)
}
