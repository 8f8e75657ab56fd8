package quota

import (
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const testUser = "gpu-0123456789ab"

func list(cpu string, pods int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI)}
}

func shadowPod(name string, cpu string) *offloadingv1beta1.ShadowPod {
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "shop-rome", Labels: map[string]string{offloadingv1beta1.CreatorUserLabel: testUser},
	}}
	shadow.Spec.Pod.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	return shadow
}

// watchEvent is a change of a ShadowPod as a watch delivers it.
type watchEvent struct {
	shadow  *offloadingv1beta1.ShadowPod
	deleted bool
}

// simulation is an API server with webhook replicas whose watches lag.
type simulation struct {
	t        *testing.T
	random   *rand.Rand
	clock    *clocktesting.FakeClock
	version  uint64
	uids     int
	stored   map[string]*offloadingv1beta1.ShadowPod
	events   []watchEvent
	quota    *offloadingv1beta1.Quota
	inFlight []*creation
	// running are the pods of ShadowPods that were deleted. The manager has seen the events before managed.
	running  []*ended
	managed  int
	replicas []*replica
	// requests of ShadowPods, computed once.
	requests map[*offloadingv1beta1.ShadowPod]corev1.ResourceList

	admitted, denied, conflicts, stale, lost int
}

// creation is a request that was admitted and is not stored yet.
type creation struct {
	shadow *offloadingv1beta1.ShadowPod
	since  time.Time
}

// ended is a ShadowPod that was deleted, whose pod runs.
type ended struct {
	name     string
	version  uint64
	requests corev1.ResourceList
}

// replica is a webhook: what its watches have delivered so far.
type replica struct {
	account *Account
	next    int
	quota   *offloadingv1beta1.Quota
}

func newSimulation(t *testing.T, seed int64) *simulation {
	t.Helper()
	s := &simulation{
		t: t, random: rand.New(rand.NewSource(seed)), clock: clocktesting.NewFakeClock(time.Unix(1e9, 0)), stored: map[string]*offloadingv1beta1.ShadowPod{},
		requests: map[*offloadingv1beta1.ShadowPod]corev1.ResourceList{},
		quota:    &offloadingv1beta1.Quota{},
	}
	s.grant()
	for range 3 {
		s.replicas = append(s.replicas, &replica{})
		s.restart(s.replicas[len(s.replicas)-1])
	}
	return s
}

func (s *simulation) nextVersion() string {
	s.version++
	return strconv.FormatUint(s.version, 10)
}

// grant changes the grant.
func (s *simulation) grant() {
	s.quota = s.quota.DeepCopy()
	s.quota.Spec.Resources, s.quota.ResourceVersion = list(strconv.Itoa(2+s.random.Intn(6)), int64(3+s.random.Intn(8))), s.nextVersion()
}

// names returns the names of stored ShadowPods, sorted: a seed always gives the same run.
func (s *simulation) names() []string { return slices.Sorted(maps.Keys(s.stored)) }

func (s *simulation) replica() *replica { return s.replicas[s.random.Intn(len(s.replicas))] }

// restart starts a replica again: it lists ShadowPods, in any order, and has an older Quota. It knows of no
// deletion that the manager has not seen.
func (s *simulation) restart(r *replica) {
	s.manage(len(s.events))
	r.account, r.next, r.quota = NewAccount(s.clock), len(s.events), s.quota.DeepCopy()
	names := s.names()
	s.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		r.account.handle(s.stored[name].DeepCopy(), r.account.observe)
	}
}

// reconnect lists again after a broken watch: deletions between have no version.
func (s *simulation) reconnect(r *replica) {
	s.manage(len(s.events))
	for _, e := range s.events[r.next:] {
		if e.deleted {
			before := e.shadow.DeepCopy()
			before.ResourceVersion = "1"
			r.account.handleDeletion(toolscache.DeletedFinalStateUnknown{Obj: before})
		}
	}
	for _, name := range s.names() {
		shadow := s.stored[name]
		r.account.handle(shadow.DeepCopy(), r.account.observe)
	}
	r.next = len(s.events)
}

func (s *simulation) deliver(r *replica, most int) {
	for ; most > 0 && r.next < len(s.events); most-- {
		e := s.events[r.next]
		r.next++
		if e.deleted {
			r.account.handleDeletion(e.shadow.DeepCopy())
		} else {
			r.account.handle(e.shadow.DeepCopy(), r.account.observe)
		}
	}
}

// manage has the manager see more events, and write what pods hold whose ShadowPods are gone.
func (s *simulation) manage(most int) {
	before := s.quota.Status
	s.managed = min(s.managed+most, len(s.events))
	newest, held := parseVersion(before.EndingResourceVersion), corev1.ResourceList{}
	for _, e := range s.events[:s.managed] {
		if e.deleted {
			newest = max(newest, parseVersion(e.shadow.ResourceVersion))
		}
	}
	for _, pod := range s.running {
		if pod.version <= newest {
			add(held, pod.requests)
		}
	}
	version := strconv.FormatUint(newest, 10)
	if version == before.EndingResourceVersion && equal(held, before.Ending) {
		return
	}
	s.quota = s.quota.DeepCopy()
	s.quota.Status.Ending, s.quota.Status.EndingResourceVersion, s.quota.ResourceVersion = held, version, s.nextVersion()
}

// end ends the pod of a ShadowPod that was deleted.
func (s *simulation) end() {
	if len(s.running) > 0 {
		i := s.random.Intn(len(s.running))
		s.running = slices.Delete(s.running, i, i+1)
	}
}

// write updates the status as the API server does: only over the version that was read.
func (s *simulation) write(r *replica, status *offloadingv1beta1.QuotaStatus) bool {
	if r.quota.ResourceVersion != s.quota.ResourceVersion {
		s.conflicts++
		r.quota = s.quota.DeepCopy()
		return false
	}
	s.quota = s.quota.DeepCopy()
	s.quota.Status, s.quota.ResourceVersion = *status, s.nextVersion()
	r.quota = s.quota.DeepCopy()
	return true
}

// decide decides on requests together until the result is written, and catches up when it is stale.
// Without a request, it refreshes the status. The error concerns all of them.
func (s *simulation) decide(r *replica, batch ...*call) (errs []error, err error) {
	enforcer := &Enforcer{Account: r.account, Clock: s.clock}
	for {
		errs := make([]error, len(batch))
		next, err := enforcer.reserveAll(testUser, r.quota, batch, errs)
		if errors.Is(err, errStale) || errors.Is(err, errUnconfirmed) {
			s.stale++
			s.manage(len(s.events))
			var items []offloadingv1beta1.ShadowPod
			for _, shadow := range s.stored {
				items = append(items, *shadow.DeepCopy())
			}
			r.account.replace(testUser, items, s.version, s.clock.Now())
			continue
		}
		if err != nil || next == nil {
			return errs, err
		}
		before := r.quota
		if !s.write(r, &next.Status) {
			continue
		}
		if s.random.Intn(20) == 0 {
			s.lost++
			r.quota = before
			return errs, errLost
		}
		return errs, nil
	}
}

// errLost is the error of a write whose answer was lost.
var errLost = errors.New("timeout")

// requestsOf returns what a ShadowPod requests.
func (s *simulation) requestsOf(shadow *offloadingv1beta1.ShadowPod) corev1.ResourceList {
	known, ok := s.requests[shadow]
	if !ok {
		var err error
		known, err = Requests(&shadow.Spec.Pod)
		require.NoError(s.t, err)
		s.requests[shadow] = known
	}
	return known
}

// used returns the sum of the live pods.
func (s *simulation) used() corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, shadow := range s.stored {
		if !isFinished(shadow) {
			add(sum, s.requestsOf(shadow))
		}
	}
	return sum
}

func (s *simulation) newShadowPod() *offloadingv1beta1.ShadowPod {
	shadow := shadowPod(fmt.Sprintf("pod-%d", s.random.Intn(12)), fmt.Sprintf("%dm", 100*(1+s.random.Intn(15))))
	s.uids++
	shadow.UID = types.UID(fmt.Sprintf("uid-%d", s.uids))
	return shadow
}

func (s *simulation) create(r *replica) {
	var batch []*call
	for range 1 + s.random.Intn(4) {
		batch = append(batch, &call{shadow: s.newShadowPod()})
	}
	s.request(r, batch...)
}

// resize requests other resources for a live ShadowPod.
func (s *simulation) resize(r *replica) {
	s.change(func(name string, stored *offloadingv1beta1.ShadowPod) {
		if isFinished(stored) {
			return
		}
		shadow := shadowPod(name, fmt.Sprintf("%dm", 100*(1+s.random.Intn(15))))
		shadow.UID, shadow.ResourceVersion = stored.UID, stored.ResourceVersion
		s.request(r, &call{before: stored, shadow: shadow})
	})
}

// request sends ShadowPods, or changes of stored ones, through the webhook of a replica, which decides on
// them together.
func (s *simulation) request(r *replica, batch ...*call) {
	before := s.worst()
	errs, err := s.decide(r, batch...)
	if errors.Is(err, errLost) {
		return
	}
	require.NoError(s.t, err)
	for i, c := range batch {
		var denied *Denied
		if errors.As(errs[i], &denied) {
			s.denied++
			continue
		}
		require.NoError(s.t, errs[i])
		s.admitted++
		s.inFlight = append(s.inFlight, &creation{c.shadow, s.clock.Now()})
	}
	grant := r.quota.Spec.Resources
	for name, amount := range s.worst() {
		// A grant may have been reduced below what runs.
		if have, limit := before[name], grant[name]; amount.Cmp(have) > 0 {
			require.LessOrEqual(s.t, amount.Cmp(limit), 0, "%s: %s of %s could run", name, amount.String(), limit.String())
		}
	}
}

// worst returns the sum of the pods if all requests in flight are stored that can be. Of one name there is one
// pod at a time.
func (s *simulation) worst() corev1.ResourceList {
	most := map[string]corev1.ResourceList{}
	for name, shadow := range s.stored {
		if !isFinished(shadow) {
			most[name] = s.requestsOf(shadow)
		}
	}
	for _, c := range s.inFlight {
		if c.shadow.ResourceVersion != "" && !s.isCurrent(c.shadow) {
			continue
		}
		most[c.shadow.Name] = larger(most[c.shadow.Name], s.requestsOf(c.shadow))
	}
	for _, pod := range s.running {
		most[pod.name] = larger(most[pod.name], pod.requests)
	}
	sum := corev1.ResourceList{}
	for _, requests := range most {
		add(sum, requests)
	}
	return sum
}

func (s *simulation) record(shadow *offloadingv1beta1.ShadowPod, deleted bool) {
	shadow.ResourceVersion = s.nextVersion()
	s.events = append(s.events, watchEvent{shadow.DeepCopy(), deleted})
}

// finishCreation stores a creation, unless the name exists or another webhook rejects it.
func (s *simulation) finishCreation(rejected bool) {
	if len(s.inFlight) == 0 {
		return
	}
	i := s.random.Intn(len(s.inFlight))
	shadow := s.inFlight[i].shadow
	s.inFlight = slices.Delete(s.inFlight, i, i+1)
	if _, exists := s.stored[shadow.Name]; rejected || shadow.ResourceVersion == "" && exists || shadow.ResourceVersion != "" && !s.isCurrent(shadow) {
		return
	}
	s.stored[shadow.Name] = shadow
	s.record(shadow, false)
}

// isCurrent reports whether the ShadowPod that an update was made from is the stored one. The API
// server asks the webhooks again otherwise.
func (s *simulation) isCurrent(shadow *offloadingv1beta1.ShadowPod) bool {
	stored := s.stored[shadow.Name]
	return stored != nil && stored.UID == shadow.UID && stored.ResourceVersion == shadow.ResourceVersion
}

func (s *simulation) change(do func(name string, shadow *offloadingv1beta1.ShadowPod)) {
	if names := s.names(); len(names) > 0 {
		name := names[s.random.Intn(len(names))]
		do(name, s.stored[name])
	}
}

// elapse passes time. The API server ends requests after a minute.
func (s *simulation) elapse(d time.Duration) {
	s.clock.Step(d)
	s.inFlight = slices.DeleteFunc(s.inFlight, func(c *creation) bool { return s.clock.Since(c.since) > time.Minute })
}

// refresh writes what is used.
func (s *simulation) refresh(r *replica) {
	for err := errLost; errors.Is(err, errLost); {
		_, err = s.decide(r)
		if !errors.Is(err, errLost) {
			require.NoError(s.t, err)
		}
	}
}

func (s *simulation) step() {
	switch n := s.random.Intn(100); {
	case n < 22:
		s.create(s.replica())
	case n < 30:
		s.resize(s.replica())
	case n < 50:
		s.finishCreation(false)
	case n < 55:
		s.finishCreation(true)
	case n < 65:
		s.change(func(name string, shadow *offloadingv1beta1.ShadowPod) {
			delete(s.stored, name)
			s.record(shadow, true)
			if !isFinished(shadow) {
				s.running = append(s.running, &ended{name, s.version, s.requestsOf(shadow)})
			}
		})
	case n < 70:
		s.change(func(_ string, shadow *offloadingv1beta1.ShadowPod) {
			shadow.Status.Phase = corev1.PodSucceeded
			s.record(shadow, false)
		})
	case n < 88:
		s.deliver(s.replica(), 1+s.random.Intn(4))
	case n < 90:
		s.restart(s.replica())
	case n < 92:
		s.reconnect(s.replica())
	case n < 93:
		s.manage(s.random.Intn(10))
	case n < 94:
		s.end()
	case n < 95:
		s.grant()
		// Every replica decides by the Quota that it has, which may be older: the write fails then.
	case n < 97:
		s.refresh(s.replica())
	default:
		s.elapse(time.Duration(s.random.Intn(60)) * time.Second)
	}
}

// TestAnyInterleavingKeepsTheQuota checks after each admission that what runs, and what could
// still be created, is within the grant, and in the end that what is used is what runs.
func TestAnyInterleavingKeepsTheQuota(t *testing.T) {
	const runs, steps = 100, 400
	admitted, denied, conflicts, stale, lost := 0, 0, 0, 0, 0
	for seed := range int64(runs) {
		s := newSimulation(t, seed)
		for range steps {
			s.step()
		}
		s.elapse(2 * time.Minute)
		for _, r := range s.replicas {
			s.deliver(r, len(s.events))
			r.quota = s.quota.DeepCopy()
			s.refresh(r)
			require.True(t, equal(s.used(), s.quota.Status.Used), "seed %d: %v run, %v are used", seed, s.used(), s.quota.Status.Used)
			require.Empty(t, s.quota.Status.Reservations, "seed %d", seed)
		}
		admitted, denied, conflicts, stale, lost = admitted+s.admitted, denied+s.denied, conflicts+s.conflicts, stale+s.stale, lost+s.lost
	}
	for what, count := range map[string]int{"admissions": admitted, "denials": denied, "conflicts": conflicts, "stale caches": stale, "lost answers": lost} {
		assert.Greater(t, count, runs, "the runs have %s", what)
	}
}

func equal(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, amount := range a {
		if have, ok := b[name]; !ok || have.Cmp(amount) != 0 {
			return false
		}
	}
	return true
}
