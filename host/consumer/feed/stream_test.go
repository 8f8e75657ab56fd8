package feed

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/watch"
)

func TestAWatchBeginsInTheNextStreamIfOneEndsBefore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ended  int
		direct []string
	}{
		"one has ended":  {ended: 1},
		"two have ended": {ended: 2},
		"all have ended": {ended: maxStreams, direct: []string{"one"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig()
			result := make(chan watch.Interface, 1)
			go func() {
				w, err := r.watch(t, "one", "10")
				assert.NoError(t, err)
				result <- w
			}()
			for range tc.ended {
				(<-r.began).Stop()
			}
			if tc.direct == nil {
				w := <-r.began
				w.Action(watch.Bookmark, announce("one", "10"))
				w.Add(configMap("one", "next", "11"))
				assert.Equal(t, "ADDED next 11", next(t, <-result))
			} else {
				<-result
			}
			assert.Equal(t, tc.direct, r.direct)
		})
	}
}
