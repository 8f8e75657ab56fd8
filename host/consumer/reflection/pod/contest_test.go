package pod

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

// sent returns the input with what is remembered once the first n actions were carried
// out: the engine stops at the first that fails.
func sent(in engine.Input, actions []engine.Action, n int) engine.Input {
	return recall(in, actions[:n])
}

// A patch that failed is tried again: only what was sent is remembered.
func TestAMetadataPatchThatFailedIsSentAgain(t *testing.T) {
	d := definition(&policies{})
	in := input(localPod(label("new", "x")), shadowPod(), nil)
	for try := range 5 {
		actions, err := decide(t.Context(), d, in)
		require.NoError(t, err)
		assert.Equal(t, "patch +new", summary(actions), "try %d", try)
		for i, action := range actions {
			if _, isPatch := action.(engine.PatchRemote); isPatch {
				in = sent(in, actions, i) // the patch fails
			}
		}
	}
}

// Another writer in the provider is reverted at once, then with growing pauses, and never
// given up for good (T76).
func TestAContestedLabelIsRevertedWithGrowingPauses(t *testing.T) {
	d := definition(&policies{})
	decide := func(in engine.Input) (engine.Input, []engine.Action) {
		t.Helper()
		actions, err := decide(t.Context(), d, in)
		require.NoError(t, err)
		return recall(in, actions), actions
	}
	in, actions := decide(input(localPod(), shadowPod(shadowLabel("provider", "x")), nil))
	assert.Equal(t, "patch -provider", summary(actions))

	in, actions = decide(in)
	assert.Equal(t, "patch -provider", summary(actions), "the first revert is sent at once")

	told := 0
	for revert := range 12 {
		var wait time.Duration
		in, actions = decide(in)
		for _, action := range actions {
			switch a := action.(type) {
			case engine.Requeue:
				wait = a.After
			case engine.RecordEvent:
				told++
				assert.Equal(t, engine.ReasonFailedReflection, a.Reason)
			case engine.PatchRemote:
				t.Fatalf("revert %d is sent without a pause", revert)
			}
		}
		require.Positive(t, wait, "revert %d", revert)
		require.LessOrEqual(t, wait, 5*time.Minute, "giving way ends")
		in.Facts.Now = in.Facts.Now.Add(wait)
		in, actions = decide(in)
		assert.Contains(t, summary(actions), "patch -provider", "revert %d", revert)
		assert.Equal(t, revert >= 3, strings.Contains(summary(actions), "tell"), "revert %d: the engine records it once while it lasts", revert)
	}
	assert.Equal(t, 9, told, "an event once several reverts were undone")

	t.Run("a value that changes each time is the same conflict", func(t *testing.T) {
		in := in
		in.Remote = shadowPod(shadowLabel("provider", "y"))
		_, actions := decide(in)
		assert.NotContains(t, summary(actions), "patch")
	})
	t.Run("a change of the local pod is sent at once", func(t *testing.T) {
		in := in
		in.Local = localPod(label("new", "x"))
		_, actions := decide(in)
		assert.Equal(t, "patch +new -provider", summary(actions))
	})
	t.Run("after a calm while the count starts anew", func(t *testing.T) {
		in := in
		in.Facts.Now = in.Facts.Now.Add(time.Hour)
		in, actions := decide(in)
		assert.Equal(t, "patch -provider", summary(actions))
		_, actions = decide(in)
		assert.Equal(t, "patch -provider", summary(actions))
	})
}
