package volumecopy_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/kit/volumecopy"
)

// volume is a folder with everything that a volume may hold.
func volume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"data/base/1":         strings.Repeat("longshore", 100_000),
		"data/base/empty":     "",
		"data/run.sh":         "#!/bin/sh\n",
		"äöü/ with spaces ..": "x",
		"name/" + strings.Repeat("n", 200) + "/" + strings.Repeat("m", 200): "long",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640))
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "data/run.sh"), 0o750|os.ModeSetgid))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "readonly"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "readonly/file"), []byte("r"), 0o400))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "readonly/file"), time.Time{}, time.Unix(1000, 5)))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "outside")))
	require.NoError(t, os.Symlink("data/run.sh", filepath.Join(dir, "inside")))
	require.NoError(t, os.Link(filepath.Join(dir, "data/base/1"), filepath.Join(dir, "data/base/2")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, volumecopy.LostAndFound), 0o700))
	return dir
}

func sum(t *testing.T, dir string) *volumecopy.Summary {
	t.Helper()
	summary, err := volumecopy.Sum(dir)
	require.NoError(t, err)
	return summary
}

// stream returns what the source sends to a target with the files that it has.
func stream(t *testing.T, source, target string) []byte {
	t.Helper()
	var have, out bytes.Buffer
	require.NoError(t, volumecopy.List(target, &have))
	require.NoError(t, volumecopy.Send(source, &have, &out))
	return out.Bytes()
}

func TestAVolumeIsCopied(t *testing.T) {
	source, target := volume(t), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(target, volumecopy.LostAndFound), 0o700))
	require.NoError(t, os.Chmod(source, 0o2775))
	before := sum(t, source)
	assert.Equal(t, int64(900_000+len("#!/bin/sh\n")+1+4+1), before.Bytes, "a file with two names counts once")
	sent := stream(t, source, target)
	require.NoError(t, volumecopy.Receive(target, bytes.NewReader(sent)))
	assert.Equal(t, before, sum(t, target))
	assert.Equal(t, before, sum(t, source), "the source is not changed")
	info, err := os.Stat(filepath.Join(target, "readonly/file"))
	require.NoError(t, err)
	assert.Equal(t, time.Unix(1000, 5).UnixNano(), info.ModTime().UnixNano())
	assert.NoFileExists(t, filepath.Join(target, "pipe"))

	again := stream(t, source, target)
	assert.Less(t, len(again), 50_000, "files that are there are not sent again; all would be %d bytes", len(sent))
	require.NoError(t, volumecopy.Receive(target, bytes.NewReader(again)))
	assert.Equal(t, before, sum(t, target))
}

// TestACutCopyIsTakenUp cuts the stream at many places.
func TestACutCopyIsTakenUp(t *testing.T) {
	source := volume(t)
	want := sum(t, source)
	sent := stream(t, source, t.TempDir())
	target := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(target, "stale"), []byte("of an earlier attempt"), 0o600))
	const cuts = 40
	for i := range cuts {
		cut := len(sent) * i / cuts / tarBlock * tarBlock // Between entries, too.
		require.ErrorIs(t, volumecopy.Receive(target, bytes.NewReader(sent[:cut])), io.ErrUnexpectedEOF)
		require.FileExists(t, filepath.Join(target, "stale"), "nothing is removed before the end is read")
	}
	require.NoError(t, volumecopy.Receive(target, bytes.NewReader(stream(t, source, target))))
	assert.Equal(t, want, sum(t, target))
	assert.NoFileExists(t, filepath.Join(target, "stale"))
}

const tarBlock = 512

func TestDigestsDiffer(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"content": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "data/run.sh"), []byte("#!/bin/no\n"), 0)
		},
		"mode":          func(dir string) error { return os.Chmod(filepath.Join(dir, "data/run.sh"), 0o755) },
		"mode of root":  func(dir string) error { return os.Chmod(dir, 0o711) },
		"another file":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "more"), nil, 0o600) },
		"a file less":   func(dir string) error { return os.Remove(filepath.Join(dir, "data/base/empty")) },
		"another link":  func(dir string) error { return relink(filepath.Join(dir, "inside"), "data") },
		"an empty path": func(dir string) error { return os.Mkdir(filepath.Join(dir, "folder"), 0o700) },
		"a link less": func(dir string) error {
			name := filepath.Join(dir, "data/base/2")
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if err := os.Remove(name); err != nil {
				return err
			}
			return os.WriteFile(name, content, 0o640)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := volume(t)
			before := sum(t, dir)
			require.NoError(t, change(dir))
			assert.NotEqual(t, before.Digest, sum(t, dir).Digest)
		})
	}
}

func relink(name, target string) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	return os.Symlink(target, name)
}

// TestAStreamReachesNothingElse gives the receiver streams of an attacker.
func TestAStreamReachesNothingElse(t *testing.T) {
	for name, headers := range map[string][]tar.Header{
		"a path upwards":           {{Name: "../escaped", Typeflag: tar.TypeReg, Mode: 0o600}},
		"an absolute path":         {{Name: "/escaped", Typeflag: tar.TypeReg, Mode: 0o600}},
		"a file behind a link":     {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "l/escaped", Typeflag: tar.TypeReg, Mode: 0o600}},
		"a folder behind a link":   {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "l/escaped", Typeflag: tar.TypeDir, Mode: 0o700}},
		"a hard link to elsewhere": {{Name: "l", Typeflag: tar.TypeLink, Linkname: "../secret"}},
		"a link through a link":    {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "m", Typeflag: tar.TypeLink, Linkname: "l/secret"}},
		"a device":                 {{Name: "d", Typeflag: tar.TypeBlock}},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			target := filepath.Join(parent, "volume")
			require.NoError(t, os.Mkdir(target, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(parent, "secret"), []byte("s"), 0o600))
			var out bytes.Buffer
			w := tar.NewWriter(&out)
			for i := range headers {
				headers[i].Uid, headers[i].Gid = os.Getuid(), os.Getgid()
				require.NoError(t, w.WriteHeader(&headers[i]))
			}
			require.NoError(t, w.Close())
			require.Error(t, volumecopy.Receive(target, &out))
			assert.NoFileExists(t, filepath.Join(parent, "escaped"))
			assert.NoDirExists(t, filepath.Join(parent, "escaped"))
			info, err := os.Stat(filepath.Join(parent, "secret"))
			require.NoError(t, err)
			assert.Equal(t, uint64(1), info.Sys().(*syscall.Stat_t).Nlink)
		})
	}
}

func TestDevicesAreRefused(t *testing.T) {
	err := volumecopy.Send("/dev", strings.NewReader(""), io.Discard)
	assert.ErrorContains(t, err, "which is not copied")
}
