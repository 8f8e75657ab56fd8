package policysource

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

func TestColumnsSayWhatAModuleReadsAndWrites(t *testing.T) {
	long := "/" + strings.Repeat("x", columnWidth)
	cases := map[string]struct {
		points        []policyv1alpha1.PointSummary
		reads, writes string
	}{
		"nothing": {},
		"one of each": {
			points: []policyv1alpha1.PointSummary{{Reads: []string{"/object/spec"}, Writes: []policyv1alpha1.WriteRule{{Path: "/spec/tolerations", Verbs: []policyv1alpha1.Verb{"ensure", "require"}}}}},
			reads:  "/object/spec", writes: "ensure|require /spec/tolerations",
		},
		"the same at two points": {
			points: []policyv1alpha1.PointSummary{{Reads: []string{"/b", "/a"}}, {Reads: []string{"/a"}}},
			reads:  "/a, /b",
		},
		"more than fits": {
			points: []policyv1alpha1.PointSummary{{Reads: []string{"/b", "/a", long, "/" + strings.Repeat("c", columnWidth-8)}}},
			reads:  "/a, /b, 2 more",
		},
		"one that is too long by itself": {
			points: []policyv1alpha1.PointSummary{{Reads: []string{long, long + "y"}}},
			reads:  long[:columnWidth-3] + "…, 1 more",
		},
	}
	for name, tc := range cases {
		manifest := &policyv1alpha1.ManifestSummary{Points: tc.points}
		assert.Equal(t, tc.reads, readsColumn(manifest), name)
		assert.Equal(t, tc.writes, writesColumn(manifest), name)
	}
}

func TestColumnOfPoints(t *testing.T) {
	assert.Empty(t, pointsColumn(nil))
	assert.Equal(t, "PodMutation", pointsColumn([]policyv1alpha1.ExtensionPoint{policyv1alpha1.PodMutationPoint}))
	assert.Equal(t, "AntiAffinityPreset, MetadataFilter, 2 more", pointsColumn([]policyv1alpha1.ExtensionPoint{
		policyv1alpha1.PodMutationPoint, policyv1alpha1.OffloadingPatchPoint, policyv1alpha1.MetadataFilterPoint, policyv1alpha1.AntiAffinityPresetPoint,
	}))
}
