package view_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const decisionsKey = "policy.longshore.dev/decisions"

// decided is a decision by a version of a policy, which is the beginning of its digest.
func decided(point contract.Point, policy, version string, effects ...string) chain.Decision {
	d := chain.Decision{Point: point, Binding: policy, Module: "m", Digest: "sha256:" + version}
	for _, effect := range effects {
		verb, path, _ := strings.Cut(effect, " ")
		keys := ""
		if strings.HasSuffix(path, "]") {
			path, keys, _ = strings.Cut(strings.TrimSuffix(path, "]"), "[")
		}
		d.Effects = append(d.Effects, operation.Effect{Verb: contract.Verb(verb), Path: path, Keys: strings.Fields(keys)})
	}
	return d
}

func ignored(d chain.Decision) chain.Decision {
	d.Ignored = "it trapped"
	return d
}

// brief prints an annotation, an entry a line.
func brief(t *testing.T, text string) []string {
	t.Helper()
	entries, err := view.DecodeDecisions(text)
	require.NoError(t, err)
	var lines []string
	for _, e := range entries {
		line := strings.TrimSpace(fmt.Sprintf("%s %s/%s@%s", e.Part, e.Point, e.Policy, e.Digest))
		if e.Ignored {
			line += " ignored"
		}
		for _, op := range append(e.Operations, e.Kept...) {
			line += ", " + op
		}
		if e.Omitted > 0 {
			line = fmt.Sprintf("%s omitted %d", e.Part, e.Omitted)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestEncodeMetadata(t *testing.T) {
	const filter, mutation = contract.MetadataFilter, contract.PodMutation
	atCreation := []chain.Decision{
		decided(filter, "filter", "v1", "remove /metadata/labels[team]"),
		decided(contract.OffloadingPatch, "patch", "v1", "set /spec/runtimeClassName"),
		decided(mutation, "mirror", "v1", "set /spec/containers[*]/image", "merge /metadata/annotations[mirrored]"),
		decided(mutation, "quiet", "v1"),
	}
	unchanged := []string{
		"MetadataFilter/filter@v1, remove /metadata/labels[team]",
		"OffloadingPatch/patch@v1, set /spec/runtimeClassName",
		"PodMutation/mirror@v1, set /spec/containers[*]/image, merge /metadata/annotations[mirrored]",
		"PodMutation/quiet@v1",
	}
	spec := []string{
		"spec OffloadingPatch/patch@v1, set /spec/runtimeClassName",
		"spec PodMutation/mirror@v1, set /spec/containers[*]/image",
		"spec PodMutation/quiet@v1",
	}
	for name, tc := range map[string]struct {
		have string
		now  []chain.Decision
		want []string
	}{
		"the same policies make the same changes": {now: atCreation, want: unchanged},
		"later versions make the same changes": {now: []chain.Decision{
			decided(filter, "filter", "v2", "remove /metadata/labels[team]"),
			decided(mutation, "mirror", "v2", "set /spec/containers[*]/image", "merge /metadata/annotations[mirrored]"),
		}, want: unchanged},
		"changes to the spec are ignored": {now: []chain.Decision{
			decided(filter, "filter", "v1", "remove /metadata/labels[team]"),
			decided(mutation, "mirror", "v2", "set /spec/schedulerName", "merge /metadata/annotations[mirrored]"),
			decided(mutation, "new", "v1", "set /spec/priority"),
		}, want: unchanged},
		"policies without changes to the metadata are ignored": {now: []chain.Decision{
			decided(filter, "filter", "v1", "remove /metadata/labels[team]"), decided(filter, "idle", "v1"),
			decided(mutation, "mirror", "v1", "merge /metadata/annotations[mirrored]"),
		}, want: unchanged},
		"a later version removes another key": {now: []chain.Decision{
			decided(filter, "filter", "v2", "remove /metadata/labels[cost]"),
			decided(contract.OffloadingPatch, "patch", "v2", "set /spec/hostname"),
			decided(mutation, "mirror", "v1", "set /spec/containers[*]/image", "merge /metadata/annotations[mirrored]"),
			decided(mutation, "quiet", "v1"),
		}, want: append(spec[:3:3], "metadata MetadataFilter/filter@v2, remove /metadata/labels[cost]",
			"metadata PodMutation/mirror@v1, merge /metadata/annotations[mirrored]")},
		"the policies were deleted": {now: nil, want: spec},
		"a policy was skipped": {now: []chain.Decision{
			decided(filter, "filter", "v1", "remove /metadata/labels[team]"), ignored(decided(mutation, "mirror", "v2")),
		}, want: append(spec[:3:3], "metadata MetadataFilter/filter@v1, remove /metadata/labels[team]", "metadata PodMutation/mirror@v2 ignored")},
		"an object without decisions": {have: "[]", now: atCreation, want: []string{
			"metadata MetadataFilter/filter@v1, remove /metadata/labels[team]", "metadata PodMutation/mirror@v1, merge /metadata/annotations[mirrored]",
		}},
		"an invalid annotation": {have: "invalid", now: atCreation[:1], want: []string{
			"metadata MetadataFilter/filter@v1, remove /metadata/labels[team]",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			have := tc.have
			if have == "" {
				have = view.EncodeOffload(atCreation, view.MaxDecisionsBytes)
			}
			got := view.EncodeMetadata(have, tc.now, view.MaxDecisionsBytes)
			assert.Equal(t, tc.want, brief(t, got))
			assert.Equal(t, got, view.EncodeMetadata(got, tc.now, view.MaxDecisionsBytes), "once is enough")

			back := view.EncodeMetadata(got, atCreation, view.MaxDecisionsBytes)
			for _, line := range brief(t, back) {
				assert.NotContains(t, line, "cost", "outdated decisions are removed")
			}
		})
	}
}

func TestShortenedDecisionsAboutMetadataAreCompared(t *testing.T) {
	long := func(version string, effects int) []chain.Decision {
		d := []chain.Decision{decided(contract.MetadataFilter, "filter", version), decided(contract.PodMutation, "mirror", version)}
		for i := range effects {
			d[0].Effects = append(d[0].Effects, decided("", "", "", fmt.Sprintf("remove /metadata/labels[%040d]", i)).Effects...)
			d[1].Effects = append(d[1].Effects, decided("", "", "", fmt.Sprintf("set /spec/containers[name=c%d]/image", i)).Effects...)
		}
		return d
	}
	have := view.EncodeOffload(long("v1", 90), view.MaxDecisionsBytes)
	assert.LessOrEqual(t, len(have), view.MaxDecisionsBytes)
	entries, err := view.DecodeDecisions(have)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	assert.Equal(t, []view.Part{view.PartSpec, view.PartMetadata}, []view.Part{entries[0].Part, entries[1].Part})
	assert.Equal(t, fmt.Sprintf("… and %d more", 90-(len(entries[0].Operations)-1)), entries[0].Operations[len(entries[0].Operations)-1])

	assert.Equal(t, have, view.EncodeMetadata(have, long("v2", 90), view.MaxDecisionsBytes), "nothing to write, though both are cut")
	next := view.EncodeMetadata(have, long("v2", 91), view.MaxDecisionsBytes)
	assert.NotEqual(t, have, next)
	assert.Equal(t, next, view.EncodeMetadata(next, long("v2", 91), view.MaxDecisionsBytes))

	for limit := view.MaxDecisionsBytes; limit >= 0; limit -= 97 {
		shorter := view.EncodeMetadata(have, long("v2", 90), limit)
		require.LessOrEqual(t, len(shorter), limit)
		require.Equal(t, shorter, view.EncodeMetadata(shorter, long("v2", 90), limit), "within %d bytes", limit)
		for _, e := range must(view.DecodeDecisions(shorter)) {
			if e.Part != view.PartSpec || e.Omitted > 0 {
				continue
			}
			var left int
			_, err := fmt.Sscanf(e.Operations[len(e.Operations)-1], "… and %d more", &left)
			require.NoError(t, err)
			require.Equal(t, 90, left+len(e.Operations)-1, "what is cut is cut again and counted once, within %d bytes", limit)
		}
	}
}

func must(entries []view.Entry, err error) []view.Entry {
	if err != nil {
		panic(err)
	}
	return entries
}

func TestDecisionsFitBesideOtherAnnotations(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes, want int
	}{
		"few":                          {100, view.MaxDecisionsBytes},
		"many":                         {258000, 256<<10 - 2<<10 - len(decisionsKey) - 258000},
		"as many as Kubernetes allows": {256 << 10, 0},
		"more than Kubernetes allows":  {300 << 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			room := view.DecisionsRoom(map[string]string{"note": strings.Repeat("x", tc.bytes-4), decisionsKey: "is replaced"})
			assert.Equal(t, tc.want, room)
			text := view.EncodeDecisions([]chain.Decision{decided(contract.PodMutation, "p", "v1", "set /spec/hostname")}, room)
			assert.LessOrEqual(t, len(text), room)
			assert.Equal(t, room > 0, text != "")
		})
	}
}

// evaluator answers with decisions, and drops the keys that they drop.
type evaluator []chain.Decision

func (e evaluator) Evaluate(_ context.Context, in chain.Input) (*chain.Result, error) {
	result := &chain.Result{Object: in.Object, Decisions: e}
	for i := range e {
		for _, effect := range e[i].Effects {
			operations, err := operation.Compile([]contract.Operation{{Op: effect.Verb, Path: effect.Path, Keys: effect.Keys}})
			if err != nil {
				return nil, err
			}
			if result.Object, _, err = operation.Apply(result.Object, operations); err != nil {
				return nil, err
			}
			result.Changed = true
		}
	}
	return result, nil
}

func TestReflectMetadataRecordsDecisions(t *testing.T) {
	filter := func(version string, effects ...string) chain.Decision {
		return decided(contract.MetadataFilter, "filter", version, effects...)
	}
	reserved := filter("v1")
	reserved.Kept = []string{"/metadata/labels/liqo.io~1managed-by"}
	const removesTeam = `[{"point":"MetadataFilter","policy":"filter","module":"m","digest":"v1","ops":["remove /metadata/labels[team]"]}]`
	for name, tc := range map[string]struct {
		have string
		now  evaluator
		want string
	}{
		"no change":                             {now: evaluator{filter("v1")}},
		"no policies":                           {},
		"a removed key":                         {now: evaluator{filter("v1", "remove /metadata/labels[team]"), filter("v1")}, want: removesTeam},
		"a later version makes the same change": {have: removesTeam, now: evaluator{filter("v2", "remove /metadata/labels[team]")}, want: removesTeam},
		"a later version makes more changes":    {have: removesTeam, now: evaluator{filter("v2", "remove /metadata/labels[app team]")}, want: strings.NewReplacer("[team]", "[app team]", "v1", "v2").Replace(removesTeam)},
		"the change is gone":                    {have: removesTeam, now: evaluator{filter("v2")}},
		"an invalid annotation is replaced":     {have: "invalid", now: evaluator{filter("v1", "remove /metadata/labels[team]")}, want: removesTeam},
		"a reserved key":                        {now: evaluator{reserved}, want: `[{"point":"MetadataFilter","policy":"filter","module":"m","digest":"v1","kept":["/metadata/labels/liqo.io~1managed-by"]}]`},
		"a skipped policy":                      {now: evaluator{ignored(filter("v1"))}, want: `[{"point":"MetadataFilter","policy":"filter","module":"m","digest":"v1","ignored":true}]`},
	} {
		t.Run(name, func(t *testing.T) {
			local := map[string]string{"note": "x", decisionsKey: "about the local object"}
			labels, annotations, err := view.ReflectMetadata(t.Context(), tc.now, view.MetadataInput{
				APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings",
				Labels: map[string]string{"app": "web", "team": "blue"}, Annotations: local,
			}, tc.have)
			require.NoError(t, err)
			want := map[string]string{"note": "x"}
			if tc.want != "" {
				want[decisionsKey] = tc.want
			}
			assert.Equal(t, want, annotations)
			assert.NotNil(t, labels)
			assert.Equal(t, "about the local object", local[decisionsKey], "the local object is not altered")
		})
	}
}

func TestDecisionsRoomOfAnAdmittedPod(t *testing.T) {
	for name, tc := range map[string]struct{ bytes, want int }{
		"few":                          {100, view.MaxDecisionsBytes},
		"more than half of all":        {200 << 10, view.MaxDecisionsBytes},
		"nearly all":                   {258000, 256<<10 - 2<<10 - len(decisionsKey) - 258000},
		"as many as Kubernetes allows": {256 << 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			raw := fmt.Sprintf(`{"metadata":{"name":"web","annotations":{"note":%q}},"spec":{}}`, strings.Repeat("x", tc.bytes-4))
			result, err := view.AdmitPod(t.Context(), evaluator{}, view.AdmissionInput{Raw: []byte(raw)})
			require.NoError(t, err)
			room, err := result.DecisionsRoom()
			require.NoError(t, err)
			assert.Equal(t, tc.want, room)
		})
	}
}
