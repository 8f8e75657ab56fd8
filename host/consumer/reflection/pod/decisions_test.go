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

// filters returns policies that remove a label at MetadataFilter and set the scheduler at
// PodMutation to the version.
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

func TestDecisionsOfSpecAndMetadata(t *testing.T) {
	local := localPod(label("cost", "1"), label("team", "blue"))
	in := input(local, nil, nil)
	actions, err := decide(t.Context(), definition(filters(t, "v1", "team")), in)
	require.NoError(t, err)
	shadow := actions[1].(engine.Create).Object.(*offloadingv1beta1.ShadowPod)
	shadow.UID = "shadow-1"
	assert.JSONEq(t, `[{"point":"MetadataFilter","policy":"p","module":"m","digest":"v1","ops":["remove /metadata/labels[team]"]},`+
		`{"point":"PodMutation","policy":"p","module":"m","digest":"v1","ops":["set /spec/schedulerName"]}]`,
		shadow.Annotations[remote.DecisionsAnnotation])
	in = remember(in, actions)

	for _, tc := range []struct {
		name, version, drops, want, decisions string
	}{
		{
			"a version with the same effect on labels is not recorded", "v2", "team", "keep NoRemotePod, keep MetadataUpToDate", shadow.Annotations[remote.DecisionsAnnotation],
		},
		{
			"a version that removes another label is recorded", "v3", "cost", "keep NoRemotePod, patch +team -cost +policy.longshore.dev/decisions",
			`[{"part":"spec","point":"PodMutation","policy":"p","module":"m","digest":"v1","ops":["set /spec/schedulerName"]},` +
				`{"part":"metadata","point":"MetadataFilter","policy":"p","module":"m","digest":"v3","ops":["remove /metadata/labels[cost]"]}]`,
		},
		{
			"the next version is recorded too", "v4", "team", "keep NoRemotePod, patch +cost -team +policy.longshore.dev/decisions",
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
		shadow = patchedShadowPod(shadow, actions)
		assert.Equal(t, tc.decisions, shadow.Annotations[remote.DecisionsAnnotation], tc.name)

		// The patched ShadowPod is observed, with the stored state and without it.
		in = remember(in, actions)
		in.Remote = shadow
		restarted := in
		restarted.Memory = nil
		for _, again := range []engine.Input{in, restarted} {
			actions, err = decide(t.Context(), d, again)
			require.NoError(t, err)
			assert.Equal(t, "keep NoRemotePod, keep MetadataUpToDate", summary(actions), tc.name)
		}
	}
}

func TestRemovedDecisionsAreNotAConflict(t *testing.T) {
	d := definition(filters(t, "v1", "team"))
	in := input(localPod(label("team", "blue")), shadowPod(), nil)
	actions, err := decide(t.Context(), d, in)
	require.NoError(t, err)
	assert.Equal(t, "keep NoRemotePod, patch +policy.longshore.dev/decisions", summary(actions), "the decisions about the spec are unknown")
	in = remember(in, actions)
	actions, err = decide(t.Context(), d, in)
	require.NoError(t, err)
	assert.Equal(t, "keep NoRemotePod, keep MetadataUpToDate", summary(actions))
	in.Facts.PolicyRevision++
	actions, err = decide(t.Context(), d, in)
	require.NoError(t, err)
	assert.Equal(t, "keep NoRemotePod, patch +policy.longshore.dev/decisions", summary(actions), "written again after a change of the policies")
}
