package testplane

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestProcessesCollectGarbageLessOftenUnlessTheEnvironmentSaysHow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ own, added, want []string }{
		"GOGC is not set":   {[]string{"PATH=/bin"}, []string{"KWOK_WORKDIR=/k"}, []string{"PATH=/bin", "GOGC=400", "KWOK_WORKDIR=/k"}},
		"GOGC is set":       {[]string{"GOGC=100", "PATH=/bin"}, nil, []string{"GOGC=100", "PATH=/bin"}},
		"an empty GOGC too": {[]string{"GOGC="}, nil, []string{"GOGC="}},
	} {
		assert.Equal(t, test.want, environment(test.own, test.added), name)
	}
}
