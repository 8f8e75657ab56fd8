package pod

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

// The engine stops at an action that fails, so a patch that failed is not stored.
func TestFailedMetadataPatchIsSentAgain(t *testing.T) {
	d := definition(&policies{})
	in := input(localPod(label("new", "x")), shadowPod(), nil)
	for try := range 5 {
		actions, err := decide(t.Context(), d, in)
		require.NoError(t, err)
		assert.Equal(t, "keep NoRemotePod, patch +new", summary(actions), "try %d", try)
		for i, action := range actions {
			if _, isPatch := action.(engine.PatchRemote); isPatch {
				in = remember(in, actions[:i]) // the patch fails
			}
		}
	}
}

// Changes by another writer in the provider are reverted with growing pauses, at least every
// five minutes.
func TestMetadataConflictIsRevertedWithGrowingPauses(t *testing.T) {
	d := definition(&policies{})
	next := func(in engine.Input) (engine.Input, []engine.Action) {
		t.Helper()
		actions, err := decide(t.Context(), d, in)
		require.NoError(t, err)
		return remember(in, actions), actions
	}
	in, actions := next(input(localPod(), shadowPod(shadowLabel("provider", "x")), nil))
	assert.Equal(t, "keep NoRemotePod, patch -provider", summary(actions))

	in, actions = next(in)
	assert.Equal(t, "keep NoRemotePod, patch -provider", summary(actions), "the first revert is sent at once")

	events := 0
	for revert := range 12 {
		var wait time.Duration
		in, actions = next(in)
		for _, action := range actions {
			switch a := action.(type) {
			case engine.Requeue:
				wait = a.After
			case engine.RecordEvent:
				events++
				assert.Equal(t, engine.ReasonFailedReflection, a.Reason)
			case engine.PatchRemote:
				t.Fatalf("revert %d is sent without a pause", revert)
			}
		}
		require.Positive(t, wait, "revert %d", revert)
		require.LessOrEqual(t, wait, 5*time.Minute, "the longest pause")
		in.Facts.Now = in.Facts.Now.Add(wait)
		in, actions = next(in)
		assert.Contains(t, summary(actions), "patch -provider", "revert %d", revert)
		assert.Equal(t, revert >= 3, strings.Contains(summary(actions), "event FailedReflection"), "revert %d", revert)
	}
	assert.Equal(t, 9, events, "an event after several reverts")

	t.Run("a value that changes each time is the same conflict", func(t *testing.T) {
		in := in
		in.Remote = shadowPod(shadowLabel("provider", "y"))
		_, actions := next(in)
		assert.NotContains(t, summary(actions), "patch")
	})
	t.Run("a change of the local pod is sent at once", func(t *testing.T) {
		in := in
		in.Local = localPod(label("new", "x"))
		_, actions := next(in)
		assert.Equal(t, "keep NoRemotePod, patch +new -provider", summary(actions))
	})
	t.Run("the count is reset after a while without conflict", func(t *testing.T) {
		in := in
		in.Facts.Now = in.Facts.Now.Add(time.Hour)
		in, actions := next(in)
		assert.Equal(t, "keep NoRemotePod, patch -provider", summary(actions))
		_, actions = next(in)
		assert.Equal(t, "keep NoRemotePod, patch -provider", summary(actions))
	})
}

// What the virtual kubelet records on a ShadowPod is restored with growing pauses, too.
func TestRecordsThatAnotherWriterChangesAreSentLessAndLess(t *testing.T) {
	for name, in := range map[string]engine.Input{
		"readiness gates":    input(localPod(gated, withGate(corev1.ConditionTrue, 1)), shadowPod(), nil),
		"fields of the spec": input(localPod(image("web:2")), shadowPod(madeFrom(localPod())), nil),
	} {
		t.Run(name, func(t *testing.T) {
			d, patches, reported := definition(&policies{}), 0, false
			for range 60 { // The other writer answers every second for a minute.
				actions, err := decide(t.Context(), d, in)
				require.NoError(t, err)
				for _, action := range actions {
					switch a := action.(type) {
					case engine.PatchRemote, engine.PatchRemoteSpec:
						patches++
					case engine.RecordEvent:
						reported = true
						assert.Equal(t, engine.ReasonFailedReflection, a.Reason)
					}
				}
				in = remember(in, actions)
				in.Facts.Now = in.Facts.Now.Add(time.Second)
			}
			assert.Greater(t, patches, 3)
			assert.Less(t, patches, 10)
			assert.True(t, reported)
		})
	}
}
