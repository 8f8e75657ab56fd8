package policysource

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/plan"
)

const (
	// maxAssessments bounds how many results are remembered for admission, and assessmentAge
	// for how long: retries of the same content follow within minutes.
	maxAssessments = 64
	assessmentAge  = 10 * time.Minute
)

// assessment is the result of loading a module and checking settings with it.
type assessment struct {
	at time.Time
	// module describes the module; nil if it cannot be loaded.
	module chain.Policy
	// problem with the module, the points or the settings.
	problem *plan.Problem
}

// assessments has the latest results by content. It is safe for concurrent use.
type assessments struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	known map[[sha256.Size]byte]assessment
	order [][sha256.Size]byte
}

func newAssessments(clock clock.PassiveClock) *assessments {
	return &assessments{clock: clock, known: map[[sha256.Size]byte]assessment{}}
}

// assessmentKey is a hash of everything that an assessment depends on: module, limits, points,
// settings, and the name of the policy, which is part of messages and may imply a point.
func assessmentKey(policy *policyv1alpha1.OffloadingPolicy, key moduleKey) ([sha256.Size]byte, error) {
	content := struct {
		Name, Content string
		Limits        ModuleLimits
		Points        []policyv1alpha1.ExtensionPoint
		Settings      []byte
	}{Name: policy.Name, Content: key.content, Limits: key.limits, Points: policy.Spec.Points}
	if policy.Spec.Settings != nil {
		content.Settings = policy.Spec.Settings.Raw
	}
	data, err := json.Marshal(content)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("encoding the content of policy %q: %w", policy.Name, err)
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
	if _, ok := a.known[key]; !ok {
		a.order = append(a.order, key)
	}
	found.at = a.clock.Now()
	a.known[key] = found
	for len(a.order) > maxAssessments {
		delete(a.known, a.order[0])
		a.order = append(a.order[:0:0], a.order[1:]...)
	}
}
