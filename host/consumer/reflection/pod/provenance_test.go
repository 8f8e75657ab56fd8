package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// filters are policies of which one, in a version, drops a label at MetadataFilter, and
// another sets the scheduler at PodMutation.
func filters(t *testing.T, version, drops string) *policies {
	return &policies{answer: func(in chain.Input) (*chain.Result, error) {
		var answer contract.Operation
		switch in.Point {
		case contract.MetadataFilter:
			answer = contract.Remove("/metadata/labels", drops)
		case contract.PodMutation:
			answer = contract.Set("/spec/schedulerName", contract.String(version))
		default:
			return &chain.Result{Object: in.Object}, nil
		}
		operations, err := operation.Compile([]contract.Operation{answer})
		require.NoError(t, err)
		object, effects, err := operation.Apply(in.Object, operations)
		require.NoError(t, err)
		return &chain.Result{Object: object, Changed: len(effects) > 0, Decisions: []chain.Decision{
			{Point: in.Point, Binding: "p", Module: "m", Digest: "sha256:" + version, Effects: effects},
		}}, nil
	}}
}

// patched is a ShadowPod after the patches among the actions, as the provider stores it.
func patched(shadow *offloadingv1beta1.ShadowPod, actions []engine.Action) *offloadingv1beta1.ShadowPod {
	next := shadow.DeepCopy()
	for _, action := range actions {
		patch, ok := action.(engine.PatchRemote)
		if !ok {
			continue
		}
		for have, change := range map[*map[string]string]map[string]*string{&next.Labels: patch.Labels, &next.Annotations: patch.Annotations} {
			for key, value := range change {
				if value == nil {
					delete(*have, key)
					continue
				}
				(*have)[key] = *value
			}
		}
	}
	return next
}

func TestAShadowPodTellsWhoDecidedTheSpecAndWhoDecidesTheMetadata(t *testing.T) {
	local := localPod(label("cost", "1"), label("team", "blue"))
	in := input(local, nil, nil)
	actions, err := decide(t.Context(), definition(filters(t, "v1", "team")), in)
	require.NoError(t, err)
	shadow := actions[0].(engine.Create).Object.(*offloadingv1beta1.ShadowPod)
	shadow.UID = "shadow-1"
	assert.JSONEq(t, `[{"point":"MetadataFilter","policy":"p","module":"m","digest":"v1","ops":["remove /metadata/labels[team]"]},`+
		`{"point":"PodMutation","policy":"p","module":"m","digest":"v1","ops":["set /spec/schedulerName"]}]`,
		shadow.Annotations[remote.DecisionsAnnotation])
	in = recall(in, actions)

	for _, tc := range []struct {
		name, version, drops, want, told string
	}{
		{
			"a version that does the same to the labels writes nothing", "v2", "team", "", shadow.Annotations[remote.DecisionsAnnotation],
		},
		{
			"a version that drops another label writes itself down with it", "v3", "cost", "patch +team -cost +policy.longshore.dev/decisions",
			`[{"part":"spec","point":"PodMutation","policy":"p","module":"m","digest":"v1","ops":["set /spec/schedulerName"]},` +
				`{"part":"metadata","point":"MetadataFilter","policy":"p","module":"m","digest":"v3","ops":["remove /metadata/labels[cost]"]}]`,
		},
		{
			"and so does the next", "v4", "team", "patch +cost -team +policy.longshore.dev/decisions",
			`[{"part":"spec","point":"PodMutation","policy":"p","module":"m","digest":"v1","ops":["set /spec/schedulerName"]},` +
				`{"part":"metadata","point":"MetadataFilter","policy":"p","module":"m","digest":"v4","ops":["remove /metadata/labels[team]"]}]`,
		},
	} {
		d := definition(filters(t, tc.version, tc.drops))
		in.Facts.PolicyRevision++
		in.Remote = shadow
		actions, err := decide(t.Context(), d, in)
		require.NoError(t, err)
		assert.Equal(t, tc.want, summary(actions), tc.name)
		shadow = patched(shadow, actions)
		assert.Equal(t, tc.told, shadow.Annotations[remote.DecisionsAnnotation], tc.name)

		// Seen as it is now, with what is remembered and, after a restart, without.
		in = recall(in, actions)
		in.Remote = shadow
		restarted := in
		restarted.Memory = nil
		for _, again := range []engine.Input{in, restarted} {
			actions, err = decide(t.Context(), d, again)
			require.NoError(t, err)
			assert.Empty(t, summary(actions), "%s, once", tc.name)
		}
	}
}

func TestDecisionsThatTheProviderTakesAwayAreNoContest(t *testing.T) {
	d := definition(filters(t, "v1", "team"))
	in := input(localPod(label("team", "blue")), shadowPod(), nil)
	actions, err := decide(t.Context(), d, in)
	require.NoError(t, err)
	assert.Equal(t, "patch +policy.longshore.dev/decisions", summary(actions), "who drops the label is told, of the spec nothing is known")
	in = recall(in, actions)
	actions, err = decide(t.Context(), d, in)
	require.NoError(t, err)
	assert.Empty(t, summary(actions), "written once, whatever becomes of it")
	in.Facts.PolicyRevision++
	actions, err = decide(t.Context(), d, in)
	require.NoError(t, err)
	assert.Equal(t, "patch +policy.longshore.dev/decisions", summary(actions), "and again when there is news, without a complaint")
}
