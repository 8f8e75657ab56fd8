package footprint

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadOnlyFindsTheCodeAndNothingThatIsWritten(t *testing.T) {
	maps := []byte(`00400000-01747000 r-xp 00000000 fe:00 123 /usr/bin/long shore
01747000-02bd4000 r--p 01347000 fe:00 123 /usr/bin/long shore
02bd4000-02c73000 rw-p 027d4000 fe:00 123 /usr/bin/long shore
7ffaec9f7000-7ffaecb4d000 r-xp 00026000 fe:00 9 /usr/lib/libc.so.6
7ffaecbf0000-7ffaecbf1000 r-xp 00000000 00:00 0
rubbish
`)
	assert.Equal(t, []mapping{{0x400000, 0x1747000}, {0x1747000, 0x2bd4000}}, readOnly(maps, "/usr/bin/long shore"))
}

func TestShrinkLeavesAProcessThatWorks(t *testing.T) {
	require.NoError(t, Shrink())
	executable, err := os.Executable()
	require.NoError(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	assert.NotEmpty(t, readOnly(maps, executable), "there was something to drop")
}
