package policysource

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// maxAssessments bounds what is remembered for admission, and assessmentAge how long: a
	// retry, or the same file applied by several hands, comes within minutes. Only what the
	// bytes, limits and settings themselves lead to is remembered.
	maxAssessments = 64
	assessmentAge  = 10 * time.Minute
)

// assessment is what was found out about a module and settings, by loading it.
type assessment struct {
	at time.Time
	// module as it declares itself; nil when it cannot be loaded.
	module chain.Policy
	// bad says that it cannot be loaded, or what it has against the points or the settings.
	bad *problem
}

// assessments remembers the latest of them by content.
type assessments struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	known  map[[sha256.Size]byte]assessment
	eldest [][sha256.Size]byte
}

func newAssessments(clock clock.PassiveClock) *assessments {
	return &assessments{clock: clock, known: map[[sha256.Size]byte]assessment{}}
}

// assessmentKey is all that an assessment depends on: module, limits, points, settings,
// and the policy's name, which stands in messages and may stand for a point.
func assessmentKey(policy *policyv1alpha1.OffloadingPolicy, key moduleKey) ([sha256.Size]byte, error) {
	said := struct {
		Name, Content string
		Limits        ModuleLimits
		Points        []policyv1alpha1.ExtensionPoint
		Settings      []byte
	}{Name: policy.Name, Content: key.content, Limits: key.limits, Points: policy.Spec.Points}
	if policy.Spec.Settings != nil {
		said.Settings = policy.Spec.Settings.Raw
	}
	data, err := json.Marshal(said)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("encoding what policy %q depends on: %w", policy.Name, err)
	}
	return sha256.Sum256(data), nil
}

func (a *assessments) get(key [sha256.Size]byte) (assessment, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.known[key]
	return found, ok && a.clock.Since(found.at) < assessmentAge
}

func (a *assessments) put(key [sha256.Size]byte, found assessment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, again := a.known[key]; !again {
		a.eldest = append(a.eldest, key)
	}
	found.at = a.clock.Now()
	a.known[key] = found
	for len(a.eldest) > maxAssessments {
		delete(a.known, a.eldest[0])
		a.eldest = append(a.eldest[:0:0], a.eldest[1:]...)
	}
}

// declared is a module that is not there (any more): what it says of itself, or what is
// known of it.
type declared struct {
	name, digest string
	manifest     *contract.Manifest
}

var _ chain.Policy = (*declared)(nil)

func (d *declared) Name() string                 { return d.name }
func (d *declared) Digest() string               { return d.digest }
func (d *declared) Manifest() *contract.Manifest { return d.manifest }

// Call implements chain.Policy; nobody is to ask.
func (*declared) Call(context.Context, string, []byte) ([]byte, engine.Stats, error) {
	return nil, engine.Stats{}, errors.New("there is no module to ask: this is a bug of Longshore")
}
