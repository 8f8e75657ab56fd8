package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// statLine is /proc/PID/stat with a name that looks like more fields.
func statLine(parent, user, system, pages int) string {
	return fmt.Sprintf("42 (a) 1 (b) S %d 1 1 0 -1 0 0 0 0 0 %d %d 0 0 20 0 9 0 100 900000 %d 18446744073709551615 1 1\n", parent, user, system, pages)
}

func TestParseStat(t *testing.T) {
	stat, err := parseStat([]byte(statLine(7, 150, 50, 512)))
	require.NoError(t, err)
	assert.Equal(t, 7, stat.parent)
	assert.InDelta(t, 2, stat.cpu, 1e-9)
	assert.InDelta(t, 512*float64(os.Getpagesize())/(1<<20), stat.rss, 1e-9)
	for _, bad := range []string{"", "42 (a", "42 (a) S 1 2", strings.Replace(statLine(7, 1, 1, 1), " 7 ", " x ", 1)} {
		_, err := parseStat([]byte(bad))
		assert.Error(t, err, "%q", bad)
	}
}

func TestProcessNames(t *testing.T) {
	tests := map[string]struct {
		arguments []string
		folder    string
		want      string
	}{
		"a control plane":            {[]string{"/x/testplane", "--exit-with-stdin", "cp", "--dir=/d/rome"}, "/d/rome", "plane@rome"},
		"kwok":                       {[]string{"/x/testplane", "--exit-with-stdin", "kwok", "--kubeconfig=/d/milan/pki/kwok.kubeconfig"}, "/src", "kwok@milan"},
		"the manager":                {[]string{"/x/longshore", "manager", "--cluster-id=milan"}, "/d/milan/pods/u1", "longshore/manager@milan"},
		"the virtual kubelet":        {[]string{"/x/longshore", "kubelet", "--foreign-cluster-id=milan"}, "/d/rome/pods/u2", virtualKubelet},
		"any other program":          {[]string{"/usr/bin/sleep", "1"}, "/src", "other/sleep"},
		"a program without anything": {[]string{"true"}, "/", "other/true"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, processName(tc.arguments, tc.folder))
		})
	}
}

func TestProcessesAreThisOneAndItsChildren(t *testing.T) {
	proc := t.TempDir()
	add := func(pid, parent, ticks int, arguments ...string) {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stat"), []byte(statLine(parent, ticks, 0, 256)), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "status"), []byte("Name:\tx\nRssAnon:\t    2048 kB\nRssFile:\t 4 kB\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "cmdline"), []byte(strings.Join(arguments, "\x00")+"\x00"), 0o600))
		require.NoError(t, os.Symlink("/d/rome", filepath.Join(dir, "cwd")))
	}
	add(10, 1, 100, "bench")
	add(11, 10, 200, "longshore", "manager")
	add(12, 10, 300, "testplane", "cp")
	add(13, 1, 400, "longshore", "webhook")
	require.NoError(t, os.Mkdir(filepath.Join(proc, "sys"), 0o755))
	found, err := processes(proc, 10)
	require.NoError(t, err)
	require.Len(t, found, 3)
	assert.InDelta(t, 1, found["bench"].cpu, 1e-9)
	assert.InDelta(t, 2, found["longshore/manager@rome"].cpu, 1e-9)
	assert.InDelta(t, 3, found["plane@rome"].cpu, 1e-9)
	assert.InDelta(t, 2, found["plane@rome"].anonymous, 1e-9)
	assert.Zero(t, parseMemory([]byte("Name:\tx\n"), "RssAnon"))
}

func TestCPUBetween(t *testing.T) {
	before := usages{"longshore/a": {cpu: 1}, "plane@rome": {cpu: 5}}
	after := usages{"longshore/a": {cpu: 3}, "longshore/b": {cpu: 0.5}, "plane@rome": {cpu: 9}}
	w := window{before: before, after: after}
	assert.InDelta(t, 2.5, w.cpu(ours), 1e-9)
	assert.InDelta(t, 6.5, w.cpu(func(string) bool { return true }), 1e-9)
}
