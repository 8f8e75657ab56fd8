package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	date  = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	amd64 = platform{"linux", "amd64"}
	arm64 = platform{"linux", "arm64"}
)

func content() []entry {
	return []entry{
		{path: binaryPath, data: []byte("binary"), mode: 0o755},
		{path: kubeletPath, link: "longshore"},
		{path: policiesPath + "/engine/entry.json", data: []byte("{}"), mode: 0o644},
	}
}

// build makes an archive of an image for two platforms and returns its path.
func build(t *testing.T, entries []entry) string {
	t.Helper()
	images := map[platform]v1.Image{}
	for _, p := range []platform{amd64, arm64} {
		image, err := assemble(entries, p, "v1.2.3", date)
		require.NoError(t, err)
		images[p] = image
	}
	index, err := indexOf(images, []platform{amd64, arm64})
	require.NoError(t, err)
	archive := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, writeArchive(archive, filepath.Join(t.TempDir(), "layout"), index, "longshore/longshore:v1.2.3", date))
	return archive
}

// unpack unpacks an archive, as a container runtime does that imports it.
func unpack(t *testing.T, archive string) layout.Path {
	t.Helper()
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	dir := t.TempDir()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		assert.Equal(t, date, header.ModTime.UTC(), header.Name)
		path := filepath.Join(dir, filepath.Clean("/"+header.Name))
		if header.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	read, err := layout.FromPath(dir)
	require.NoError(t, err)
	return read
}

func TestTheArchiveHasAnImageForEachPlatform(t *testing.T) {
	root, err := unpack(t, build(t, content())).ImageIndex()
	require.NoError(t, err)
	top, err := root.IndexManifest()
	require.NoError(t, err)
	require.Len(t, top.Manifests, 1)
	assert.Equal(t, "longshore/longshore:v1.2.3", top.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	assert.Contains(t, top.Manifests[0].Annotations["io.containerd.image.name"], "/longshore/longshore:v1.2.3")
	index, err := root.ImageIndex(top.Manifests[0].Digest)
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		image, err := index.Image(m.Digest)
		require.NoError(t, err)
		config, err := image.ConfigFile()
		require.NoError(t, err)
		assert.Equal(t, m.Platform.Architecture, config.Architecture)
		assert.Equal(t, []string{"/usr/bin/longshore"}, config.Config.Entrypoint)
		assert.Equal(t, "1000:1000", config.Config.User, "not root")
		assert.Equal(t, "v1.2.3", config.Config.Labels["org.opencontainers.image.version"])
		layers, err := image.Layers()
		require.NoError(t, err)
		require.Len(t, layers, 1)
		reader, err := layers[0].Uncompressed()
		require.NoError(t, err)
		assert.Equal(t, map[string]fs.FileMode{
			"usr/": fs.ModeDir | 0o755, "usr/bin/": fs.ModeDir | 0o755, "usr/bin/longshore": 0o755, "usr/bin/virtual-kubelet": fs.ModeSymlink | 0o777,
			"usr/share/": fs.ModeDir | 0o755, "usr/share/longshore/": fs.ModeDir | 0o755, "usr/share/longshore/policies/": fs.ModeDir | 0o755,
			"usr/share/longshore/policies/engine/": fs.ModeDir | 0o755, "usr/share/longshore/policies/engine/entry.json": 0o644,
		}, listing(t, reader))
	}
	assert.Equal(t, []string{"linux/amd64", "linux/arm64"}, platforms)
}

// listing returns the modes of the files of a layer. All belong to root.
func listing(t *testing.T, layer io.Reader) map[string]fs.FileMode {
	t.Helper()
	out := map[string]fs.FileMode{}
	for r := tar.NewReader(layer); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		assert.Zero(t, header.Uid+header.Gid, header.Name)
		out[header.Name] = header.FileInfo().Mode()
		if header.Linkname != "" {
			assert.Equal(t, "longshore", header.Linkname)
		}
	}
}

func TestTheSameContentMakesTheSameBytes(t *testing.T) {
	first, err := os.ReadFile(build(t, content()))
	require.NoError(t, err)
	mixed := content()
	mixed[0], mixed[2] = mixed[2], mixed[0]
	second, err := os.ReadFile(build(t, mixed))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(first, second))
	mixed[2].data = []byte("another binary")
	third, err := os.ReadFile(build(t, mixed))
	require.NoError(t, err)
	assert.False(t, bytes.Equal(first, third))
}

func TestABinaryDependsNeitherOnThePathOfTheCloneNorOnSettings(t *testing.T) {
	var binaries [][]byte
	for _, settings := range []string{"", "-tags=mine"} {
		t.Setenv("GOFLAGS", settings)
		clone := t.TempDir()
		for name, content := range map[string]string{
			"go.mod":           "module example.com/tool\n\ngo 1.26.0\n",
			"cmd/tool/main.go": "package main\n\nimport \"runtime\"\n\nfunc main() {\n\t_, file, _, _ := runtime.Caller(0)\n\tprintln(file)\n}\n",
			"cmd/tool/mine.go": "//go:build mine\n\npackage main\n\nfunc init() { println(1) }\n",
		} {
			path := filepath.Join(clone, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		}
		r := &release{root: clone, version: "v1.2.3"}
		binary := filepath.Join(t.TempDir(), "tool")
		require.NoError(t, r.build(t.Context(), "cmd/tool", amd64, binary))
		data, err := os.ReadFile(binary)
		require.NoError(t, err)
		binaries = append(binaries, data)
	}
	assert.True(t, bytes.Equal(binaries[0], binaries[1]))
}

func TestABillOfMaterialsNamesEachModule(t *testing.T) {
	info := &buildinfo.BuildInfo{
		GoVersion: "go1.26.0", Main: debug.Module{Path: "github.com/longshore-dev/longshore"},
		Deps: []*debug.Module{{Path: "example.com/a", Version: "v1.0.0"}, {Path: "example.com/b", Version: "v2.0.0", Replace: &debug.Module{Path: "example.com/c", Version: "v3.0.0"}}, {Path: "example.com/d", Version: "v0.0.0", Replace: &debug.Module{Path: "./d", Version: "(devel)"}}},
	}
	out, err := billOf(info, "longshorectl", "v1.2.3")
	require.NoError(t, err)
	var bill struct {
		Metadata struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, Purl string }
	}
	require.NoError(t, json.Unmarshal(out, &bill))
	assert.Equal(t, "v1.2.3", bill.Metadata.Component.Version)
	var names []string
	for _, c := range bill.Components {
		names = append(names, c.Purl)
	}
	assert.Equal(t, []string{"pkg:golang/std@go1.26.0", "pkg:golang/example.com/a@v1.0.0", "pkg:golang/example.com/c@v3.0.0", "pkg:golang/example.com/d@v1.2.3"}, names)
	again, err := billOf(info, "longshorectl", "v1.2.3")
	require.NoError(t, err)
	assert.Equal(t, out, again)
}

func TestChecksumsAreOfAllFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	require.NoError(t, writeChecksums(filepath.Join(dir, "SUMS"), []string{filepath.Join(dir, "b"), filepath.Join(dir, "a")}))
	got, err := os.ReadFile(filepath.Join(dir, "SUMS"))
	require.NoError(t, err)
	assert.Equal(t, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a\n3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b\n", string(got))
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for name, args := range map[string][]string{
		"no target":              nil,
		"an unknown target":      {"chart"},
		"an image for Windows":   {"image", "--platforms", "windows/amd64"},
		"a platform of one word": {"image", "--platforms", "amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, run(t.Context(), append(args, []string{}...)))
		})
	}
}

func TestAMissingEmulatorIsReportedBeforeTheBuild(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	other := arm64
	if runtime.GOARCH == other.arch {
		other = amd64
	}
	r := &release{version: "v1.2.3", out: t.TempDir(), platforms: []platform{{"linux", runtime.GOARCH}, other}}
	_, err := r.image(t.Context(), "")
	require.ErrorContains(t, err, "install the package qemu-user-static")
}
