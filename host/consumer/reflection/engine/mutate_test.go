package engine

import (
	"context"
	"errors"
	stdmaps "maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answer is what the ResourceMutation policies of a test say at present about the
// ConfigMap "settings".
type answer struct {
	skip string
	data map[string]any
	err  error
}

// mutator answers; nil keeps objects as they are.
type mutator struct{ now atomic.Pointer[answer] }

func (m *mutator) mutate(_ context.Context, local, _ client.Object, content map[string]any, empty func() client.Object) (*Mutation, error) {
	now := m.now.Load()
	switch {
	case now == nil || local.GetName() != "settings":
		return nil, nil
	case now.err != nil:
		return nil, now.err
	case now.skip != "":
		return &Mutation{Skip: now.skip}, nil
	}
	next := stdmaps.Clone(content)
	data, _ := next["data"].(map[string]any)
	data = stdmaps.Clone(data)
	stdmaps.Copy(data, now.data)
	next["data"] = data
	target := empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(next, target); err != nil {
		return nil, err
	}
	return &Mutation{Content: next, Object: target, By: `policy "p"`}, nil
}

// frozen is maps, but of ConfigMaps whose data cannot be changed.
type frozen struct{ maps }

func (frozen) Replaces(want, there client.Object) (bool, string) {
	wanted, isMap := want.(*corev1.ConfigMap)
	copied, isMapToo := there.(*corev1.ConfigMap)
	return isMap && isMapToo && !stdmaps.Equal(wanted.Data, copied.Data), ""
}

// mutated runs an engine whose policies first give the answer about settings.
func mutated(t *testing.T, definition Definition, first *answer) (*env, *mutator) {
	t.Helper()
	m := &mutator{}
	m.now.Store(first)
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	return startWith(t, local, remote, func(o *Options) { o.Mutate = m.mutate }, definition), m
}

// say has the policies answer otherwise.
func (w *env) say(m *mutator, next *answer) {
	m.now.Store(next)
	w.engine.PoliciesChanged()
}

func (w *env) absent(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, ok := get(t.Context(), w.remote.WithWatch, "shop-rome", name, &corev1.ConfigMap{})
		return !ok
	}, soon, tick)
}

func TestAPolicyChangesTheAppliedObject(t *testing.T) {
	w, m := mutated(t, maps{}, &answer{data: map[string]any{"k": "changed", "more": "x"}})
	assert.Equal(t, "x", w.remoteData(t, "settings", "changed").Data["more"])

	// Asked again, it answers the same, and nothing is sent.
	before := w.remote.count("patch ConfigMap")
	w.engine.PoliciesChanged()
	w.fence(t, "fence")
	assert.Equal(t, before+1, w.remote.count("patch ConfigMap"), "the fence's only")

	// Changes in the provider are reverted to the result of the policy.
	there := w.remoteData(t, "settings", "changed")
	there.Data["k"] = "drifted"
	require.NoError(t, w.remote.Update(t.Context(), there))
	w.remoteData(t, "settings", "changed")

	w.say(m, nil)
	assert.NotContains(t, w.remoteData(t, "settings", "1").Data, "more", "nothing of what it said stays")
	assert.Empty(t, w.journal.all())
}

func TestAPolicyThatSkipsDeletesTheRemoteObject(t *testing.T) {
	w, m := mutated(t, maps{}, nil)
	w.remoteData(t, "settings", "1")
	w.remote.fail("delete ConfigMap", apierrors.NewServiceUnavailable("etcd"))
	w.say(m, &answer{skip: "it is of use at home only"})
	w.absent(t, "settings")
	require.Eventually(t, func() bool { return len(w.journal.all()) == 1 }, soon, tick)
	w.engine.PoliciesChanged()
	w.fence(t, "fence")
	assert.Equal(t, []string{"shop/settings ReflectionDisabled"}, w.journal.all(), "recorded once, as for the skip annotation")

	w.say(m, nil)
	w.remoteData(t, "settings", "1")
}

func TestAFailedPolicyBlocksTheObject(t *testing.T) {
	w, m := mutated(t, maps{}, &answer{err: errors.New("policy p gave no valid answer")})
	require.Eventually(t, func() bool { return len(w.journal.all()) == 1 }, soon, tick)
	w.absent(t, "settings")
	w.say(m, nil)
	w.remoteData(t, "settings", "1")

	// What is there already stays as it is.
	w.say(m, &answer{err: errors.New("policy p gave no valid answer again")})
	require.Eventually(t, func() bool { return len(w.journal.all()) == 2 }, soon, tick)
	w.remoteData(t, "settings", "1")
	assert.Equal(t, []string{"shop/settings FailedReflection", "shop/settings FailedReflection"}, w.journal.all())
}

func TestAPolicyThatChangesImmutableFieldsReplacesTheObject(t *testing.T) {
	w, m := mutated(t, frozen{}, &answer{data: map[string]any{"k": "changed"}})
	w.remoteData(t, "settings", "changed")
	w.engine.PoliciesChanged()
	w.fence(t, "fence")
	assert.Zero(t, w.remote.count("delete ConfigMap"), "it is what the policy made of it, not what it is at home, that counts")
	w.say(m, &answer{data: map[string]any{"k": "changed again"}})
	w.remoteData(t, "settings", "changed again")
	assert.Equal(t, 1, w.remote.count("delete ConfigMap"))
	w.say(m, nil)
	w.remoteData(t, "settings", "1")
}

// listener keeps the messages of events.
type listener struct {
	mu   sync.Mutex
	said []string
}

func (l *listener) Event(_ runtime.Object, _, _, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, message)
}

func (l *listener) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.said...)
}

func TestEventsNameThePolicy(t *testing.T) {
	tests := map[string]struct {
		answer answer
		fault  error
		want   string
	}{
		"which left it what the provider refuses": {
			answer{data: map[string]any{"k": "changed"}},
			apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "settings", errors.New("it is too large")),
			`Reflection to cluster milan failed: applying remote configmap as changed by policy "p"`,
		},
		"which skipped it": {answer: answer{skip: `policy "p" skips the object: HomeOnly: why`}, want: `Not reflected to cluster milan: policy "p" skips the object: HomeOnly: why`},
		"which failed":     {answer: answer{err: errors.New(`policy "p" failed`)}, want: `Reflection to cluster milan failed: policy "p" failed`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, recorded := &mutator{}, &listener{}
			m.now.Store(&tc.answer)
			local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
			if tc.fault != nil {
				remote.fail("patch ConfigMap", tc.fault)
			}
			startWith(t, local, remote, func(o *Options) {
				o.Mutate, o.Recorder = m.mutate, func(string) Recorder { return recorded }
			}, maps{})
			require.Eventually(t, func() bool { return len(recorded.all()) > 0 }, soon, tick)
			assert.Contains(t, recorded.all()[0], tc.want)
		})
	}
}
