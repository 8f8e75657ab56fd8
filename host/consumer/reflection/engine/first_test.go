package engine

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestFirstDecisionsWait(t *testing.T) {
	tests := map[string]struct {
		polls    int
		unfilled int64
		isBusy   bool
		// waits is set if the key waits for the next poll.
		waits bool
	}{
		"while informers are filled":                {unfilled: 2, waits: true},
		"while workers of the resource are busy":    {isBusy: true, waits: true},
		"not while only another resource has a key": {},
		"up to a limit":                             {polls: maxFirstPolls - 1, unfilled: 1, isBusy: true, waits: true},
		"not longer for an informer":                {polls: maxFirstPolls, unfilled: 1},
		"not longer for workers":                    {polls: maxFirstPolls, isBusy: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, other := &runner{queue: newQueue("test", time.Now)}, &runner{queue: newQueue("other", time.Now)}
			e := &Engine{informers: newInformers(t.Context(), nil), runners: []*runner{r, other}, firstPolls: tc.polls}
			e.informers.unfilled.Store(tc.unfilled)
			if tc.isBusy {
				r.queue.Add(named("taken"))
				r.queue.Get()
			}
			other.queue.Add(named("other"))
			for _, runner := range e.runners {
				t.Cleanup(runner.queue.ShutDown)
			}
			assert.Nil(t, e.queueFirst(), "without a key")
			r.decideFirst(firstDecision{named("a"), 1})
			assert.Equal(t, tc.waits, e.queueFirst() != nil)
			assert.Equal(t, tc.waits, r.queue.Len() == 0)
		})
	}
}

func TestFirstDecisionsAreQueuedInPortions(t *testing.T) {
	const keys = 4 * firstPortion
	tests := map[string]struct {
		all  bool
		want []int
	}{
		"each twice as large as the last": {false, []int{firstPortion, 2 * firstPortion, firstPortion}},
		"all when it is late":             {true, []int{keys}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			first := firstDecisions{}
			for i := range keys {
				first.waiting = append(first.waiting, firstDecision{named(strconv.Itoa(i)), uint64(keys - i)})
			}
			age := uint64(0)
			for i, want := range tc.want {
				assert.False(t, first.isOver)
				taken := first.take(tc.all)
				require.Len(t, taken, want, "portion %d", i)
				for _, d := range taken {
					age++
					assert.Equal(t, age, d.age, "the youngest first")
				}
			}
			assert.True(t, first.isOver)
		})
	}
}

func TestKeysThatComeAfterTheFirstDecisionsDoNotWait(t *testing.T) {
	r := &runner{queue: newQueue("test", time.Now)}
	t.Cleanup(r.queue.ShutDown)
	r.decideFirst(firstDecision{named("a"), 1})
	require.Zero(t, r.queue.Len())
	r.first.take(false)
	r.decideFirst(firstDecision{named("later"), 1})
	assert.Equal(t, 1, r.queue.Len())
}

func TestTheAgesOfObjects(t *testing.T) {
	tests := map[string]struct {
		newest  string
		objects map[string]string // versions by name
		want    map[string]uint64
	}{
		"how many versions the server has issued since": {"20", map[string]string{"a": "5", "b": "20"}, map[string]uint64{"a": 15, "b": 0}},
		"newer than the list":                           {"20", map[string]string{"a": "21"}, map[string]uint64{"a": 0}},
		"a version that is no number":                   {"20", map[string]string{"a": "x", "b": "19"}, map[string]uint64{"a": 0, "b": 1}},
		"a server whose versions are no numbers":        {"y", map[string]string{"a": "x", "b": "19"}, map[string]uint64{"a": 0, "b": 0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStore(maps{}.Resource().Local, nil)
			s.newest = tc.newest
			for name, version := range tc.objects {
				s.objects.set(types.NamespacedName(named(name)), s.wrap(configMap(name, "u", version)))
			}
			got := map[string]uint64{}
			s.ages("ns", func(name string, age uint64) { got[name] = age })
			assert.Equal(t, tc.want, got)
		})
	}
}

// decided is [maps] that remembers the order of its first decisions.
type decided struct {
	maps
	mu    sync.Mutex
	names []string
}

func (d *decided) Decide(in Input) ([]Action, error) {
	d.mu.Lock()
	if !slices.Contains(d.names, in.Key.Name) {
		d.names = append(d.names, in.Key.Name)
	}
	d.mu.Unlock()
	return d.maps.Decide(in)
}

func (d *decided) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.names...)
}

// After a restart, objects that have not changed meanwhile would delay those that have.
func TestWhatChangedLastIsDecidedFirst(t *testing.T) {
	local, remote := twoNamespaces(t, localMap("a", nil), localMap("b", nil), localMap("c", nil))
	inBank := localMap("d", nil)
	inBank.Namespace = "bank"
	require.NoError(t, local.Create(t.Context(), inBank))
	for _, name := range []string{"c", "a"} {
		changed, found := get(t.Context(), local, "shop", name, &corev1.ConfigMap{})
		require.True(t, found)
		changed.Data = map[string]string{"k": "2"}
		require.NoError(t, local.Update(t.Context(), changed))
	}
	d := &decided{}
	w := start(t, local, remote, d)
	w.remoteData(t, "b", "")
	assert.Equal(t, []string{"a", "c", "d", "b"}, d.all())
}

func TestAllFirstDecisionsAreMade(t *testing.T) {
	const objects = 4 * firstPortion
	var all []client.Object
	for i := range objects {
		all = append(all, localMap(strconv.Itoa(i), nil))
	}
	local, remote := mapped(t, all...)
	d := &decided{}
	w := start(t, local, remote, d)
	for _, object := range all {
		w.remoteData(t, object.GetName(), "")
	}
	assert.Len(t, d.all(), objects)
}

func TestANamespaceThatCannotBeReadDelaysNoOther(t *testing.T) {
	local, remote := twoNamespaces(t, localMap("settings", map[string]string{"k": "1"}))
	remote.deny("bank-rome", apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil))
	d := &decided{}
	w := start(t, local, remote, d)
	w.remoteData(t, "settings", "1")
	w.end()
	assert.Less(t, w.engine.firstPolls, maxFirstPolls)
}
