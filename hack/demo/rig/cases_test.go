package rig_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
)

const (
	// casePatience is how long a case waits for what it expects.
	casePatience = 2 * time.Minute
	// caseOwner is the field manager of what a case applies.
	caseOwner = "case"
)

// reported is a case: what somebody reported, as manifests and what must follow. cases/README.md
// describes the steps.
type reported struct {
	About string `json:"about"`
	// IsAlone is set for cases that change what others see.
	IsAlone bool         `json:"alone"`
	Steps   []reportStep `json:"steps"`
}

// reportStep does or expects one thing; In is the cluster.
type reportStep struct {
	In      string       `json:"in"`
	Apply   string       `json:"apply"`
	Refused string       `json:"refused"`
	Status  string       `json:"status"`
	Delete  string       `json:"delete"`
	Expect  string       `json:"expect"`
	Absent  string       `json:"absent"`
	Event   *reportEvent `json:"event"`
	Run     string       `json:"run"`
	Code    int          `json:"code"`
	Says    []string     `json:"says"`
}

type reportEvent struct {
	Namespace string `json:"namespace"`
	Of        string `json:"of"`
	Reason    string `json:"reason"`
	Says      string `json:"says"`
}

// TestReportedCases runs each file of the folder of cases on clusters that are peered.
func TestReportedCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("cases/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	d := start(t)
	d.prepare(t)
	require.NoError(t, d.CreateVirtualNode(t.Context(), rig.Capacity("64", "256Gi", "500"), quiet))
	// The tests of the group end before the clusters do.
	t.Run("case", func(t *testing.T) {
		for _, alone := range []bool{true, false} {
			for _, file := range files {
				content, err := os.ReadFile(file)
				require.NoError(t, err)
				c := &reported{}
				require.NoError(t, yaml.UnmarshalStrict(content, c), file)
				if c.IsAlone != alone {
					continue
				}
				t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
					if !alone {
						t.Parallel()
					}
					c.run(t, d)
				})
			}
		}
	})
}

func (c *reported) run(t *testing.T, d *demo) {
	s := newShell(t, d)
	clusters := map[string]*rig.Cluster{"rome": d.Rome, "milan": d.Milan}
	for i := range c.Steps {
		step := &c.Steps[i]
		where := fmt.Sprintf("%s\nstep %d", c.About, i+1)
		if step.Run != "" {
			step.runs(t, s, where)
			continue
		}
		cluster := clusters[step.In]
		require.NotNil(t, cluster, "%s: in must be rome or milan", where)
		step.do(t, cluster, where)
	}
}

func (step *reportStep) do(t *testing.T, c *rig.Cluster, where string) {
	t.Helper()
	switch {
	case step.Apply != "":
		err := c.Apply(t.Context(), documents(t, step.Apply)...)
		if step.Refused != "" {
			require.ErrorContains(t, err, step.Refused, where)
			return
		}
		require.NoError(t, err, where)
	case step.Status != "":
		for _, object := range documents(t, step.Status) {
			require.NoError(t, c.Status().Patch(t.Context(), object, client.Apply, client.FieldOwner(caseOwner), client.ForceOwnership), where) //nolint:staticcheck // Apply takes no unstructured status
		}
	case step.Delete != "":
		for _, object := range documents(t, step.Delete) {
			require.NoError(t, c.Delete(t.Context(), object), where)
		}
	case step.Expect != "":
		for _, object := range documents(t, step.Expect) {
			expectObject(t, c, object.(*unstructured.Unstructured), where) //nolint:forcetypeassert // documents makes no other
		}
	case step.Absent != "":
		for _, object := range documents(t, step.Absent) {
			planetest.Until(t, func(t planetest.T) bool {
				return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			}, casePatience, every, "%s: %s does not exist", where, object.GetName())
		}
	case step.Event != nil:
		step.Event.expect(t, c, where)
	default:
		require.Fail(t, "the step does nothing", where)
	}
}

// documents are the objects in a YAML text.
func documents(t *testing.T, text string) []client.Object {
	t.Helper()
	var objects []client.Object
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &object.Object), document)
		objects = append(objects, object)
	}
	return objects
}

func expectObject(t *testing.T, c *rig.Cluster, want *unstructured.Unstructured, where string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		have := &unstructured.Unstructured{}
		have.SetGroupVersionKind(want.GroupVersionKind())
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(want), have))
		return assert.Empty(t, missing("", have.Object, want.Object))
	}, casePatience, every, "%s: %s %s", where, want.GetKind(), want.GetName())
}

// missing says what an object does not have of what is wanted. Items of a list may be anywhere in it;
// null wants no value; "...text..." wants a text that contains it.
func missing(path string, have, want any) string {
	switch want := want.(type) {
	case nil:
		if have != nil {
			return fmt.Sprintf("%s is %v, want none", path, have)
		}
	case map[string]any:
		haveMap, _ := have.(map[string]any)
		for key, value := range want {
			if lack := missing(path+"."+key, haveMap[key], value); lack != "" {
				return lack
			}
		}
	case []any:
		haveList, _ := have.([]any)
		if len(want) == 0 && len(haveList) > 0 {
			return fmt.Sprintf("%s is %v, want no item", path, have)
		}
		for _, item := range want {
			if !slices.ContainsFunc(haveList, func(have any) bool { return missing("", have, item) == "" }) {
				return fmt.Sprintf("%s is %v, want an item %v", path, have, item)
			}
		}
	case string:
		text, _ := have.(string)
		part, isPart := strings.CutPrefix(want, "...")
		part = strings.TrimSuffix(part, "...")
		if isPart && strings.Contains(text, part) || text == want && have != nil {
			return ""
		}
		return fmt.Sprintf("%s is %v, want %q", path, have, want)
	default:
		if fmt.Sprint(have) != fmt.Sprint(want) {
			return fmt.Sprintf("%s is %v, want %v", path, have, want)
		}
	}
	return ""
}

func (e *reportEvent) expect(t *testing.T, c *rig.Cluster, where string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		list := &corev1.EventList{}
		require.NoError(t, c.List(t.Context(), list, client.InNamespace(e.Namespace)))
		var others []string
		for i := range list.Items {
			event := &list.Items[i]
			if event.InvolvedObject.Name != e.Of {
				continue
			}
			if event.Reason == e.Reason && strings.Contains(event.Message, e.Says) {
				return true
			}
			others = append(others, event.Reason+": "+event.Message)
		}
		return assert.Fail(t, "no such event", "others of %s: %q", e.Of, others)
	}, casePatience, every, "%s: event %s", where, e.Reason)
}

// runs runs a command line until it says what is expected.
func (step *reportStep) runs(t *testing.T, s *shell, where string) {
	t.Helper()
	line := step.Run
	if after, isKubectl := strings.CutPrefix(line, "kubectl "); isKubectl {
		var err error
		s.program, err = rig.LinkKubectl(t.Context(), t.TempDir())
		require.NoError(t, err, where)
		line = after
	}
	planetest.Until(t, func(t planetest.T) bool {
		out, errs, code := s.run(t, line, "")
		for _, text := range step.Says {
			require.Contains(t, out+errs, text)
		}
		return assert.Equal(t, step.Code, code, "%s%s", out, errs)
	}, casePatience, time.Second, "%s: %s", where, step.Run)
}

func TestWhatACaseMisses(t *testing.T) {
	have := map[string]any{
		"a": "some text", "n": int64(2), "list": []any{map[string]any{"name": "x", "v": int64(1)}, map[string]any{"name": "y"}}, "empty": "",
	}
	for _, tc := range []struct {
		want map[string]any
		lack string
	}{
		{map[string]any{"a": "some text", "n": float64(2), "empty": ""}, ""},
		{map[string]any{"a": "...me te...", "gone": nil}, ""},
		{map[string]any{"list": []any{map[string]any{"name": "y"}, map[string]any{"v": int64(1)}}}, ""},
		{map[string]any{"a": "some"}, `.a is some text, want "some"`},
		{map[string]any{"b": ""}, `.b is <nil>, want ""`},
		{map[string]any{"n": nil}, `.n is 2, want none`},
		{map[string]any{"a": "...other..."}, `.a is some text, want "...other..."`},
		{map[string]any{"list": []any{}}, `.list is [map[name:x v:1] map[name:y]], want no item`},
		{map[string]any{"list": []any{map[string]any{"name": "z"}}}, `.list is [map[name:x v:1] map[name:y]], want an item map[name:z]`},
		{map[string]any{"n": float64(3)}, `.n is 2, want 3`},
	} {
		assert.Equal(t, tc.lack, missing("", have, tc.want), "%v", tc.want)
	}
}
