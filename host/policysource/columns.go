package policysource

import (
	"fmt"
	"slices"
	"strings"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// columnWidth bounds what a column of `kubectl get` says, in bytes, but for the number of those
// left out.
const columnWidth = 40

// pointsColumn begins the points: "PodMutation".
func pointsColumn(points []policyv1alpha1.ExtensionPoint) string {
	names := make([]string, len(points))
	for i := range points {
		names[i] = string(points[i])
	}
	return column(names)
}

// readsColumn begins what a module reads, points together: "/object/spec/tolerations".
func readsColumn(manifest *policyv1alpha1.ManifestSummary) string {
	var paths []string
	for i := range manifest.Points {
		paths = append(paths, manifest.Points[i].Reads...)
	}
	return column(paths)
}

// writesColumn begins what a module may write, points together: "set
// /spec/containers[*]/image".
func writesColumn(manifest *policyv1alpha1.ManifestSummary) string {
	var rules []string
	for i := range manifest.Points {
		for _, rule := range manifest.Points[i].Writes {
			verbs := make([]string, len(rule.Verbs))
			for v := range rule.Verbs {
				verbs[v] = string(rule.Verbs[v])
			}
			rules = append(rules, strings.Join(verbs, "|")+" "+rule.Path)
		}
	}
	return column(rules)
}

// column joins as many items as fit, the first at least, cut if need be, and says how many
// are left out.
func column(items []string) string {
	slices.Sort(items)
	items = slices.Compact(items)
	if len(items) == 0 {
		return ""
	}
	shown := items[0]
	if len(shown) > columnWidth {
		shown = strings.ToValidUTF8(shown[:columnWidth-len("…")], "") + "…"
	}
	for i, item := range items[1:] {
		if len(shown)+len(", ")+len(item) > columnWidth {
			return fmt.Sprintf("%s, %d more", shown, len(items)-1-i)
		}
		shown += ", " + item
	}
	return shown
}
